#include "bench/peer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errors.h"

namespace plait {

PeerProcess::PeerProcess(const std::vector<std::string>& command) : name_(command.at(0)) {
  if (access(name_.c_str(), X_OK) != 0)
    input_error("{}: there is no such program here: call plait from the folder of the repository", name_);
  int to[2], from[2];
  // Closed in every program that is started later: a peer sees the end of its input when this end is closed.
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) input_error("{}: no pipe to it", name_);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  signal(SIGPIPE, SIG_IGN);  // a peer that ended shows as the end of its answers
  pid_ = fork();
  if (pid_ == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  to_ = fdopen(to[1], "w");
  from_ = fdopen(from[0], "r");
  if (pid_ < 0) input_error("{}: cannot be started", name_);
}

PeerProcess::~PeerProcess() {
  if (to_) fclose(to_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  if (from_) fclose(from_);
}

std::string PeerProcess::answer() {
  std::string line;
  for (int c = fgetc(from_); c != EOF; c = fgetc(from_)) {
    if (c == '\n') return line;
    line.push_back(static_cast<char>(c));
  }
  input_error("{} ended without an answer: call it by hand to see why", name_);
}

void PeerProcess::send(const std::string& line) {
  fmt::print(to_, "{}\n", line);
  fflush(to_);
}

bool PeerProcess::ready() const {
  pollfd output{.fd = fileno(from_), .events = POLLIN, .revents = 0};
  return poll(&output, 1, 0) > 0;
}

std::string PeerProcess::ask(const std::string& line) {
  send(line);
  return answer();
}

}  // namespace plait

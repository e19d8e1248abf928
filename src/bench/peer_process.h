// Another program that takes turns with this one: it is written a line and answers with a line.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

namespace plait {

class PeerProcess {
 public:
  // Starts command[0] with its arguments; its standard error stays ours. Throws InputError where it cannot be started.
  explicit PeerProcess(const std::vector<std::string>& command);
  // Closes its input and waits for its end.
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // The next line of its output, without the newline. Throws InputError where it has ended.
  std::string answer();
  void send(const std::string& line);
  // Whether it has begun to answer, or has ended.
  bool ready() const;
  std::string ask(const std::string& line);

 private:
  std::string name_;
  int pid_ = -1;
  FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace plait

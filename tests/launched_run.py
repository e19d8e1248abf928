"""Runs of plait that a test starts, watches and ends: threads of one process, or processes under mpirun. Every process
of a run carries a mark in its environment, by which the test finds those that outlive it."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid

SKIPPED = 77
MARK = "PLAIT_TEST_RUN"


def skip_without(wire):
    if wire == "mpi" and subprocess.run(["which", "mpirun"], stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit(SKIPPED)


def marked(mark):
    """Processes of this run, by rank of the launcher (None for the others)."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
            state = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment and state != "Z":
            ranks = [e.split(b"=")[1] for e in environment if e.startswith(b"OMPI_COMM_WORLD_RANK=")]
            found[int(pid)] = int(ranks[0]) if ranks else None
    return found


def catches(pid, number):
    """Whether the process has its own answer to a signal."""
    try:
        status = open(f"/proc/{pid}/status").read()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


class Run:
    """A command, on so many ranks; `output` grows as it speaks."""

    def __init__(self, wire, command, ranks=4, options=(), environment=None, directory=None):
        self.mark = uuid.uuid4().hex
        self.wire = wire
        variables = dict(os.environ, **{MARK: self.mark, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                        "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": "1"})
        variables.update(environment or {})
        launcher = ["mpirun", "-n", str(ranks), *options] if wire == "mpi" else []
        self.process = subprocess.Popen(launcher + command, env=variables, stdout=subprocess.PIPE, cwd=directory,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        self.output = ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            for line in self.process.stdout:
                self.output += line
        except ValueError:  # closed by the test
            pass

    @property
    def code(self):
        return self.process.returncode

    def ranks(self):
        """Process ids: of the ranks, or of the one process whose threads they are."""
        if self.wire == "local":
            return [self.process.pid]
        return [pid for pid, rank in sorted(marked(self.mark).items(), key=lambda p: p[1] or 0) if rank is not None]

    def everything(self):
        return sorted({self.process.pid, *marked(self.mark)})

    def until(self, holds, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.kill()
                sys.exit(f"never came: {what}\n{self.output}")
            time.sleep(0.02)

    def until_says(self, text):
        self.until(lambda: text in self.output, repr(text))

    def send(self, number, pids):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        self.send(signal.SIGCONT, self.everything())
        self.send(signal.SIGKILL, self.everything())
        self.process.wait()

    def end(self, seconds=90):
        """Its code; no process may be left, nor anything in shared memory."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            sys.exit(f"still running after {seconds} s:\n{self.output}")
        self.reader.join(timeout=5)
        deadline = time.monotonic() + 5
        while marked(self.mark):
            if time.monotonic() > deadline:
                left = marked(self.mark)
                self.kill()
                sys.exit(f"processes outlived the run: {left}\n{self.output}")
            time.sleep(0.05)
        return self.code

    def expect(self, holds, what):
        if not holds:
            self.kill()
            sys.exit(f"expected {what}; code {self.code}, output:\n{self.output}")

    def expect_says(self, *texts):
        for text in texts:
            self.expect(text in self.output, repr(text))

    def expect_code(self, code):
        self.expect(self.end() == code, f"code {code}")


def write_text(folder, words="the quick brown fox jumps over the lazy dog. ", times=400):
    path = os.path.join(folder, "text.txt")
    with open(path, "w") as file:
        file.write(words * times)
    return path


def metrics(directory):
    """The lines of metrics.jsonl that are whole."""
    try:
        text = open(f"{directory}/metrics.jsonl").read()
    except OSError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def last_saved(directory):
    """The step that `latest` names; 0: none."""
    try:
        return int(open(f"{directory}/latest").read().strip().removeprefix("step-"))
    except OSError:
        return 0

"""What the other ranks say and do when one goes wrong: faults_test.py WIRE CASE WIRE_FAULTS PLAIT

WIRE is local (threads of one process) or mpi (processes under mpirun). Every process of a run carries a mark in its
environment, by which the test finds those that outlive the run.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid

SKIPPED = 77
MARK = "PLAIT_TEST_RUN"


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


class Run:
    def __init__(self, wire, command, ranks=4):
        self.mark = uuid.uuid4().hex
        environment = dict(os.environ, **{MARK: self.mark, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                          "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": "1"})
        launcher = ["mpirun", "-n", str(ranks)] if wire == "mpi" else []
        self.process = subprocess.Popen(launcher + command, env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def end(self, seconds=60):
        try:
            self.output, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            for pid in marked(self.mark):
                os.kill(pid, signal.SIGKILL)
            self.output, _ = self.process.communicate()
            sys.exit(f"still running after {seconds} s:\n{self.output}")
        deadline = time.monotonic() + 5
        while marked(self.mark):
            if time.monotonic() > deadline:
                left = marked(self.mark)
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                sys.exit(f"processes outlived the run: {left}\n{self.output}")
            time.sleep(0.05)
        return self.process.returncode


def expect(holds, what, run):
    if not holds:
        sys.exit(f"expected {what}; code {run.process.returncode}, output:\n{run.output}")


def expect_report(run, texts):
    expect(run.process.returncode != 0, "a code other than 0", run)
    for text in texts:
        expect(text in run.output, repr(text), run)
    expect("last 16 operations of the compute lane:" in run.output, "the last 16 operations", run)
    reports = run.output.count("plait: ")
    expect(reports == 1, f"one report, not {reports}", run)


CAUSES = {
    "throws": "rank 1 (tp 1, dp 0): no experts left",
    "late": "rank 1 (tp 1, dp 0) has not arrived",
    "more": "rank 1 (tp 1, dp 0)",
    "killed": "rank 1 (tp 1, dp 0) has died",
    "stopped": "rank 1 (tp 1, dp 0) has not arrived",
    "memory": "rank 1 (tp 1, dp 0): ",
}


def wire_fault(wire, case, program):
    run = Run(wire, [program, case])
    run.end()
    if wire == "local" and case == "killed":  # one process: nobody is left to speak, nobody may be left at all
        return expect(run.process.returncode == -signal.SIGKILL, "the end by SIGKILL", run)
    expect_report(run, [CAUSES[case], "training step"])
    if case in ("late", "stopped", "killed"):
        expect("all_reduce 12 of ranks 0-3" in run.output, "the collective with its group and number", run)
        expect("not arrived rank 1\n" in run.output, "who has not arrived", run)
        expect("%layers.3.moe.y" in run.output, "the layer", run)
    if case == "memory":
        expect("memory" in run.output or "alloc" in run.output, "what ran out", run)


def training(program, folder, *keys):
    """A run on four ranks, in a folder."""
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as file:
        file.write("the quick brown fox jumps over the lazy dog. " * 400)
    return Run("mpi", [program, "train", "configs/tiny.toml", f"data.path={text}", f"log.dir={folder}/run",
                       "mesh.tp=2", "mesh.ep=2", "train.eval_every=0", "log.timeout=10", *keys])


def killed_in_training(program):
    """A rank of a training run is killed from outside; the others tell which, and where they were."""
    with tempfile.TemporaryDirectory() as folder:
        run = training(program, folder, "train.steps=100000", "train.save_every=0")
        deadline = time.monotonic() + 60
        while not os.path.exists(f"{folder}/run/metrics.jsonl") or os.path.getsize(f"{folder}/run/metrics.jsonl") < 2000:
            if time.monotonic() > deadline or run.process.poll() is not None:
                run.end(1)
                sys.exit(f"the run did not start:\n{run.output}")
            time.sleep(0.1)
        victim = next(pid for pid, rank in marked(run.mark).items() if rank == 1)
        os.kill(victim, signal.SIGKILL)
        run.end()
        expect_report(run, ["rank 1 (", "has died", "in training step", "operations of the compute lane"])
        # Where it was is chance: in a layer, on its way back, in its weights, or between the last layer and the loss.
        place = re.search(r"step \d+ \S+ -> %(d_)?(l\d+|model|embed|head|gates|update)\.", run.output)
        expect(place, "the layer of an operation", run)


def nan_in_training(program):
    """Weights without bounds: the gate of a layer sees a number that is none, and every rank ends by it."""
    with tempfile.TemporaryDirectory() as folder:
        run = training(program, folder, "optim.lr=3e38", "optim.clip=0")
        run.end()
        expect_report(run, ["training step 2: %l1.", "logit"])


def main():
    wire, case, faults, plait = sys.argv[1:5]
    if wire == "mpi" and subprocess.run(["which", "mpirun"], stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit(SKIPPED)
    if case == "killed_in_training":
        killed_in_training(plait)
    elif case == "nan_in_training":
        nan_in_training(plait)
    else:
        wire_fault(wire, case, faults)


main()

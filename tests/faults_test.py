"""What the other ranks say and do when one goes wrong: faults_test.py WIRE CASE WIRE_FAULTS PLAIT

WIRE is local (threads of one process) or mpi (processes under mpirun).
"""
import os
import re
import signal
import sys
import tempfile

from launched_run import Run, marked, metrics, skip_without, write_text


def expect_report(run, texts):
    run.expect(run.code != 0, "a code other than 0")
    run.expect_says(*texts, "last 16 operations of the compute lane:")
    reports = run.output.count("plait: ")
    run.expect(reports == 1, f"one report, not {reports}")


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
        return run.expect(run.code == -signal.SIGKILL, "the end by SIGKILL")
    expect_report(run, [CAUSES[case], "training step"])
    if case in ("late", "stopped", "killed"):
        run.expect_says("all_reduce 12 of ranks 0-3", "not arrived rank 1\n", "%layers.3.moe.y")
    if case == "memory":
        run.expect("memory" in run.output or "alloc" in run.output, "what ran out")


def training(program, folder, *keys):
    """A run on four ranks, in a folder."""
    return Run("mpi", [program, "train", "configs/tiny.toml", f"data.path={write_text(folder)}", f"log.dir={folder}/run",
                       "mesh.tp=2", "mesh.ep=2", "train.eval_every=0", "log.timeout=10", *keys])


def killed_in_training(program):
    """A rank of a training run is killed from outside; the others tell which, and where they were."""
    with tempfile.TemporaryDirectory() as folder:
        run = training(program, folder, "train.steps=100000", "train.save_every=0")
        run.until(lambda: len(metrics(f"{folder}/run")) > 2, "a few steps")
        victim = next(pid for pid, rank in marked(run.mark).items() if rank == 1)
        os.kill(victim, signal.SIGKILL)
        run.end()
        expect_report(run, ["rank 1 (", "has died", "in training step", "operations of the compute lane"])
        # Where it was is chance: in a layer, on its way back, in its weights, or between the last layer and the loss.
        place = re.search(r"step \d+ \S+ -> %(d_)?(l\d+|model|embed|head|gates|update)\.", run.output)
        run.expect(place, "the layer of an operation")


def nan_in_training(program):
    """Weights without bounds: the gate of a layer sees a number that is none, and every rank ends by it."""
    with tempfile.TemporaryDirectory() as folder:
        run = training(program, folder, "optim.lr=3e38", "optim.clip=0")
        run.end()
        expect_report(run, ["training step 2: %l1.", "logit"])


def main():
    wire, case, faults, plait = sys.argv[1:5]
    skip_without(wire)
    if case == "killed_in_training":
        killed_in_training(plait)
    elif case == "nan_in_training":
        nan_in_training(plait)
    else:
        wire_fault(wire, case, faults)


main()

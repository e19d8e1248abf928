"""Every point at which a save can be cut short or refused: kill_points_test.py WIRE PLAIT DISK_FAULTS [--all]

A preloaded library numbers what a run asks of the disk for its checkpoints, and lets one of these acts go wrong. After
each fault the last complete checkpoint loads, the run goes on to the same bits as one that was never disturbed, and
nothing half-written stays. Without --all of the writes of tensors, which are alike, only some are tried.
"""
import os
import shutil
import signal
import sys
import tempfile

from launched_run import Run, last_saved, skip_without, write_text

STEPS = 4  # saved after 2 and 4
KEYS = ["model.num_hidden_layers=1", "moe.every=0", "model.hidden_size=16", "model.num_attention_heads=2", "model.num_key_value_heads=2",
        "model.intermediate_size=16", "train.seq_length=8", "train.batch_size=2", "train.eval_every=0",
        "train.save_every=2", f"train.steps={STEPS}", "mesh.tp=2", "mesh.threads=1"]


class Bench:
    def __init__(self, wire, program, library, folder):
        self.wire, self.program, self.library, self.folder = wire, os.path.abspath(program), library, folder
        self.text = write_text(folder)
        open(f"{folder}/c.toml", "w").close()
        self.runs = 0

    def run(self, directory, fault="", *keys):
        self.runs += 1
        variables = {"LD_PRELOAD": os.path.abspath(self.library), "PLAIT_DISK_FOLDER": directory,
                     "PLAIT_DISK_FAULT": fault, "PLAIT_DISK_LOG": f"{directory}.acts"}
        options = [word for name in variables for word in ("-x", name)] if self.wire == "mpi" else []
        return Run(self.wire, [self.program, "train", "configs/tiny.toml", f"data.path={self.text}",
                               f"log.dir={directory}", *KEYS, *keys], ranks=2, options=options, environment=variables)


def tensors(directory):
    return {name: open(f"{directory}/step-{STEPS:08}/{name}", "rb").read()
            for name in ("model.safetensors", "optimizer.safetensors")}


def names(directory):
    return sorted(os.listdir(directory))


def points(directory, everything):
    """The numbers of the acts of an undisturbed run; of writes into the same file every fourth, and the last two."""
    acts = [line.split(" ", 2) for line in open(f"{directory}.acts").read().splitlines()]
    kept = []
    for i, (number, act, name) in enumerate(acts):
        alike = act == "write" and i + 2 < len(acts) and all(a[1:] == [act, name] for a in acts[i + 1:i + 3])
        if everything or not alike or i % 4 == 0:
            kept.append((int(number), act, name))
    return kept


def disturbed(bench, how, point, whole):
    number, act, name = point
    directory = f"{bench.folder}/{how}{number}"
    title = f"{how} at act {number}, {act} {name}"
    run = bench.run(directory, f"{'kill' if how == 'killmpirun' else how} {number}" if how != "killmpirun" else f"hang {number}")
    if how == "killmpirun":
        run.until(lambda: os.path.exists(f"{directory}.acts") and
                  len(open(f"{directory}.acts").readlines()) >= number, title)
        run.send(signal.SIGKILL, [run.process.pid])
        run.send(signal.SIGTERM, run.ranks())  # what a launcher's daemon does, and a scheduler for it
        run.send(signal.SIGKILL, run.ranks())
    code = run.end()
    # A fault that nothing came upon any more, or that left the checkpoint whole, is none.
    good = how == "slow" or (how in ("full", "fail", "readonly") and last_saved(directory) == STEPS)
    run.expect((code == 0) == good, f"{'code 0' if good else 'another code than 0'} after {title}")
    if how in ("full", "readonly") and not good:
        run.expect("cannot " in run.output and "plait: " in run.output, f"a line that says why, after {title}")
        left = [n for n in names(directory) if n.startswith(".step") or n == "latest.tmp"]
        run.expect(how == "readonly" or not left, f"nothing half-written after {title}, not {left}")
    saved = last_saved(directory)
    run.expect(saved in (0, 2, 4), f"a whole checkpoint after {title}")
    again = bench.run(directory)
    again.expect(again.end() == 0, f"a run that goes on after {title}")
    again.expect(tensors(directory) == whole, f"the same bits after {title}")
    half = [n for n in names(directory) if n.startswith(".step") or n.endswith(".tmp") or n == "run.lock"]
    again.expect(not half and f"step-{STEPS:08}" in names(directory), f"nothing half-written after {title}, not {half}")
    shutil.rmtree(directory)
    os.remove(f"{directory}.acts")


def main():
    wire, program, library = sys.argv[1:4]
    everything = "--all" in sys.argv
    skip_without(wire)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(wire, program, library, folder)
        straight = bench.run(f"{folder}/straight")
        straight.expect_code(0)
        whole = tensors(f"{folder}/straight")
        tried = points(f"{folder}/straight", everything)
        ways = ["kill", "killall", "killmpirun"] if wire == "mpi" else ["kill", "full", "readonly", "fail", "slow"]
        if wire == "mpi" and not everything:
            tried = tried[::12]
        for how in ways:
            some = tried if everything or how.startswith("kill") else tried[::24 if how == "slow" else 6]
            for point in some:
                disturbed(bench, how, point, whole)
        print(f"{len(tried)} points of {len(open(f'{folder}/straight.acts').readlines())}, {bench.runs} runs")


main()

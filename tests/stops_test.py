"""Runs that are told to end, paused, doubled and started again lose nothing: stops_test.py WIRE CASE PLAIT DISK_FAULTS

WIRE is local (threads of one process) or mpi (processes under mpirun). No case depends on how long anything takes.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

from launched_run import Run, catches, last_saved, metrics, skip_without, write_text

TOLD = {"sigterm": (signal.SIGTERM, 143), "sigint": (signal.SIGINT, 130), "sighup": (signal.SIGHUP, 129),
        "sigusr1": (signal.SIGUSR1, 138)}
ENDLESS = ["train.steps=1000000", "train.eval_every=0"]


class Desk:
    """A folder with a text, for runs of two ranks."""

    def __init__(self, wire, program, library, folder):
        self.wire, self.program, self.library, self.folder = wire, program, library, folder
        self.dir = f"{folder}/run"
        self.text = write_text(folder)

    def command(self, *keys):
        return [self.program, "train", "configs/tiny.toml", f"data.path={self.text}", f"log.dir={self.dir}", "mesh.ep=2",
                "mesh.threads=1", *keys]

    def start(self, *keys, **options):
        return Run(self.wire, self.command(*keys), ranks=2, **options)

    def on_bad_disk(self, fault, *keys):
        variables = {"LD_PRELOAD": self.library, "PLAIT_DISK_FOLDER": self.dir, "PLAIT_DISK_FAULT": fault}
        options = [word for name in variables for word in ("-x", name)] if self.wire == "mpi" else []
        return self.start(*keys, options=options, environment=variables)

    def walking(self, *keys, **options):
        run = self.start(*keys, **options)
        run.until(lambda: run.output.count("\nstep ") > 1, "a few steps")
        return run

    def expect_goes_on(self, *keys):
        """The same command with one more step goes on where the last checkpoint is."""
        saved = last_saved(self.dir)
        run = self.start(*keys, f"train.steps={saved + 1}", "train.eval_every=0")
        run.expect_code(0)
        run.expect_says(f"resumed {self.dir}/step-{saved:08} at step {saved}", "done: 1 steps")
        run.expect([line["step"] for line in metrics(self.dir)] == list(range(1, saved + 2)), "every step once")
        kept = [name for name in os.listdir(self.dir) if not name.startswith("step-0")]
        run.expect(sorted(kept) == ["config.resolved.toml", "latest", "loss.svg", "metrics.jsonl"], f"no leftovers: {kept}")


def expect_saved(desk, run, word, *keys):
    run.expect_says(word, "saved " + desk.dir)
    last = metrics(desk.dir)[-1]["step"]
    run.expect(last_saved(desk.dir) == last, f"the last step, {last}, saved")
    desk.expect_goes_on(*keys)


def told(desk, number, code, whom, *keys):
    run = desk.walking(*ENDLESS, *keys)
    run.send(number, run.ranks()[:1] if whom == "one" else run.ranks())
    run.expect_code(code)
    expect_saved(desk, run, f"interrupted ({signal.Signals(number).name})")


def launcher_told(desk):
    """mpirun passes SIGUSR1 on and waits. Of SIGTERM it waits as long as it is told to, reading nothing that ranks print,
    passes it on, waits again, and kills."""
    run = desk.walking(*ENDLESS)
    run.send(signal.SIGUSR1, [run.process.pid])
    run.expect_code(138)
    expect_saved(desk, run, "interrupted (SIGUSR1)")
    run = desk.walking(*ENDLESS, options=["--mca", "odls_base_sigkill_timeout", "5"])
    run.send(signal.SIGTERM, [run.process.pid])
    run.expect(run.end() != 0, "a code other than 0")
    run.expect(last_saved(desk.dir) == metrics(desk.dir)[-1]["step"], "the last step saved")
    desk.expect_goes_on()


def closed_pipe(desk):
    """`plait train .. | head -3`"""
    command = " ".join(f"'{word}'" for word in desk.command(*ENDLESS))
    pipe = subprocess.run(["bash", "-c", f"{command} | sed '/^step  *3/q'; exit ${{PIPESTATUS[0]}}"], capture_output=True,
                          text=True, timeout=120)
    if pipe.returncode != 141 or "step " not in pipe.stdout:
        sys.exit(f"expected code 141 and some steps, got {pipe.returncode}\n{pipe.stdout}\n{pipe.stderr}")
    if last_saved(desk.dir) != metrics(desk.dir)[-1]["step"]:
        sys.exit("expected a checkpoint after the last step")
    desk.expect_goes_on()


def in_evaluation(desk):
    """A long evaluation is left, and no step follows."""
    desk.text = write_text(desk.folder, times=20000)
    small = ["train.batch_size=2", "train.micro_batch_size=1"]
    run = desk.walking("train.steps=1000000", "train.eval_every=1", "train.eval_batches=1000000", *small)
    run.send(signal.SIGTERM, run.ranks())
    run.expect_code(143)
    run.expect("val_loss" not in metrics(desk.dir)[-1], "an evaluation that was left")
    expect_saved(desk, run, "interrupted (SIGTERM)", *small)


def in_building(desk):
    """A list that takes minutes to build is left at once: there is nothing to save."""
    run = desk.start("schedule.chunks=20000", "train.steps=5")
    run.until(lambda: len(run.ranks()) == (2 if desk.wire == "mpi" else 1) and
              all(catches(pid, signal.SIGTERM) for pid in run.ranks()), "signals that are seen")
    time.sleep(1)  # it builds; were it elsewhere, it would end alike
    run.send(signal.SIGTERM, run.ranks())
    run.expect_code(143)
    run.expect_says("told to end (SIGTERM) before there was anything to save")
    run.expect(not os.path.exists(f"{desk.dir}/run.lock"), "no lock")


def in_trials(desk):
    run = desk.start("schedule.moe=auto", "mesh.tp=2", "mesh.ep=1", "mesh.dp=1", "moe.num_experts=8")
    run.until_says("auto tries")
    run.send(signal.SIGTERM, run.ranks())
    run.expect_code(143)
    run.expect_says("told to end (SIGTERM) before there was anything to save")


def requeue(desk):
    told(desk, signal.SIGUSR1, 75, "all", "train.on_term=requeue")
    told(desk, signal.SIGINT, 130, "all", "train.on_term=requeue")


def max_time(desk):
    for code, *keys in [(0,), (75, "train.on_term=requeue")]:
        run = desk.start(*ENDLESS, "train.max_time=5s", *keys)
        run.expect_code(code)
        run.expect_says("ended before train.max_time = 5s", "the same command goes on with the ")
        desk.expect_goes_on()


def save_interval(desk):
    """A run that is killed loses what came after the last timed checkpoint alone."""
    run = desk.start(*ENDLESS, "train.save_interval=1s")
    run.until(lambda: last_saved(desk.dir) > 0, "a checkpoint by time")
    run.send(signal.SIGKILL, run.everything())
    run.end()
    saved, made = last_saved(desk.dir), metrics(desk.dir)[-1]["step"]
    again = desk.start(f"train.steps={saved + 1}", "train.eval_every=0")
    again.expect_code(0)
    again.expect_says(f"resumed {desk.dir}/step-{saved:08} at step {saved}", "has ended without removing it: taken over")
    if made > saved:
        again.expect_says(f"{desk.dir}/metrics.jsonl: {made - saved} line")


def paused(desk):
    """All that a run is made of stands still for longer than anybody waits, then goes on."""
    run = desk.walking(*ENDLESS, "log.timeout=4")
    run.send(signal.SIGSTOP, run.everything())
    time.sleep(9)
    run.send(signal.SIGCONT, reversed(run.everything()))
    seen = metrics(desk.dir)[-1]["step"]
    run.until(lambda: metrics(desk.dir)[-1]["step"] > seen + 2, "steps after the pause")
    run.send(signal.SIGTERM, run.ranks())
    run.expect_code(143)
    expect_saved(desk, run, "interrupted (SIGTERM)")


def doubled(desk):
    """A second run in the folder is refused before it writes anything; one over a killed run is not."""
    first = desk.walking(*ENDLESS)
    second = desk.start(*ENDLESS)
    second.expect(second.end() == 2, "code 2")
    second.expect_says(f"log.dir: '{desk.dir}' is in use by process ")
    seen = metrics(desk.dir)[-1]["step"]
    first.until(lambda: metrics(desk.dir)[-1]["step"] > seen, "the first run going on")
    first.send(signal.SIGKILL, first.everything())
    first.end()
    third = desk.walking(*ENDLESS)
    third.send(signal.SIGTERM, third.ranks())
    third.expect_code(143)
    third.expect_says("has ended without removing it: taken over",
                      f"{desk.dir}/metrics.jsonl is of a run that left no checkpoint: kept as {desk.dir}/metrics.1.jsonl")
    third.expect(last_saved(desk.dir) == metrics(desk.dir)[-1]["step"], "the third run saved")


def closed_stream(desk):
    """A standard stream that is closed is not taken by a file of the run."""
    command = " ".join(f"'{word}'" for word in desk.command("train.steps=3"))
    done = subprocess.run(["bash", "-c", f"{command} >&- 2>&-"], timeout=120)
    if done.returncode != 0 or [line["step"] for line in metrics(desk.dir)] != [1, 2, 3]:
        sys.exit(f"expected three lines of metrics and code 0, got {done.returncode}")


def own_config(desk):
    """A config in log.dir stays as its author wrote it, behind a link too."""
    os.makedirs(desk.dir)
    original = open("configs/tiny.toml").read() + "# a word of its author\n"
    open(f"{desk.folder}/shared.toml", "w").write(original)
    os.symlink(f"{desk.folder}/shared.toml", f"{desk.dir}/config.toml")
    os.symlink(f"{desk.folder}/shared.toml", f"{desk.dir}/loss.svg")
    command = desk.command("train.steps=2")
    command[2] = f"{desk.dir}/config.toml"
    run = Run(desk.wire, command, ranks=2)
    run.expect_code(0)
    run.expect(open(f"{desk.folder}/shared.toml").read() == original, "the author's words")
    open(f"{desk.dir}/config.resolved.toml", "w").write(original)
    run = desk.start("train.steps=3")
    run.expect(run.end() == 2, "code 2")
    run.expect_says("config.resolved.toml' was not written by plait")


def any_bytes(desk):
    """A path that is no text comes back from a checkpoint."""
    odd = os.fsencode(desk.folder) + b"/caf\xe9\x7f \"'"
    os.makedirs(odd)
    os.rename(desk.text, odd + b"/text.txt")
    command = [os.fsencode(word) for word in desk.command("train.eval_every=0")]
    command[3], command[4] = b"data.path=" + odd + b"/text.txt", b"log.dir=" + odd + b"/run"
    for steps in (2, 4):
        run = Run(desk.wire, command + [f"train.steps={steps}".encode()], ranks=2)
        run.expect_code(0)
    run.expect_says("done: 2 steps")
    again = Run(desk.wire, command[:2] + [odd + b"/run/config.resolved.toml", b"train.steps=5"], ranks=2)
    again.expect_code(0)
    again.expect_says("done: 1 steps")


def other_text(desk):
    """Ranks that read another text under one path are found before the first step, and so is a folder of their own."""
    for rank, words in enumerate(["one text. ", "and another. "]):
        os.makedirs(f"{desk.folder}/{rank}/runs")
        os.rename(write_text(desk.folder, words), f"{desk.folder}/{rank}/text.txt")
    config = os.path.abspath("configs/tiny.toml")

    def started(text, folder):
        keys = f"train {config} data.path={text} log.dir={folder} mesh.ep=2 mesh.threads=1 train.steps=2"
        return Run("mpi", ["bash", "-c", f"cd {desk.folder}/$OMPI_COMM_WORLD_RANK && exec {desk.program} {keys}"], ranks=2)

    run = started("text.txt", f"{desk.folder}/run")
    run.expect(run.end() == 2, "code 2")
    run.expect_says("agreement: rank 1 has the text of data.path = ", "rank 0 has ")
    run = started(f"{desk.folder}/0/text.txt", "runs/own")
    run.expect(run.end() == 2, "code 2")
    run.expect_says("log.dir: rank 1 does not see 'runs/own' as rank 0 does: give a folder that all nodes share")


def weights(desk):
    """A run begins with the weights of another one; weights alone generate, and resume nothing."""
    desk.start("train.steps=40").expect_code(0)
    step = f"{desk.dir}/step-00000040"
    os.remove(f"{step}/optimizer.safetensors")
    run = desk.start("train.steps=41")
    run.expect(run.end() == 2, "code 2")
    run.expect_says(f"{step}: holds no optimizer.safetensors: a run cannot go on from weights alone")
    said = subprocess.run([desk.program, "generate", step, "--prompt", "the ", "--tokens", "5"], capture_output=True)
    run.expect(said.returncode == 0 and len(said.stdout) >= 9, f"words, not {said}")
    old = desk.dir
    for init in (step, old, f"{step}/model.safetensors"):
        desk.dir = f"{desk.folder}/fresh{init.count('/')}{len(init)}"
        run = desk.start("train.steps=1", f"train.init={init}")
        run.expect_code(0)
        run.expect_says(f"begins with the weights of {step}")
    run.expect(metrics(desk.dir)[0]["loss"] < 4, "a loss that was learned")


def listed(directory):
    return os.listdir(directory) if os.path.isdir(directory) else []


def second_signal(desk):
    """While a save hangs in the disk, another signal ends the process at once."""
    run = desk.on_bad_disk("hang 9", *ENDLESS, "train.save_every=3")
    run.until(lambda: any(name.startswith(".step-") for name in listed(desk.dir)), "a save")
    run.send(signal.SIGTERM, run.ranks())
    time.sleep(1.5)
    run.send(signal.SIGTERM, run.ranks())
    run.expect(run.end() != 0, "a code other than 0")
    if desk.wire == "local":
        run.expect_code(143)
    again = desk.start("train.steps=2")
    again.expect_code(0)
    again.expect_says(f"{desk.dir}/.step-00000003.tmp: left by a save that was cut short, removed")


def crawling_disk(desk):
    """A save that takes longer than any rank waits for another one, and goes on all the time, is no fault."""
    run = desk.on_bad_disk("crawl 60", "train.steps=4", "train.save_every=2", "log.timeout=5", "train.eval_every=0")
    run.expect_code(0)
    run.expect_says(f"saved {desk.dir}/step-00000004")


def hanging_disk(desk):
    """A disk that takes nothing for log.timeout ends the run with a line."""
    run = desk.on_bad_disk("hang 30", "train.steps=9", "train.save_every=2", "log.timeout=5", "train.eval_every=0")
    run.expect(run.end() == 2, "code 2")
    run.expect_says("the disk has taken nothing for 5 s (log.timeout)")


def full_disk(desk):
    """A save that finds no room is tried again; the run goes on."""
    run = desk.on_bad_disk("full 20", "train.steps=5", "train.save_every=2", "train.eval_every=0")
    run.expect(run.end() == 2, "code 2, as the last save fails too")
    run.expect_says("No space left on device; the run goes on, and will try again", "step 5/5")
    run.expect(not [name for name in os.listdir(desk.dir) if "step-" in name or "lock" in name], "nothing half-written")


CASES = {"second_signal": second_signal, "crawling_disk": crawling_disk, "hanging_disk": hanging_disk,
         "full_disk": full_disk, "launcher": launcher_told, "closed_pipe": closed_pipe, "in_evaluation": in_evaluation,
         "in_building": in_building, "in_trials": in_trials, "requeue": requeue, "max_time": max_time,
         "save_interval": save_interval, "paused": paused, "doubled": doubled, "closed_stream": closed_stream,
         "own_config": own_config, "any_bytes": any_bytes, "other_text": other_text, "weights": weights}


def main():
    wire, case, program, library = sys.argv[1:3] + [os.path.abspath(path) for path in sys.argv[3:5]]
    skip_without(wire)
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(wire, program, library, folder)
        if case in TOLD:
            told(desk, *TOLD[case], "all")
            desk.dir += "2"
            told(desk, *TOLD[case], "one")
        else:
            CASES[case](desk)


main()

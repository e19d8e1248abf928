"""DeepSpeed's MoE layer on one process a rank, asked line by line: a line of its input is a layer and how often to run
it, as JSON; its answer is the milliseconds of each forward and backward pass, the slowest rank's, or why DeepSpeed
cannot run that layer. The last layer is kept, so that turns on the same one cost no more than their passes.

Rank 0 is the process that is asked. It starts the other ranks and hands every line on to them, so that a rank that
waits sleeps; all end when its input ends or when it does.
"""
import argparse
import ctypes
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, help="of bench/cluster; 1: this machine, without a cluster")
    parser.add_argument("per_node", type=int, help="ranks")
    parser.add_argument("threads", type=int, nargs="?", default=1, help="of a rank")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--meet", default="", help="where ranks find each other; set for the other ranks")
    return parser.parse_args()


def free_address(a):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1" if a.nodes == 1 else "10.77.0.1", 0))
        return "tcp://%s:%d" % probe.getsockname()


def end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def stay_on_cores(a):
    """As bench/cluster places the ranks that it starts; DeepSpeed is a tenth faster so than where the system likes."""
    cores = [int(core) for core in os.environ["CLUSTER_CORES"].split()]
    share = max(1, len(cores) // (a.nodes * a.per_node))
    os.sched_setaffinity(0, {cores[(a.rank * share + i) % len(cores)] for i in range(share)})


def start_others(a):
    others = []
    for rank in range(1, a.nodes * a.per_node):
        on = [] if a.nodes == 1 else ["bench/cluster", "exec", str(rank // a.per_node)]
        command = [*on, sys.executable, os.path.abspath(__file__), str(a.nodes), str(a.per_node), str(a.threads),
                   "--rank", str(rank), "--meet", a.meet]
        others.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2, text=True,
                                       preexec_fn=end_with_parent))
    return others


def read(line):
    """The layer of a line, and how often to run it unmeasured and measured."""
    from deepspeed_moe import ACTS, Shape
    fields = json.loads(line)
    steps, warmup = int(fields.pop("steps", 5)), int(fields.pop("warmup", 0))
    if "tokens_per_rank" in fields:
        fields["tokens"] = fields.pop("tokens_per_rank")
    known = [field.name for field in dataclasses.fields(Shape)]
    for name in fields:
        if name not in known:
            raise ValueError(f"unknown key '{name}': expected tokens_per_rank, steps, warmup or one of {known[1:]}")
    shape = Shape(**fields)
    if shape.act not in ACTS:
        raise ValueError(f"act '{shape.act}': expected one of {', '.join(ACTS)}")
    return shape, steps, warmup


class Asked:
    """Answers lines; collective."""

    def __init__(self):
        self.layer = None

    def answer(self, line):
        from deepspeed_moe import Layer, dist
        shape, steps, warmup = read(line)
        reason = shape.why_not(dist.get_world_size())
        if reason:
            return {"skip": reason}
        if self.layer is None or self.layer.shape != shape:
            self.layer = None  # frees the last one
            self.layer = Layer(shape)
        for _ in range(warmup):
            self.layer.step()
        return {"ms": [self.timed() for _ in range(steps)]}

    def timed(self):
        from deepspeed_moe import dist, torch
        dist.barrier()
        begin = time.perf_counter()
        self.layer.step()
        ms = torch.tensor([1e3 * (time.perf_counter() - begin)], dtype=torch.float64)
        dist.all_reduce(ms, dist.ReduceOp.MAX)
        return round(ms.item(), 4)


def main():
    a = arguments()
    a.meet = a.meet or free_address(a)
    if "CLUSTER_CORES" in os.environ:
        stay_on_cores(a)
    os.environ.update(OMP_NUM_THREADS=str(a.threads), GLOO_SOCKET_IFNAME="lo" if a.nodes == 1 else "eth0")
    others = start_others(a) if a.rank == 0 else []
    import deepspeed_moe
    say = deepspeed_moe.keep_output()
    deepspeed_moe.torch.set_num_threads(a.threads)
    deepspeed_moe.join(a.rank, a.nodes * a.per_node, a.meet)
    asked = Asked()
    for line in iter(sys.stdin.readline, ""):
        for other in others:
            print(line.strip(), file=other.stdin, flush=True)
        try:
            answer = asked.answer(line)
        except (ValueError, TypeError) as error:  # a wrong line: each rank finds the same
            answer = {"error": str(error)}
        if a.rank == 0:
            print(json.dumps(answer), file=say, flush=True)
    for other in others:
        other.stdin.close()
    for other in others:
        other.wait()


if __name__ == "__main__":
    main()

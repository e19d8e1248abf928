"""DeepSpeed's MoE layer as a partner that is asked: every line on its input is one forward and backward pass, every
answer a line of JSON. So another program can take turns with it.

The first answer comes unasked, after the warm-up, and says what runs. Rank 0 is the process that is asked; it starts
the other ranks, which hold as many tokens each and share the experts (gloo).
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("tokens", 2048), ("width", 512), ("hidden", 2048), ("experts", 8), ("top", 2), ("ranks", 1),
                          ("threads", 2), ("warm-up", 3), ("rank", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--capacity", type=float, default=1.0, help="slots of an expert, in fair shares; 0: nobody drops")
    parser.add_argument("--meet", default="", help="the file in which ranks find each other; set for the other ranks")
    return parser.parse_args()


def start_others(a):
    meet = os.path.join(tempfile.mkdtemp(prefix="peers-"), "meet")
    again = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--meet", meet, "--rank"]
    for rank in range(1, a.ranks):
        subprocess.Popen([*again, str(rank)], stdin=subprocess.DEVNULL, stdout=2)
    return meet


class Layer:
    def __init__(self, a, torch, deepspeed):
        from deepspeed.moe.layer import MoE
        self.a, self.torch = a, torch
        torch.manual_seed(1)
        expert = torch.nn.Sequential(torch.nn.Linear(a.width, a.hidden, bias=False), torch.nn.GELU(),
                                     torch.nn.Linear(a.hidden, a.width, bias=False))
        self.moe = MoE(a.width, expert, num_experts=a.experts, ep_size=a.ranks, k=a.top,
                       capacity_factor=a.capacity or 1.0, drop_tokens=a.capacity > 0)
        self.moe.set_deepspeed_parallelism()
        torch.manual_seed(2 + a.rank)
        self.x, self.dy = (torch.randn(a.tokens, a.width) for _ in range(2))
        self.x.requires_grad_(True)

    def step(self):
        self.x.grad = None
        self.moe.zero_grad(set_to_none=True)
        y, aux, self.counts = self.moe(self.x)
        ((y * self.dy).sum() + 0.01 * aux).backward()

    def lost(self):
        """Routes dropped and slots left empty by this rank's tokens."""
        a, counts = self.a, [int(n) for n in self.counts]
        room = max(math.ceil(a.tokens * a.top * a.capacity / a.experts), 4) if a.capacity else max(counts)
        dropped = sum(max(0, n - room) for n in counts)
        return dropped, a.experts * room - (sum(counts) - dropped)


def main():
    a = arguments()
    say = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # DeepSpeed talks on the standard output
    os.environ["DS_ACCELERATOR"] = "cpu"
    meet = a.meet or start_others(a)
    import torch
    torch.set_num_threads(a.threads)
    import deepspeed
    os.environ.update(RANK=str(a.rank), WORLD_SIZE=str(a.ranks), LOCAL_RANK=str(a.rank))
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False, init_method=f"file://{meet}",
                               rank=a.rank, world_size=a.ranks)
    dist = torch.distributed
    layer = Layer(a, torch, deepspeed)
    for _ in range(a.warm_up):
        layer.step()

    def together(numbers):
        values = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(values)
        return values.tolist()

    dropped, empty = together(layer.lost())
    if a.rank == 0:
        print(json.dumps({"deepspeed": deepspeed.__version__, "torch": torch.__version__,
                          "tokens": a.tokens * a.ranks, "dropped": dropped, "padded": empty}), file=say, flush=True)
    go = torch.zeros(1)
    while True:
        if a.rank == 0:
            go[0] = 1 if sys.stdin.readline() else 0
        if a.ranks > 1:
            dist.broadcast(go, 0)
        if go[0] == 0:
            break
        begin = time.perf_counter()
        layer.step()
        if a.ranks > 1:
            dist.barrier()  # the last rank's end counts
        if a.rank == 0:
            print(json.dumps({"ms": 1e3 * (time.perf_counter() - begin)}), file=say, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

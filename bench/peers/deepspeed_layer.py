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


def lost(a, counts):
    """Routes dropped and slots left empty by this rank's tokens."""
    counts = [int(n) for n in counts]
    room = max(math.ceil(a.tokens * a.top * a.capacity / a.experts), 4) if a.capacity else max(counts)
    dropped = sum(max(0, n - room) for n in counts)
    return dropped, a.experts * room - (sum(counts) - dropped)


def main():
    a = arguments()
    meet = a.meet or start_others(a)
    import deepspeed_moe
    say = deepspeed_moe.keep_output()
    deepspeed, dist, torch = deepspeed_moe.deepspeed, deepspeed_moe.dist, deepspeed_moe.torch
    torch.set_num_threads(a.threads)
    deepspeed_moe.join(a.rank, a.ranks, f"file://{meet}")
    layer = deepspeed_moe.Layer(deepspeed_moe.Shape(tokens=a.tokens, hidden=a.width, ffn=a.hidden, experts=a.experts,
                                                    topk=a.top, ep=a.ranks, capacity_factor=a.capacity))
    for _ in range(a.warm_up):
        layer.step()

    def together(numbers):
        values = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(values)
        return values.tolist()

    dropped, empty = together(lost(a, layer.counts))
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

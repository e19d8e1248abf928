"""DeepSpeed's MoE layer as the programs beside this file time it: one layer, its tokens, a forward and backward pass.

Ranks are those of a mesh like Plait's: tp fastest, then data ranks; esp fastest, then ep, then copies of the experts.
A layer's weights and tokens do not depend on the layout.
"""
import functools
import importlib
import os
import sys
from dataclasses import dataclass

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed
import torch
from deepspeed.moe.layer import MoE
from deepspeed.utils import groups

ACTS = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu, "relu": torch.nn.functional.relu}
dist = torch.distributed


@dataclass(frozen=True)
class Shape:
    tokens: int  # of a data rank: its tp ranks hold the same
    hidden: int
    ffn: int
    experts: int
    topk: int
    ep: int = 1
    tp: int = 1
    esp: int = 1
    capacity_factor: float = 0.0  # 0: nothing is dropped
    act: str = "gelu"
    glu: bool = False

    def why_not(self, ranks):
        """Why DeepSpeed cannot run this on so many ranks; None where it can."""
        if self.esp not in (1, self.tp):
            return f"DeepSpeed shards experts over the tp ranks or not at all: tp {self.tp}, esp {self.esp}"
        for whole, part, what in ((ranks, self.tp, "ranks by tp"), (ranks, self.esp * self.ep, "ranks by esp x ep"),
                                  (self.experts, self.ep, "experts by ep"), (self.ffn, self.esp, "ffn by esp")):
            if whole % part:
                return f"{what}: {whole} by {part}"
        if self.topk > self.experts:
            return f"topk {self.topk} of {self.experts} experts"
        return None


def keep_output():
    """The standard output, to answer on. What DeepSpeed says there goes to the standard error from here on."""
    say = os.fdopen(os.dup(1), "w")
    sys.stdout.flush()
    os.dup2(2, 1)
    return say


def join(rank, ranks, meet):
    """One of `ranks` processes that find each other at the address `meet`, over gloo."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    backend = importlib.import_module("deepspeed.comm.torch")
    backend.build_shm_op = lambda: None  # would compile an all_reduce that only inference uses
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False, init_method=meet, rank=rank,
                               world_size=ranks)
    gather = deepspeed.comm.all_gather_into_tensor
    # The gather of tokens over tp hands a tensor of three dimensions to a flat buffer, which gloo refuses.
    deepspeed.comm.all_gather_into_tensor = lambda out, x, group=None: gather(out, x.reshape(-1), group=group)
    new_group = functools.cache(deepspeed.comm.new_group)  # layers of the same layout share groups
    deepspeed.comm.new_group = lambda members: new_group(tuple(members))


class TensorParallel:
    """DeepSpeed asks such an object for the groups of tp ranks, which neighbour each other, and of data ranks."""

    def __init__(self, tp):
        self.tp, self.rank, ranks = tp, dist.get_rank(), dist.get_world_size()
        for first in range(0, ranks, tp):
            members = range(first, first + tp)
            group = deepspeed.comm.new_group(members)
            self.peers = group if self.rank in members else getattr(self, "peers", None)
        for first in range(tp):
            members = range(first, ranks, tp)
            group = deepspeed.comm.new_group(members)
            self.data = group if self.rank in members else getattr(self, "data", None)

    def get_tensor_model_parallel_world_size(self):
        return self.tp

    def get_tensor_model_parallel_rank(self):
        return self.rank % self.tp

    def get_tensor_model_parallel_group(self):
        return self.peers

    def get_data_parallel_world_size(self):
        return dist.get_world_size() // self.tp

    def get_data_parallel_rank(self):
        return self.rank // self.tp

    def get_data_parallel_group(self):
        return self.data

    get_model_parallel_world_size = get_tensor_model_parallel_world_size
    get_model_parallel_rank = get_tensor_model_parallel_rank
    get_model_parallel_group = get_tensor_model_parallel_group


class IntoShares(torch.autograd.Function):
    """To the ranks that share an expert: x itself; backward the sum of their gradients."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        dy = dy.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(dy, group=ctx.group)
        return dy, None


class SumOfShares(torch.autograd.Function):
    """From the ranks that share an expert: the sum of their parts; backward each has the gradient itself."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous()
        ctx.mark_dirty(x)
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, dy):
        return dy, None


class Expert(torch.nn.Module):
    """Two matrices without bias, the first one of gate|up with glu. `group`: the ranks that each hold a share of F."""
    group = None

    def __init__(self, shape):
        super().__init__()
        self.act, self.glu, share = ACTS[shape.act], shape.glu, shape.ffn // shape.esp
        self.up = torch.nn.Linear(shape.hidden, share * (2 if shape.glu else 1), bias=False)
        self.down = torch.nn.Linear(share, shape.hidden, bias=False)

    def forward(self, x):
        if self.group is not None:
            x = IntoShares.apply(x, self.group)
        x = self.up(x)
        if self.glu:
            gate, x = x.chunk(2, dim=-1)
            x = self.act(gate) * x
        else:
            x = self.act(x)
        x = self.down(x)
        return x if self.group is None else SumOfShares.apply(x, self.group)

    @torch.no_grad()
    def draw(self, number, part, parts):
        """The weights of expert `number`, of which this is share `part`; gate and up each are cut in `parts`."""
        random = torch.Generator().manual_seed(1000 + number)
        width, share = self.down.weight.shape
        for weight in self.up.weight.split(share):
            whole = torch.randn(parts * share, width, generator=random) / width**0.5
            weight.copy_(whole[part * share:(part + 1) * share])
        whole = torch.randn(width, parts * share, generator=random) / (parts * share)**0.5
        self.down.weight.copy_(whole[:, part * share:(part + 1) * share])


class Layer:
    """Collective: all ranks make the same layers in the same order. REQUIRES shape.why_not(ranks) is None."""

    def __init__(self, shape):
        self.shape, rank = shape, dist.get_rank()
        groups._release_process_group_references()  # DeepSpeed keeps the groups of one layout in globals
        groups.mpu = TensorParallel(shape.tp) if shape.tp > 1 else None
        torch.manual_seed(1)  # the gate's weights
        self.moe = MoE(shape.hidden, Expert(shape), num_experts=shape.experts, ep_size=shape.ep, k=shape.topk,
                       capacity_factor=shape.capacity_factor or 1.0, drop_tokens=shape.capacity_factor > 0,
                       top2_2nd_expert_sampling=False, enable_expert_tensor_parallelism=shape.esp > 1)
        self.moe.set_deepspeed_parallelism()
        # The slots of an expert are sliced over tp, but DeepSpeed does not make them divide where experts are sharded.
        self.moe.deepspeed_moe.gate.register_forward_hook(
            lambda gate, x, out: (out[0], -(-int(out[1]) // shape.tp) * shape.tp, *out[2:]))
        mine = self.moe.deepspeed_moe.experts.deepspeed_experts
        first = rank // shape.esp % shape.ep * len(mine)
        for number, expert in enumerate(mine, first):
            expert.draw(number, rank % shape.esp, shape.esp)
            expert.group = groups.mpu.peers if shape.esp > 1 else None
        random = torch.Generator().manual_seed(2 + rank // shape.tp)
        self.x, self.dy = (torch.randn(shape.tokens, shape.hidden, generator=random) for _ in range(2))
        self.x.requires_grad_(True)

    def step(self):
        self.x.grad = None
        self.moe.zero_grad(set_to_none=True)
        self.y, aux, self.counts = self.moe(self.x)
        ((self.y * self.dy).sum() + 0.01 * aux).backward()

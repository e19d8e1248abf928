"""Small random models of transformers, imported and computed: transformers_test.py MODEL PLAIT MODEL_NUMBERS

Logits and gradients in float64 at one rank, at tp 2 x ep 2 and with recomputation, against transformers in float64; and
what `plait export` writes back, byte by byte. Even a float64 model of transformers computes parts in float32: norms,
rotary angles, routers, the softmax of attention. Here exactly these stay in float64 (`stays_wide`).
"""
import contextlib
import filecmp
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"{missing}: `plait setup --check` brings transformers")
    sys.exit(77)

LOGITS, GRADIENTS, STOCK, GAP = 1e-9, 1e-8, 2e-5, 1e-4

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False)
EXPERTS = dict(num_experts_per_tok=2, router_aux_loss_coef=0.0, experts_implementation="eager")
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)

# Name: class of the config, class of the model, what it says beside SMALL; several of these are several models.
MODELS = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", [{}, dict(attention_bias=True, tie_word_embeddings=True, head_dim=12)]),
    "llama_scaled": ("LlamaConfig", "LlamaForCausalLM",
                     [dict(rope_parameters=LLAMA3), dict(rope_parameters=YARN),
                      dict(rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=2.0))]),
    "mistral": ("MistralConfig", "MistralForCausalLM", [dict(sliding_window=5), dict(sliding_window=None, head_dim=8)]),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", [dict(num_local_experts=4, sliding_window=None, **EXPERTS)]),
    "qwen2_moe": ("Qwen2MoeConfig", "Qwen2MoeForCausalLM",
                  [dict(num_experts=4, moe_intermediate_size=24, shared_expert_intermediate_size=40, **EXPERTS),
                   dict(num_experts=4, moe_intermediate_size=24, shared_expert_intermediate_size=40,
                        norm_topk_prob=True, mlp_only_layers=[0], **EXPERTS)]),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM",
                  [dict(num_experts=4, moe_intermediate_size=24, head_dim=12, norm_topk_prob=True, **EXPERTS),
                   dict(num_experts=8, moe_intermediate_size=16, head_dim=8, decoder_sparse_step=2, **EXPERTS)]),
    "olmoe": ("OlmoeConfig", "OlmoeForCausalLM",
              [dict(num_experts=4, **EXPERTS), dict(num_experts=4, clip_qkv=0.8, norm_topk_prob=True, **EXPERTS)]),
}
LAYOUTS = [["memory.recompute=none"], ["mesh.tp=2", "mesh.ep=2"], ["mesh.tp=2", "mesh.ep=2", "memory.recompute=full"]]


@contextlib.contextmanager
def stays_wide():
    """Whatever would become float32 here is float64."""
    to, as_float, softmax, arange = torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax, torch.arange

    def wide(value):
        return torch.float64 if value is torch.float32 else value

    def new_softmax(*args, dtype=None, **named):
        return softmax(*args, dtype=wide(dtype), **named)

    torch.Tensor.to = lambda x, *args, **named: to(x, *map(wide, args), **{k: wide(v) for k, v in named.items()})
    torch.Tensor.float = lambda x: to(x, torch.float64)
    torch.arange = lambda *args, dtype=None, **named: arange(*args, dtype=wide(dtype), **named)
    torch.nn.functional.softmax = new_softmax
    try:
        yield
    finally:
        torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax, torch.arange = to, as_float, softmax, arange


def randomised(model):
    """Numbers large enough that everything counts; gains around 1."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(1 + 0.2 * noise if "norm" in name else 0.5 * noise if "gate.weight" in name else 0.12 * noise)
    return model


def within(what, got, want, bound):
    distance = (got.double() - want.double()).abs().max().item() / max(want.double().abs().max().item(), 1e-12)
    assert distance <= bound, f"{what}: {distance:.2e}, at most {bound:.0e}"
    return distance


def gradient_of(name, gradients):
    """Of our parameter: theirs, or the two that ours holds one after the other."""
    if name in gradients:
        return gradients[name]
    name = name.replace("shared_experts.", "shared_expert.")
    if name in gradients:
        return gradients[name]
    return torch.cat([gradients[name.replace("gate_up_proj", part)] for part in ("gate_proj", "up_proj")])


class Peer:
    """A model of transformers in float64."""

    def __init__(self, kind, config, state):
        torch.set_default_dtype(torch.float64)
        with stays_wide():
            self.model = kind(config).double()
        torch.set_default_dtype(torch.float32)
        self.model.load_state_dict({name: value.double() for name, value in state.items()})
        self.model.eval()

    def run(self, ids, targets):
        with stays_wide():
            routes = {"output_router_logits": True} if hasattr(self.model.config, "router_aux_loss_coef") else {}
            out = self.model(input_ids=ids, **routes)
            self.logits = out.logits.reshape(-1, out.logits.shape[-1])
            self.loss = torch.nn.functional.cross_entropy(self.logits, targets.reshape(-1))
            self.loss.backward()
        self.gap = min([1.0] + [self.smallest_gap(scores) for scores in getattr(out, "router_logits", None) or []])
        return self

    def smallest_gap(self, scores):
        k = self.model.config.num_experts_per_tok
        best = scores.double().softmax(-1).sort(-1, descending=True).values if scores.min() < 0 else scores.sort(-1, descending=True).values
        return (best[:, k - 1] - best[:, k]).min().item()


def plait(program, *words):
    ran = subprocess.run([program, *words], capture_output=True, text=True)
    assert ran.returncode == 0, f"{' '.join(words)}: {ran.stdout}{ran.stderr}"


def text(vocabulary, seed):
    ids = torch.randint(0, vocabulary, (4, 17), generator=torch.Generator().manual_seed(seed))
    return {"ids": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}


def compare(kind, config, folder, plait_program, numbers):
    model = randomised(kind(config).float())
    model.eval()
    model.save_pretrained(f"{folder}/theirs")
    for seed in range(20):  # a text in which no expert is chosen by a hair
        tokens = text(config.vocab_size, seed)
        peer = Peer(kind, config, model.state_dict()).run(**tokens)
        if peer.gap > 3 * GAP:
            break
    assert peer.gap > GAP, f"two experts are chosen by a hair: {peer.gap:.1e}"
    stock = model(input_ids=tokens["ids"]).logits.reshape(peer.logits.shape)
    within("float64 in place of float32 in transformers", peer.logits, stock, 1e-5)
    plait(plait_program, "import", f"{folder}/theirs", f"{folder}/ours")
    gradients = {name: p.grad for name, p in peer.model.named_parameters() if p.grad is not None}
    for n, layout in enumerate(LAYOUTS):
        out = f"{folder}/numbers{n}"
        save_file(tokens, out + ".tokens")
        plait(numbers, out, f"{folder}/ours/config.toml", f"train.init={folder}/{'theirs' if n else 'ours'}", *layout)
        mine = load_file(out)
        largest = within("logits", mine["logits"], peer.logits, LOGITS)
        within("logits of stock float32", mine["logits"], stock, STOCK)
        within("loss", mine["loss"], peer.loss, LOGITS)
        names = [name for name in mine if name.startswith("gradient.")]
        furthest = max(within(name, mine[name].reshape(-1), gradient_of(name[9:], gradients).reshape(-1), GRADIENTS)
                       for name in names)
        print(f"{config.model_type} {' '.join(layout)}: logits {largest:.1e}, gradients {furthest:.1e}, gap {peer.gap:.1e}")
    come_back(folder, plait_program)


def come_back(folder, plait_program):
    """What is exported is what was imported."""
    plait(plait_program, "export", f"{folder}/ours", f"{folder}/back")
    assert filecmp.cmp(f"{folder}/theirs/config.json", f"{folder}/back/config.json", shallow=False), "config.json"
    theirs, back = load_file(f"{folder}/theirs/model.safetensors"), load_file(f"{folder}/back/model.safetensors")
    assert theirs.keys() == back.keys(), theirs.keys() ^ back.keys()
    for name, value in theirs.items():
        assert value.dtype == back[name].dtype and torch.equal(value, back[name]), name
    again = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/back")
    assert json.load(open(f"{folder}/back/config.json"))["model_type"] == again.config.model_type


def main(name, plait_program, numbers):
    transformers.logging.set_verbosity_error()
    config_kind, model_kind, variants = MODELS[name]
    for variant in variants:
        config = getattr(transformers, config_kind)(**{**SMALL, **variant})
        config._attn_implementation = "eager"
        with tempfile.TemporaryDirectory() as folder:
            compare(getattr(transformers, model_kind), config, folder, os.path.abspath(plait_program), os.path.abspath(numbers))


main(*sys.argv[1:])

"""Trains transformers' Mixtral on random tokens and prints one JSON line: the time of its training steps.

A step draws fresh tokens, clears the gradients, goes forward (cross-entropy and the router's auxiliary loss),
backward, and updates with AdamW. Nothing is compiled and nothing leaves float32.
"""
import argparse
import json
import statistics
import time

import torch
import transformers


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("hidden", 256), ("expert", 1024), ("layers", 4), ("heads", 4), ("experts", 8), ("top", 2),
                          ("vocabulary", 512), ("sequences", 8), ("positions", 256), ("threads", 2), ("steps", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--experts-code", default=None, help="transformers' experts_implementation; its default without")
    parser.add_argument("--fused", action="store_true", help="torch's fused AdamW")
    return parser.parse_args()


def build(a):
    config = transformers.MixtralConfig(
        vocab_size=a.vocabulary, hidden_size=a.hidden, intermediate_size=a.expert, num_hidden_layers=a.layers,
        num_attention_heads=a.heads, num_key_value_heads=a.heads, num_local_experts=a.experts,
        num_experts_per_tok=a.top, max_position_embeddings=a.positions, sliding_window=None, use_cache=False,
        output_router_logits=True, router_aux_loss_coef=0.01, tie_word_embeddings=False)
    if a.experts_code:
        config._experts_implementation = a.experts_code
    return transformers.MixtralForCausalLM(config).float().train()


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = build(a)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=a.fused or None)

    def step():
        ids = torch.randint(a.vocabulary, (a.sequences, a.positions))
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(2):
        step()
    seconds = []
    for _ in range(a.steps):
        begin = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - begin)
    tokens = a.sequences * a.positions
    print(json.dumps({
        "torch": torch.__version__, "transformers": transformers.__version__,
        "experts": getattr(model.config, "_experts_implementation", None) or "default",
        "parameters": sum(p.numel() for p in model.parameters()), "loss": round(loss, 4),
        "step_ms": 1e3 * min(seconds), "median_ms": 1e3 * statistics.median(seconds),
        "tokens_per_s": tokens / min(seconds)}))


if __name__ == "__main__":
    main()

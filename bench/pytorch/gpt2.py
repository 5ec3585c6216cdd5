"""GPT-2 of 124 M parameters with random weights: a forward pass, compared with the CPU's.

    warpwright run --gpu h200 --timing sampled bench/pytorch/gpt2.py [--tokens 1024] [--dtype float32] [--layers 12]

Prints the largest difference of the logits and the processor's time; fails if they differ by more than the type's rounding explains.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    """A transformer's layer, normalised before attention and before the multilayer perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.ln_1(x)).chunk(3, dim=-1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2, or a smaller model of its kind."""

    def __init__(self, vocabulary: int, context: int, layers: int, heads: int, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self._initialise)
        self.head.weight = self.tokens.weight

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        x = self.tokens(index) + self.positions(torch.arange(index.shape[1], device=index.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = GPT(50257, 1024, options.layers, 12, 768).eval()
    index = torch.randint(50257, (1, options.tokens))
    dtype = getattr(torch, options.dtype)
    with torch.no_grad():
        model.to(dtype)
        expected = model.float()(index)
        model.to(dtype).cuda()
        began, wall = time.process_time(), time.time()
        found = model(index.cuda()).float().cpu()
        seconds = time.process_time() - began
    difference = ((found - expected).abs().max() / expected.abs().max()).item()
    print(
        f"largest difference {difference:.2e} of the largest logit; {seconds:.0f} s of CPU, {time.time() - wall:.0f} s"
    )
    assert difference < {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}[options.dtype], difference


if __name__ == "__main__":
    main()

"""A block of Llama's kind, with grouped queries, rotary positions, RMS norm and SwiGLU: forward and backward, compared with the CPU's.

warpwright run --gpu h200 --timing sampled bench/pytorch/llama.py [--tokens 128] [--width 512] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotary(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions on [batch, heads, tokens, width], halves of a head against each other."""
    half = x.shape[-1] // 2
    frequencies = 500000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.outer(torch.arange(x.shape[-2], device=x.device, dtype=torch.float32), frequencies)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    low, high = x[..., :half], x[..., half:]
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


class Block(nn.Module):
    """One layer: several query heads share a head of keys and values."""

    def __init__(self, width: int, heads: int, shared_heads: int) -> None:
        super().__init__()
        self.heads, self.shared_heads, self.head_width = heads, shared_heads, width // heads
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, shared_heads * self.head_width, bias=False)
        self.v = nn.Linear(width, shared_heads * self.head_width, bias=False)
        hidden = width * 8 // 3 // 64 * 64
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        y = self.attention_norm(x)
        q = rotary(self.q(y).view(batch, tokens, self.heads, self.head_width).transpose(1, 2))
        k = rotary(self.k(y).view(batch, tokens, self.shared_heads, self.head_width).transpose(1, 2))
        v = self.v(y).view(batch, tokens, self.shared_heads, self.head_width).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def run(block: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Result, and gradients of the input and of every weight."""
    leaf = x.detach().requires_grad_()
    result = block(leaf)
    gradients = torch.autograd.grad(result.float().square().mean(), [leaf, *block.parameters()])
    return [t.detach().float().cpu() for t in (result, *gradients)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="bfloat16")
    options = parser.parse_args()
    torch.manual_seed(0)
    dtype = getattr(torch, options.dtype)
    block = Block(options.width, options.width // 64, options.width // 256).to(dtype)
    x = torch.randn(2, options.tokens, options.width).to(dtype)
    expected = run(block.float(), x.float())
    began, wall = time.process_time(), time.time()
    found = run(block.to(dtype).cuda(), x.cuda())
    worst = max(
        ((one - other).abs().max() / other.abs().max()).item() for one, other in zip(found, expected, strict=True)
    )
    print(f"largest difference {worst:.1e}; {time.process_time() - began:.0f} s of CPU, {time.time() - wall:.0f} s")
    assert worst < {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}[options.dtype], worst


if __name__ == "__main__":
    main()

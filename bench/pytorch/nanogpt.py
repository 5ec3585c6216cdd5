"""Ten training steps of nanoGPT's small configuration (6 layers, 6 heads, 384 wide, context 256), with the CPU's losses beside them.

    warpwright run --gpu h200 --timing off bench/pytorch/nanogpt.py [--steps 10] [--batch 2] [--context 256]

Characters of a text made from a fixed seed; AdamW with nanoGPT's constants, no dropout, gradients clipped to a norm of 1.  nanoGPT's batch is 64; the
losses' agreement does not depend on it.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F

from bench.pytorch.gpt2 import GPT

VOCABULARY = 65


def losses(device: str, steps: int, batch: int, context: int) -> list[float]:
    """The loss of each step."""
    torch.manual_seed(1337)
    model = GPT(VOCABULARY, context, 6, 6, 384)
    text = (torch.randn(20000).cumsum(0).abs() % VOCABULARY).long()
    starts = [torch.randint(len(text) - context - 1, (batch,)) for _ in range(steps)]
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    found = []
    for start in starts:
        rows = torch.stack([text[i : i + context + 1] for i in start.tolist()]).to(device)
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), rows[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--context", type=int, default=256)
    options = parser.parse_args()
    expected = losses("cpu", options.steps, options.batch, options.context)
    began, wall = time.process_time(), time.time()
    found = losses("cuda", options.steps, options.batch, options.context)
    for step, (one, other) in enumerate(zip(found, expected, strict=True)):
        print(f"step {step}: {one:.6f}, CPU {other:.6f}")
    worst = max(abs(one - other) for one, other in zip(found, expected, strict=True))
    print(f"largest difference {worst:.1e}; {time.process_time() - began:.0f} s of CPU, {time.time() - wall:.0f} s")
    assert worst < 2e-3, worst


if __name__ == "__main__":
    main()

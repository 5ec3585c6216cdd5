"""torch.distributed with NCCL: data-parallel training of a small perceptron, a process for each device, against one process with the whole batch.

warpwright run --gpu h200,h200 --timing off bench/pytorch/distributed.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn

STEPS, BATCH = 3, 8


def losses(rank: int, ranks: int) -> tuple[list[float], torch.Tensor]:
    """The mean loss over all ranks of each step, and a weight at the end."""
    torch.manual_seed(0)
    device = f"cuda:{rank}"
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to(device)
    trained = nn.parallel.DistributedDataParallel(model, device_ids=[rank]) if ranks > 1 else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    x, y = torch.randn(STEPS, BATCH, 16), torch.randn(STEPS, BATCH, 4)
    part = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    found = []
    for step in range(STEPS):
        loss = (trained(x[step, part].to(device)) - y[step, part].to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        found.append(mean.item())
    return found, model[0].weight.detach().cpu()


def worker(rank: int, ranks: int, place: str) -> None:
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{place}", rank=rank, world_size=ranks)
    found, weight = losses(rank, ranks)
    parts = [torch.empty(2, device="cuda") for _ in range(ranks)]
    dist.all_gather(parts, torch.full((2,), float(rank), device="cuda"))
    assert [part[0].item() for part in parts] == list(range(ranks))
    if rank == 0:
        expected, whole = losses(0, 1)
        print("losses", found, "of one process", expected)
        assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 1e-5
        assert (weight - whole).abs().max() < 1e-5
    dist.destroy_process_group()


def main() -> None:
    ranks = torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "rendezvous")
        command = [sys.executable, __file__, "worker"]
        workers = [subprocess.Popen([*command, str(rank), str(ranks), place]) for rank in range(ranks)]
        codes = [one.wait() for one in workers]
        assert codes == [0] * ranks, codes


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        main()

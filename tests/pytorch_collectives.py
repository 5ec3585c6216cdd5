"""Collectives, sub-groups, data parallel and sharded training of PyTorch, one process for each device; a program of ``test_pytorch_features.py``."""

from __future__ import annotations

import copy
import math
import socket
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

DEVICE = "cuda"


def filled(value: float, count: int = 4) -> torch.Tensor:
    return torch.full((count,), float(value), device=DEVICE)


def collectives(rank: int, ranks: int) -> None:
    expected = {"SUM": ranks * (ranks + 1) / 2, "MAX": ranks, "MIN": 1, "AVG": (ranks + 1) / 2}
    for name, value in {**expected, "PRODUCT": math.factorial(ranks)}.items():
        x = filled(rank + 1, 1000)
        dist.all_reduce(x, getattr(dist.ReduceOp, name))
        assert x.tolist() == [value] * 1000, name
    x = filled(rank).bfloat16()
    dist.broadcast(x, 1)
    assert x[0].item() == 1
    x = filled(rank + 1)
    dist.reduce(x, 0)
    assert rank or x[0].item() == expected["SUM"]
    parts = [filled(0) for _ in range(ranks)]
    dist.all_gather(parts, filled(rank))
    assert [part[0].item() for part in parts] == [*range(ranks)]
    whole = filled(0, 3 * ranks)
    dist.all_gather_into_tensor(whole, filled(rank, 3))
    assert whole[::3].tolist() == [*range(ranks)]
    x = filled(0, 2)
    dist.reduce_scatter_tensor(x, torch.arange(2.0 * ranks, device=DEVICE))
    assert x.tolist() == [2 * rank * ranks, (2 * rank + 1) * ranks]


def exchanges(rank: int, ranks: int) -> None:
    columns = [10 * peer + rank for peer in range(ranks)]
    x, given = torch.empty(ranks, device=DEVICE), torch.arange(float(ranks), device=DEVICE) + 10 * rank
    dist.all_to_all_single(x, given)
    assert x.tolist() == columns
    parts = [filled(0, 2) for _ in range(ranks)]
    dist.all_to_all(parts, [filled(10 * rank + peer, 2) for peer in range(ranks)])
    assert [part[0].item() for part in parts] == columns
    parts = [filled(0) for _ in range(ranks)] if rank == 0 else None
    dist.gather(filled(rank), parts, 0)
    assert parts is None or [part[0].item() for part in parts] == [*range(ranks)]
    x = filled(0)
    dist.scatter(x, [filled(peer + 7) for peer in range(ranks)] if rank == 0 else None, 0)
    assert x[0].item() == rank + 7
    if rank == 0:
        dist.send(filled(5), 1)
    elif rank == 1:
        dist.recv(x, 0)
        assert x[0].item() == 5
    peers = ((dist.isend, filled(rank), (rank + 1) % ranks), (dist.irecv, x, (rank - 1) % ranks))
    for work in dist.batch_isend_irecv([dist.P2POp(*peer) for peer in peers]):
        work.wait()
    assert x[0].item() == (rank - 1) % ranks
    objects: list[object] = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": peer} for peer in range(ranks)]
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = filled(1)
        work = dist.all_reduce(x, group=pair, async_op=True)
        work.wait()
        assert x[0].item() == 2
    dist.barrier()


def training(rank: int, ranks: int) -> None:
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    x = torch.randn(4 * ranks, 8)
    own = x[4 * rank : 4 * rank + 4].to(DEVICE)
    parallel = DistributedDataParallel(copy.deepcopy(alone).to(DEVICE), device_ids=[rank])
    parallel(own).square().mean().backward()
    alone(x).square().mean().backward()
    for one, other in zip(parallel.parameters(), alone.parameters(), strict=True):
        assert torch.allclose(one.grad.cpu(), other.grad, atol=1e-5)
    alone.zero_grad()
    sharded = copy.deepcopy(alone).to(DEVICE)
    fully_shard(sharded, mesh=init_device_mesh(DEVICE, (ranks,)))
    steps = [(model, torch.optim.Adam(model.parameters(), 1e-2)) for model in (sharded, alone)]
    for _ in range(3):
        losses = []
        for (model, optimizer), batch in zip(steps, (own, x), strict=True):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        dist.all_reduce(losses[0], dist.ReduceOp.AVG)
        assert abs(losses[0].item() - losses[1].item()) < 1e-5


def work(rank: int, ranks: int, port: int) -> None:
    torch.cuda.set_device(rank)
    device = torch.device(DEVICE, rank)
    address = f"tcp://127.0.0.1:{port}"
    options = {"rank": rank, "world_size": ranks, "device_id": device, "timeout": timedelta(minutes=20)}
    dist.init_process_group("nccl", address, **options)
    for part in (collectives, exchanges, training):
        part(rank, ranks)
    dist.destroy_process_group()
    if rank == 0:
        print("finished", flush=True)


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    count = torch.cuda.device_count()
    processes.spawn(work, (count, number), count)

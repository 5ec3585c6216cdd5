"""PyTorch's features around a model, as its users write them: mixed precision, graphs, streams, memory, loaders, files, sparsity, profiler.

Run with ``-m pytorch`` (``test_pytorch.py``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.test_pytorch import _COMPARE, PYTHON, pytestmark, run, run_without_time

__all__ = ["pytestmark"]
_STEP = """
def step(model, optimizer, x, y):
    optimizer.zero_grad(set_to_none=True)
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
def make(place):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to(place)
xs, ys = randn(6, 12, 16), randn(6, 12, 8)
"""
PROGRAMS = {
    "mixed precision": """
def losses(place, dtype, scaled):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10)).to(place)
    x, y = randn(16, 20).to(place), (torch.arange(16) % 10).to(place)
    optimizer, scaler, found = torch.optim.AdamW(model.parameters(), 1e-2), torch.amp.GradScaler(enabled=scaled), []
    for _ in range(5):
        optimizer.zero_grad()
        with torch.autocast(place, dtype or torch.float32, enabled=dtype is not None):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    return found
expected = losses("cpu", None, False)
for dtype, scaled, most in ((None, False, 1e-4), (torch.float16, True, 2e-2), (torch.bfloat16, False, 5e-2)):
    assert max(abs(a - b) for a, b in zip(losses("cuda", dtype, scaled), expected)) < most, dtype
weight = torch.ones(4, device="cuda", requires_grad=True)
optimizer, scaler = torch.optim.SGD([weight], 0.1), torch.amp.GradScaler(init_scale=2.0**16)
scaler.scale((weight * float("inf")).sum()).backward()
scaler.step(optimizer)
scaler.update()
assert weight.tolist() == [1] * 4 and scaler.get_scale() == 2.0**15
""",
    "graphs": f"""{_STEP}
model = make("cpu")
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
expected = [step(model, optimizer, x, y).item() for x, y in zip(xs, ys)]
model, found = make("cuda"), []
optimizer, x, y = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), xs[0].cuda(), ys[0].cuda()
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for i in range(3):
        x.copy_(xs[i]), y.copy_(ys[i])
        found.append(step(model, optimizer, x, y).item())
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step(model, optimizer, x, y)
for i in range(3, 6):
    x.copy_(xs[i]), y.copy_(ys[i])
    graph.replay()
    found.append(loss.item())
assert max(abs(a - b) for a, b in zip(found, expected)) < 1e-5
random = torch.cuda.CUDAGraph()
with torch.cuda.graph(random, pool=graph.pool()):
    drawn = torch.rand(1000, device="cuda")
random.replay()
first = drawn.clone()
random.replay()
assert not torch.equal(first, drawn) and 0.4 < drawn.mean().item() < 0.6
import copy
alone = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
graphed = torch.cuda.make_graphed_callables(copy.deepcopy(alone).cuda(), (torch.randn(12, 16, device="cuda"),))
both = [(m, torch.optim.Adam(m.parameters(), 1e-2)) for m in (alone, graphed)]
for x, y in zip(xs, ys):
    assert abs(step(*both[0], x, y).item() - step(*both[1], x.cuda(), y.cuda()).item()) < 1e-5
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        drawn.sum().item()
    raise SystemExit("a wait within a capture was not refused")
except RuntimeError as error:
    assert "capture" in str(error)
assert (torch.ones(3, device="cuda") + 1).sum().item() == 6
""",
    "streams": """
a, b = randn(64, 64), randn(64, 64)
one, other, now = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.cuda.current_stream()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
on_device = a.cuda(), b.cuda()
one.wait_stream(now), other.wait_stream(now)
with torch.cuda.stream(one):
    begin.record()
    x = on_device[0] @ on_device[1]
    end.record()
with torch.cuda.stream(other):
    other.wait_event(end)
    y = x + 1
    x.record_stream(other)
now.wait_stream(other)
assert torch.allclose(y.cpu(), a @ b + 1, atol=1e-4) and other.priority == -1
torch.cuda.synchronize()
assert begin.elapsed_time(end) > 0 and end.query() and one.query()
page, place = torch.empty(1000, pin_memory=True).fill_(3), torch.empty(1000, device="cuda")
with torch.cuda.stream(one):
    place.copy_(page, non_blocking=True)
    end.record()
end.synchronize()
assert place.sum().item() == 3000
with torch.cuda.stream(torch.cuda.ExternalStream(one.cuda_stream)):
    total = (place + 1).sum()
one.synchronize()
assert total.item() == 4000
""",
    "memory": """
MiB, cuda = 1 << 20, torch.cuda
held = torch.empty(64 * MiB, dtype=torch.uint8, device="cuda")
assert cuda.memory_allocated() == 64 * MiB <= cuda.memory_reserved()
free = cuda.mem_get_info()[0]
del held
assert cuda.memory_allocated() == 0 and cuda.max_memory_allocated() == 64 * MiB
cuda.empty_cache()
assert cuda.memory_reserved() == 0 and cuda.mem_get_info()[0] >= free + 64 * MiB
cuda.reset_peak_memory_stats()
assert cuda.max_memory_allocated() == 0 and cuda.memory_stats()["segment.all.allocated"] >= 1
total = cuda.get_device_properties(0).total_memory
quarters = [torch.empty(total // 4, dtype=torch.uint8, device="cuda") for _ in range(3)]
for size in (total + MiB, total // 2):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
        raise SystemExit("more memory than there is")
    except torch.OutOfMemoryError as error:
        assert "Tried to allocate" in str(error) and "GPU 0 has a total capacity of" in str(error)
del quarters
cuda.empty_cache()
torch.empty(total // 2, dtype=torch.uint8, device="cuda")
cuda.memory._record_memory_history()
x = torch.ones(1000, device="cuda") * 2
snapshot = cuda.memory._snapshot()
assert snapshot["segments"] and snapshot["device_traces"][0]
pool = cuda.MemPool()
with cuda.use_mem_pool(pool):
    x = torch.ones(1000, device="cuda")
assert x.sum().item() == 1000
""",
    "loaders": """
class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 32
    def __getitem__(self, number):
        return torch.full((8,), float(number)), number
def main():
    for options in ({"persistent_workers": True}, {"multiprocessing_context": "spawn"}):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True, **options)
        for epoch in range(2):
            seen = []
            for x, numbers in loader:
                assert x.is_pinned()
                assert torch.equal((x.to("cuda", non_blocking=True) * 2).sum(1).cpu(), 16.0 * numbers)
                seen += numbers.tolist()
            assert seen == list(range(32))
if __name__ == "__main__":
    main()
""",
    "files": """
import os
sources = [torch.randn(1000, device="cuda"), torch.randn(2, 1024, device="cuda")]
file = torch.cuda.gds.GdsFile("numbers", os.O_CREAT | os.O_RDWR)
torch.cuda.gds.gds_register_buffer(sources[0].untyped_storage())
file.save_storage(sources[0].untyped_storage(), offset=0)
file.save_storage(sources[1].untyped_storage(), offset=4000)
found = [torch.empty_like(x) for x in sources]
file.load_storage(found[0].untyped_storage(), offset=0)
file.load_storage(found[1].untyped_storage(), offset=4000)
assert all(torch.equal(a, b) for a, b in zip(found, sources)) and os.path.getsize("numbers") == 12192
torch.cuda.gds.gds_deregister_buffer(sources[0].untyped_storage())
""",
    "semi-structured sparsity": """
from torch.sparse import SparseSemiStructuredTensorCUSPARSELT, to_sparse_semi_structured
layer = nn.Linear(128, 128).half()
layer.weight.data *= torch.tensor([1, 0, 0, 1]).tile((128, 32))
x = randn(32, 128).half()
expected = F.linear(x.float(), layer.weight.float(), layer.bias.float())
on_device = nn.Linear(128, 128).half().cuda()
on_device.load_state_dict(layer.state_dict())
on_device.weight = nn.Parameter(to_sparse_semi_structured(on_device.weight.data))
assert type(on_device.weight.data) is SparseSemiStructuredTensorCUSPARSELT
assert torch.allclose(on_device(x.cuda()).float().cpu(), expected, atol=2e-3)
a, b = (torch.randint(-5, 5, (128, n)).to(torch.int8) for n in (128, 64))
a *= torch.tensor([0, 1, 1, 0]).tile((128, 32))
packed, b = torch._cslt_compress(a.cuda()), b.cuda().t().contiguous().t()
exact = a.int() @ b.cpu().int()
assert torch.equal(torch._cslt_sparse_mm(packed, b).cpu(), exact.clamp(-128, 127).to(torch.int8))
assert torch.equal(torch._cslt_sparse_mm(packed, b, out_dtype=torch.int32).cpu(), exact)
scales = torch.rand(128)
scaled = torch._cslt_sparse_mm(packed, b, alpha=scales.cuda(), out_dtype=torch.float16)
assert torch.allclose(scaled.float().cpu(), scales[:, None] * exact, rtol=1e-3)
# PyTorch's own kernel packs the weights.
weights = randn(128, 256).half()
dense = SparseSemiStructuredTensorCUSPARSELT.prune_dense_static_sort(weights.cuda()) @ torch.eye(256).half().cuda()
kept = dense.cpu() != 0
assert (kept.reshape(128, 64, 4).sum(-1) <= 2).all() and kept.float().mean() > 0.48
assert torch.equal(dense.cpu()[kept], weights[kept])
""",
    "compiled": f"""{_STEP}
import copy
model = make("cpu")
on_device = copy.deepcopy(model).cuda()
compiled = torch.compile(on_device, mode="reduce-overhead")
pairs = [(m, torch.optim.SGD(m.parameters(), 0.1)) for m in (model, on_device)]
for x, y in zip(xs, ys):
    expected = step(*pairs[0], x, y).item()
    assert abs(step(compiled, pairs[1][1], x.cuda(), y.cuda()).item() - expected) < 1e-4
""",
    # A short program compiles before its workers are ready, and then in its own process.
    "compiled by workers": """
import copy
from torch._inductor.async_compile import AsyncCompile
torch._inductor.config.compile_threads = 2
AsyncCompile.wait_pool_ready()
assert AsyncCompile.use_process_pool()
model, x = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 16)).bfloat16(), randn(32, 32).bfloat16()
compiled = torch.compile(copy.deepcopy(model).cuda())
found, expected = compiled(x.cuda()), model(x)
assert torch.allclose(found.cpu().float(), expected.float(), atol=2e-2)
""",
    "unrolled reductions": """
def reductions(x):
    return (*x.min(-1), *x.max(-1), x.sum(-1), (x > 1).any(-1), (x > 0).all(-1), x.amin(-1), x.amax(-1))
torch._inductor.config.unroll_reductions_threshold = 8
for dtype in (torch.float16, torch.bfloat16):
    x = randn(8, 3).to(dtype)
    for found, expected in zip(torch.compile(reductions)(x.cuda()), reductions(x)):
        assert torch.allclose(found.cpu(), expected), dtype
""",
    "residual block": """
import copy
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.Conv2d(8, 8, 3, 1, 1, bias=False)])
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))
        self.shortcut = nn.Sequential(nn.Conv2d(4, 8, 1, 2, bias=False), nn.BatchNorm2d(8))
    def forward(self, x):
        y = F.relu(self.norms[0](self.convolutions[0](x)))
        return F.relu(self.norms[1](self.convolutions[1](y)) + self.shortcut(x))
model, x = Block(), randn(2, 4, 8, 8)
on_device = copy.deepcopy(model).cuda()
for one, given in ((model, x), (on_device, x.cuda())):
    one(given).square().mean().backward()
for (name, a), b in zip(model.named_parameters(), on_device.parameters()):
    assert torch.allclose(a.grad, b.grad.cpu(), rtol=1e-3, atol=1e-5), name
for a, b in zip(model.buffers(), on_device.buffers()):
    assert torch.allclose(a.float(), b.cpu().float(), atol=1e-5)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_features(name: str, tmp_path: Path) -> None:
    run(PROGRAMS[name], tmp_path)


def test_the_profiler_shows_the_simulated_time_of_each_launch(tmp_path: Path) -> None:
    """Durations are those of the launches; each kernel begins after its call, and belongs to the call's operator."""
    program = """
x = torch.randn(16, 64, device="cuda")
layer = nn.Linear(64, 64).cuda()
with torch.profiler.profile() as profile:
    torch.softmax(layer(x), 1).sum().backward()
    x.cpu()
    torch.cuda.synchronize()
assert profile.key_averages().total_average().device_time_total > 0
profile.export_chrome_trace("trace.json")
print("finished")
"""
    (tmp_path / "program.py").write_text(_COMPARE + program)
    command = ["--timing", "full", "--json", "rows.json", "program.py"]
    assert "finished" in run_without_time(tmp_path, "h200", *command).stdout
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert len(kernels) >= 5
    times = [row["seconds"] * 1e6 for row in json.loads((tmp_path / "rows.json").read_text())]
    for kernel in kernels:
        assert min(abs(kernel["dur"] - time) for time in times) < 0.01
    calls = {event["args"]["correlation"]: event for event in events if event.get("cat") == "cuda_runtime"}
    assert all(kernel["ts"] >= calls[kernel["args"]["correlation"]]["ts"] for kernel in kernels)
    assert any(event.get("cat") == "gpu_memcpy" for event in events)


def test_collectives_between_processes(tmp_path: Path) -> None:
    """What PyTorch's documentation lists for NCCL, and sharded parameters."""
    program = Path(__file__).with_name("pytorch_collectives.py")
    done = run_without_time(tmp_path, "h200,h200", PYTHON, str(program))
    assert "finished" in done.stdout
    assert not re.search(r"is not provided", done.stderr)

"""Times of small PyTorch workloads on a simulated device beside those on a card.

    python -m bench.pytorch.workloads [--gpu h200|card] [--library-model nvidia] [--only NAME,…] [--workers 1] [--limit SECONDS] [--json FILE]
    python -m bench.pytorch.workloads --beside CARD.json MODEL.json

A workload is captured in a CUDA graph, and on a card a kernel that spins keeps the device busy until the host has submitted both events and the graph, so that the time between
the events is that of the device alone: the second replay on a simulated device, the median of 20 on a card.  Attention runs in PyTorch's own kernels on both (``TORCH_CUDNN_SDPA_DEPRIORITIZED``).  Those marked ``library`` launch kernels of cuBLAS or cuDNN, which are Warpwright's own on a simulated device; the time of their other kernels is
compared too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.pytorch.case_processes import CARD

LIBRARY = ("mlp", "convolution", "attention_block", "compiled_mlp")
"""Workloads with kernels of cuBLAS or cuDNN."""
_SPIN_CYCLES = 600_000
"""300 us, in which the host submits a graph."""
NAMES = (
    *("mlp", "convolution", "attention_block", "attention", "layer_norm", "group_norm", "adam", "embedding", "sort"),
    *("cross_entropy", "elementwise", "scan", "reduction", "gather_scatter", "compiled_norm", "compiled_mlp"),
    "compiled_softmax",
)
LINES = ("line_same", "line_two", "line_large", "line_list", "line_lists")
"""Twenty small kernels in a line, or forty: not part of the workloads."""


def _randn(*shape: int, dtype: str = "float32", grad: bool = False) -> Any:
    import torch

    return torch.randn(*shape, device="cuda", dtype=getattr(torch, dtype)).requires_grad_(grad)


def _trained(function: Callable[..., Any], *leaves: Any) -> Callable[[], Any]:
    """A function's result and gradients."""
    import torch

    def both() -> Any:
        result = function(*leaves)
        return torch.autograd.grad(result, leaves, torch.ones_like(result))

    return both


def _perceptron() -> Any:
    import torch.nn as nn

    return nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda().bfloat16()


def _with_library(name: str) -> Callable[[], Any]:
    """Workloads whose products and convolutions are cuBLAS's and cuDNN's."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    if name == "convolution":
        w, x = _randn(64, 64, 3, 3, dtype="float16"), _randn(8, 64, 32, 32, dtype="float16")
        return lambda: F.relu(F.conv2d(x, w, padding=1))
    if name == "attention_block":
        qkv, out = (nn.Linear(512, n).cuda().bfloat16() for n in (1536, 512))
        x = _randn(2, 512, 512, dtype="bfloat16")

        def block() -> Any:
            q, k, v = (t.view(2, 512, 8, 64).transpose(1, 2) for t in qkv(F.layer_norm(x, (512,))).chunk(3, -1))
            heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + out(heads.transpose(1, 2).reshape(2, 512, 512))

        return block
    model, x = _perceptron(), _randn(1024, 512, dtype="bfloat16")
    if name == "compiled_mlp":
        compiled: Callable[[], Any] = torch.compile(lambda: model(x))
        return compiled
    return lambda: torch.autograd.grad(model(x).float().square().mean(), list(model.parameters()))


def _layers(name: str) -> Callable[[], Any] | None:
    """Layers and an optimiser's step whose kernels are PyTorch's own."""
    import torch
    import torch.nn.functional as F

    if name == "attention":
        qkv = (_randn(2, 8, 1024, 64, dtype="bfloat16", grad=True) for _ in range(3))
        return _trained(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *qkv)
    if name == "layer_norm":
        leaves = (_randn(*shape, grad=True) for shape in ((4096, 1024), (1024,), (1024,)))
        return _trained(lambda x, w, b: F.layer_norm(x, (1024,), w, b), *leaves)
    if name == "group_norm":
        leaves = (_randn(*shape, grad=True) for shape in ((16, 64, 32, 32), (64,), (64,)))
        return _trained(lambda x, w, b: F.group_norm(x, 8, w, b), *leaves)
    if name == "adam":
        parameters = [_randn(n, grad=True) for n in (1 << 20, 1 << 18, 4096, 512)]
        for p in parameters:
            p.grad = torch.randn_like(p)
        step: Callable[[], Any] = torch.optim.AdamW(parameters, lr=1e-3, capturable=True, foreach=True).step
        return step
    if name == "embedding":
        index = torch.randint(32000, (4096,), device="cuda")
        return _trained(lambda table: F.embedding(index, table), _randn(32000, 256, grad=True))
    if name == "cross_entropy":
        target = torch.randint(8192, (512,), device="cuda")
        return _trained(lambda x: F.cross_entropy(x, target), _randn(512, 8192, grad=True))
    return None


def _line(name: str) -> Callable[[], Any]:
    """Small kernels one after another, for the time between them."""
    import torch

    some, other, large = _randn(512), _randn(512), _randn(1 << 20)
    lists = [[_randn(64) for _ in range(64)] for _ in range(2)]

    def one() -> None:
        if name == "line_same":
            some.fill_(1.0)
        elif name == "line_two":
            torch.add(some, 1.0, out=other)
            torch.mul(other, other, out=some)
        elif name == "line_large":
            large.mul_(1.5)
        elif name == "line_list":
            torch._foreach_add_(lists[0], 1.0)
        else:
            torch._foreach_add_(lists[0], lists[1])

    return lambda: [one() for _ in range(20)]


def _operations(name: str) -> Callable[[], Any]:
    """Single operators, and functions that Inductor compiles."""
    import torch
    import torch.nn.functional as F

    if name == "sort":
        keys = _randn(1 << 18)
        return lambda: torch.sort(keys)
    if name == "elementwise":
        a, b, c = _randn(1 << 22), _randn(1 << 22), _randn(2048)
        return lambda: torch.tanh(a * b + 1).view(-1, 2048) * c
    if name == "scan":
        rows = _randn(512, 4096)
        return lambda: (torch.cumsum(rows, 1), torch.cummax(rows, 1))
    if name == "reduction":
        square = _randn(2048, 2048)
        return lambda: (square.sum(), square.mean(0), square.var(1), square.argmax(1))
    if name in LINES:
        return _line(name)
    if name == "gather_scatter":
        index, values, table = torch.randint(65536, (1 << 18,), device="cuda"), _randn(1 << 18), _randn(65536)
        return lambda: torch.zeros_like(table).scatter_add_(0, index, values + table[index])
    x = _randn(2048, 1024)
    compiled: dict[str, Callable[[], Any]] = {
        "compiled_norm": torch.compile(lambda: F.rms_norm(F.gelu(x) + x, (1024,))),
        "compiled_softmax": torch.compile(lambda: (torch.softmax(x * 0.5, -1) * x).sum(-1)),
    }
    return compiled[name]


def _workload(name: str) -> Callable[[], Any]:
    """What is captured: a function without arguments over tensors on the device."""
    import torch

    if name not in NAMES + LINES:
        raise ValueError(f"no workload {name}; there are {', '.join(NAMES)}")
    torch.manual_seed(0)
    return _with_library(name) if name in LIBRARY else _layers(name) or _operations(name)


def measure(name: str, replays: int) -> dict[str, Any]:
    """Microseconds of a workload's replays, and of the kernels of one where the device can be profiled."""
    import torch

    work = _workload(name)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(1 if replays == 1 else 3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work()
    times = []
    for _ in range(replays + 1):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if replays > 1:
            torch.cuda._sleep(_SPIN_CYCLES)
        first.record()
        graph.replay()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) * 1e3)
    del kept
    kernels: list[tuple[str, float]] = []
    if replays > 1:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            graph.replay()
            torch.cuda.synchronize()
        kernels = [(e.name, e.device_time) for e in profile.events() if e.device_time > 0]
    return {"microseconds": median(times[1:]), "all": times, "kernels": kernels}


def run_on_card(names: list[str], seconds: float) -> dict[str, Any]:
    """Measure workloads one after another in one process, alone on the card."""
    command = [sys.executable, "-m", "bench.pytorch.workloads", "--measure", ",".join(names), "--replays", "20"]
    environment = {**os.environ, "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}
    with tempfile.TemporaryFile("w+") as output:
        try:
            done = subprocess.run(command, env=environment, stdout=output, timeout=min(seconds, 3600), check=False)
            print(f"exit code {done.returncode}" if done.returncode else "", file=sys.stderr)
        except subprocess.TimeoutExpired:
            print(f"not all workloads ended within {seconds:.0f} s", file=sys.stderr)
        output.seek(0)
        found = [json.loads(line[2:]) for line in output if line.startswith("@@")]
    return {one["name"]: one for one in found}


def run(name: str, gpu: str, seconds: float, model: str | None = None) -> dict[str, Any]:
    """Measure one workload in a process of its own on a simulated device."""
    own = [sys.executable, "-m", "bench.pytorch.workloads", "--measure", name]
    with tempfile.TemporaryDirectory() as folder:
        launches = Path(folder) / "launches.json"
        simulated = [
            sys.executable,
            "-m",
            "warpwright",
            "run",
            "--gpu",
            gpu,
            "--timing",
            "full",
            "--json",
            str(launches),
            *(["--library-model", model] if model else []),
        ]
        command = [*simulated, *own, "--replays", "1"]
        began = time.monotonic()
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
            try:
                output, errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return {"error": f"did not end within {seconds:.0f} s"}
        line = next((line for line in output.splitlines() if line.startswith("@@")), None)
        if line is None:
            return {"error": (errors + output)[-1500:]}
        found: dict[str, Any] = json.loads(line[2:])
        found["wall_s"] = round(time.monotonic() - began, 1)
        if launches.exists():
            rows = json.loads(launches.read_text())
            found["launches"] = [(row["kernel"], row.get("seconds", math.nan) * 1e6) for row in rows]
        return found


def _short(name: str) -> str:
    return re.sub(r"<.*|\(.*|^void ", "", name)


def beside(card: dict[str, Any], model: dict[str, Any]) -> None:
    """Print the workloads of two files and their differences."""
    errors = []
    for name in NAMES:
        one, other = card.get(name, {}), model.get(name, {})
        if "microseconds" not in one or "microseconds" not in other:
            print(f"{name:18} {one.get('error', '')[-100:]} {other.get('error', 'not run')[-100:]}")
            continue
        real, simulated = one["microseconds"], other["microseconds"]
        share = "library" if name in LIBRARY else ""
        print(
            f"{name:18} card {real:9.1f} us, model {simulated:9.1f} us, {100 * (simulated / real - 1):+6.1f} % {share}"
        )
        if name not in LIBRARY:
            errors.append(abs(simulated / real - 1))
    print(f"{sum(e <= 0.1 for e in errors)} of {len(errors)} without library kernels within 10 %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--library-model", help="of warpwright run, on a simulated device")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600, help="for one workload")
    parser.add_argument("--limit", type=float, default=math.inf)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--replays", type=int, default=20, help=argparse.SUPPRESS)
    parser.add_argument("--beside", nargs=2, type=Path, metavar=("CARD", "MODEL"))
    options = parser.parse_args()
    if options.measure:
        for name in options.measure.split(","):
            try:
                found = measure(name, options.replays)
            except Exception as error:
                found = {"error": f"{error.__class__.__name__}: {error}"[:1500]}
            print("@@" + json.dumps({"name": name, **found}), flush=True)
        return
    if options.beside:
        card, model = (json.loads(path.read_text()) for path in options.beside)
        beside(card, model)
        return
    if options.gpu == CARD:
        answers = run_on_card(options.only.split(","), options.limit)
        for name, found in answers.items():
            print(name, found.get("microseconds"), found.get("error", "")[-300:])
        if options.json:
            options.json.write_text(json.dumps(answers, indent=0))
        return
    results: dict[str, Any] = {}
    names, lock = iter(options.only.split(",")), threading.Lock()
    until = time.monotonic() + options.limit

    def work() -> None:
        while True:
            with lock:
                name = next(names, None)
            if name is None or time.monotonic() > until:
                return
            found = run(name, options.gpu, min(options.seconds, until - time.monotonic()), options.library_model)
            with lock:
                results[name] = found
                print(name, found.get("microseconds"), found.get("error", "")[-300:], flush=True)
                if options.json:
                    options.json.write_text(json.dumps(results, indent=0))

    workers = [threading.Thread(target=work) for _ in range(options.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    sys.path[:0] = [os.getcwd()]
    main()

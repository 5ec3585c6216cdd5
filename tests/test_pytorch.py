"""PyTorch, unmodified, on a simulated device: each program compares the device's results with the CPU's.

Run with ``-m pytorch``.  PyTorch (6 GB) is that of the interpreter named by WARPWRIGHT_PYTORCH, which finds this package too, or of this one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = os.environ.get("WARPWRIGHT_PYTORCH", sys.executable)
pytestmark = [
    pytest.mark.pytorch,
    pytest.mark.skipif(
        "WARPWRIGHT_PYTORCH" not in os.environ and importlib.util.find_spec("torch") is None,
        reason="needs PyTorch: pip install torch, or name a Python that has it in WARPWRIGHT_PYTORCH",
    ),
]
_COMPARE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
randn = torch.randn

def same(name, function, *arguments, tolerance=1e-4):
    expected = function(*arguments)
    found = function(*(a.cuda() for a in arguments))
    many = isinstance(expected, (tuple, list))
    for one, other in zip(found if many else [found], expected if many else [expected]):
        assert one.device.type == "cuda", name
        difference = (one.detach().cpu() - other.detach()).abs().max().item()
        assert difference <= tolerance * max(1.0, other.detach().abs().max().item()), (name, difference)

def gradients(function):
    def both(*arguments):
        leaves = [a.detach().requires_grad_() for a in arguments]
        result = function(*leaves)
        return [result, *torch.autograd.grad((result * result).sum(), leaves)]
    return both
"""
PROGRAMS = {
    "products": """
for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-13), (torch.float16, 2e-3), (torch.bfloat16, 1e-2), (torch.complex64, 1e-5)):
    same(f"matmul {dtype}", lambda a, b: a @ b, randn(37, 24).to(dtype), randn(24, 50).to(dtype), tolerance=tolerance)
same("transposed", lambda a, b: a.t() @ b.t(), randn(24, 37), randn(50, 24))
same("bmm", torch.bmm, randn(3, 7, 9), randn(3, 9, 8))
same("mv", torch.mv, randn(33, 20), randn(20))
same("dot", torch.dot, randn(500), randn(500))
same("einsum", lambda a, b: torch.einsum("bik,bjk->bij", a, b), randn(3, 8, 9), randn(3, 7, 9))
same("linear", gradients(F.linear), randn(33, 20), randn(40, 20), randn(40))
""",
    "layers": """
same("conv2d", gradients(lambda x, w, b: F.conv2d(x, w, b, padding=1, stride=2)), randn(2, 5, 9, 11), randn(7, 5, 3, 3), randn(7), tolerance=1e-3)
same("groups", lambda x, w: F.conv2d(x, w, padding=2, dilation=2, groups=2), randn(2, 4, 9, 9), randn(6, 2, 3, 3))
same("conv1d", lambda x, w: F.conv1d(x, w, padding=2), randn(2, 4, 19), randn(6, 4, 5))
same("transposed", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), randn(2, 4, 5, 6), randn(4, 6, 3, 3))
same("batch norm", gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)), randn(4, 6, 5, 5), randn(6), randn(6), tolerance=1e-3)
same("layer norm", gradients(lambda x: F.layer_norm(x, (16,))), randn(4, 16), tolerance=1e-3)
same("max pool", lambda x: F.max_pool2d(x, 2), randn(2, 3, 8, 8))
assert torch.backends.cudnn.is_available() and torch.backends.cudnn.version() >= 90000
""",
    "attention": """
same("attention", gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), *(randn(1, 2, 16, 16) for _ in range(3)))
same("flash", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *(randn(1, 2, 32, 16).half() for _ in range(3)), tolerance=5e-3)
""",
    "recurrent": """
def trained(layer, place):
    layer, states = layer.to(place), lambda h: h if isinstance(h, tuple) else (h,)
    def both(x):
        x = x.to(place).requires_grad_()
        out, h = layer(nn.utils.rnn.pack_padded_sequence(x, [4, 2, 1]) if packed else x)
        layer.zero_grad()
        total = ((out.data if packed else out) ** 2).sum() + sum((s ** 3).sum() for s in states(h))
        gradients = torch.autograd.grad(total, [x, *layer.parameters()])
        return [(out.data if packed else out), *states(h), *gradients]
    return both
import copy
for kind, layers, bidirectional, bias in ((nn.LSTM, 1, False, True), (nn.GRU, 2, True, True), (nn.LSTM, 2, True, True), (nn.RNN, 1, False, False)):
    for packed in (False, True):
        layer = kind(5, 7, layers, bidirectional=bidirectional, bias=bias).double()
        x = randn(4, 3, 5, dtype=torch.float64)
        expected = trained(copy.deepcopy(layer), "cpu")(x.clone())
        for one, other in zip(trained(copy.deepcopy(layer), "cuda")(x.clone()), expected):
            assert one.device.type == "cuda" and torch.allclose(one.cpu(), other, atol=1e-9), (kind, packed)
layer, x = nn.LSTM(5, 7, 2, dropout=0.5).cuda(), randn(4, 3, 5).cuda()
assert not torch.equal(layer(x)[0], layer(x)[0])
layer.eval()
assert torch.equal(layer(x)[0], layer(x)[0])
""",
    "fft": """
same("fft", torch.fft.fft, randn(3, 97, dtype=torch.complex64))
same("rfft2", torch.fft.rfft2, randn(3, 12, 18))
same("irfft", lambda x: torch.fft.irfft(x, 61), randn(3, 31, dtype=torch.complex64))
""",
    "linalg": """
L = torch.linalg
a = randn(6, 6, dtype=torch.float64)
spd = a @ a.T + 6 * torch.eye(6, dtype=torch.float64)
wide = randn(5, 7, dtype=torch.float64)
same("cholesky", L.cholesky, spd, tolerance=1e-10)
same("solve", L.solve, randn(3, 8, 8, dtype=torch.float64), randn(3, 8, 2, dtype=torch.float64), tolerance=1e-9)
same("inv", L.inv, a, tolerance=1e-9)
same("det", L.det, a, tolerance=1e-9)
same("qr", L.qr, randn(7, 5, dtype=torch.float64), tolerance=1e-10)
same("eigvalsh", L.eigvalsh, spd, tolerance=1e-10)
same("svdvals", L.svdvals, wide, tolerance=1e-10)
same("pinv", L.pinv, wide, tolerance=1e-9)
same("lstsq", lambda a, b: L.lstsq(a, b).solution, randn(7, 4, dtype=torch.float64), randn(7, 2, dtype=torch.float64), tolerance=1e-9)
""",
    "training": """
def losses(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    x, y = randn(16, 20).to(device), torch.arange(16, device=device) % 10
    optimizer, found = torch.optim.Adam(model.parameters(), 1e-2), []
    for _ in range(5):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
expected = losses("cpu")
assert max(abs(a - b) for a, b in zip(losses("cuda"), expected)) < 1e-4 and expected[-1] < expected[0]
""",
}
PROGRAMS["resnet"] = """
class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.first, self.norm = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.second, self.last = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.beside = nn.Conv2d(channels, out, 1, stride, bias=False) if stride > 1 else nn.Identity()
    def forward(self, x):
        return F.relu(self.last(self.second(F.relu(self.norm(self.first(x))))) + self.beside(x))
def losses(device):
    torch.manual_seed(0)
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.MaxPool2d(2), Block(8, 8, 1), Block(8, 16, 2), *head).to(device)
    x, y = randn(4, 3, 16, 16).to(device), torch.arange(4, device=device)
    optimizer, found = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), []
    for _ in range(3):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
assert max(abs(a - b) for a, b in zip(losses("cuda"), losses("cpu"))) < 1e-4
"""


ROOT = Path(__file__).parents[1]


def run_without_time(folder: Path, gpu: str, *command: str) -> subprocess.CompletedProcess[str]:
    """A command, which must end well."""
    done = subprocess.run(
        [PYTHON, "-m", "warpwright", "run", "--gpu", gpu, "--timing", "off", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run(program: str, folder: Path, *command: str) -> None:
    (folder / "program.py").write_text(_COMPARE + program + "\nprint('finished')\n")
    assert "finished" in run_without_time(folder, "h200", *command, "program.py").stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_cpu(name: str, tmp_path: Path) -> None:
    run(PROGRAMS[name], tmp_path)


MODEL = """
import torch
import torch.nn as nn

model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4)).cuda()
with torch.profiler.record_function("step"):
    model(torch.randn(8, 16).cuda()).square().mean().backward()
"""


@pytest.mark.parametrize("command", [[], [PYTHON]])
def test_launches_name_their_modules(command: list[str], tmp_path: Path) -> None:
    """Forward and backward, in this process and in one of its own."""
    (tmp_path / "program.py").write_text(MODEL)
    run_without_time(tmp_path, "h200", "--json", "rows.json", *command, "program.py")
    rows = json.loads((tmp_path / "rows.json").read_text())
    found = {(row["module"], row["backward"], row["operator"]) for row in rows}
    assert {
        ("Sequential.0", False, "aten::linear"),
        ("Sequential.1", False, "aten::gelu"),
        ("Sequential.2", True, "AddmmBackward0"),
        ("Sequential.1", True, "GeluBackward0"),
        (None, False, "aten::mean"),
    } <= found
    assert {row["ranges"] for row in rows} == {"step"}


def test_as_a_command_of_its_own(tmp_path: Path) -> None:
    """PyTorch's own search path names the wheels' libraries; the drop-ins are loaded before it."""
    run("same('matmul', lambda a, b: a @ b, randn(8, 8), randn(8, 8))", tmp_path, PYTHON)


def test_processes_of_a_distributed_training_end_well() -> None:
    """Losses are those of one process; a destructor of C++ that asks for its device after the interpreter's end does not crash the process."""
    done = run_without_time(ROOT, "h200,h200", "bench/pytorch/distributed.py")
    assert "losses" in done.stdout
    assert "ignoring error" not in done.stderr


EXTENSION = '''
import torch

SOURCE = r"""extern "C" __global__ void reverse_blocks(const float *x, float *y) {
    __shared__ float held[128];
    held[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    y[blockIdx.x * 128 + threadIdx.x] = held[127 - threadIdx.x];
}
"""

def reverse_blocks(x):
    kernel = torch.cuda._compile_kernel(SOURCE, "reverse_blocks", nvcc_options=["-lineinfo"])
    y = torch.empty_like(x)
    kernel(grid=(x.numel() // 128, 1, 1), block=(128, 1, 1), args=[x, y])
    return y
'''
EXTENSION_TESTS = """
import torch
from reversal import reverse_blocks

def test_runs():
    assert reverse_blocks(torch.arange(256, dtype=torch.float32, device="cuda")).shape == (256,)

def test_sum():
    assert torch.ones(1000, device="cuda").sum().item() == 1000
"""


def test_a_race_of_an_extension_fails_its_test_with_its_lines(tmp_path: Path) -> None:
    """The extension reads shared memory without a barrier; the test asks for nothing that the race changes."""
    (tmp_path / "reversal.py").write_text(EXTENSION)
    (tmp_path / "test_reversal.py").write_text(EXTENSION_TESTS)
    done = subprocess.run(
        [PYTHON, "-m", "pytest", "--warpwright=h200", "--warpwright-check=memcheck,racecheck", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "Race reported between Write access and Read access" in done.stdout
    assert re.search(r"Write access at reverse_blocks\+0x\w+ in \S*reverse_blocks\.cu:3", done.stdout)
    assert re.search(r"Read access at reverse_blocks\+0x\w+ in \S*reverse_blocks\.cu:4", done.stdout)

"""Run a fixed random sample of PyTorch's OpInfo cases on a simulated device and print which agree with the CPU.

    python -m bench.opinfo [--python PYTHON] [--gpu h200] [--cases 300] [--first 0] [--seconds 120] [--json FILE] [--resume] [--again]

PYTHON is an interpreter that has PyTorch with CUDA, expecttest, NumPy and this package.  A case is an operator of ``op_db`` (the database in PyTorch's
wheel), a type of elements and a test: ``results`` compares each sample's result with the CPU's, ``noncontiguous`` does so with strided arguments,
``gradients`` compares backward passes.  Results of 16 bits that differ are compared
with float32's: the device has to be as near as the CPU is.  The order of the cases is a shuffle with a fixed seed, so ``--cases 300`` is the beginning of every longer sample.
Cases run in one process until one of them ends it, leaves an error that stays or exceeds ``--seconds``; the rest go on in a new one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

SEED = 20261127
_CHILD = r"""
import json, sys, time, traceback, warnings
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import noncontiguous_like

warnings.simplefilter("ignore")
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# Results that differ between any two devices: random numbers, uninitialised memory, bases that are not unique.
LOOSE = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "bernoulli", "multinomial", "normal", "rand_like",
         "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "randn", "randn_like", "randint", "randint_like", "cauchy", "exponential", "geometric", "log_normal", "uniform", "svd_lowrank", "pca_lowrank"}
NOT_UNIQUE = {"linalg.svd", "svd", "linalg.eigh", "linalg.eig", "linalg.qr", "qr", "geqrf", "linalg.householder_product"}
OPS = {op.formatted_name: op for op in op_db}


def to(value, place, strided, leaves=None):
    if isinstance(value, torch.Tensor):
        moved = value.detach().to(place)
        if strided and moved.numel() > 1:
            moved = noncontiguous_like(moved)
        if leaves is not None and value.is_floating_point() and value.requires_grad:
            moved.requires_grad_()
            leaves.append(moved)
        return moved
    if isinstance(value, (list, tuple)):
        parts = [to(x, place, strided, leaves) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: to(x, place, strided, leaves) for key, x in value.items()}
    if isinstance(value, (str, torch.device)) and str(value) in ("cpu", "cpu:0"):
        return type(value)(place)
    return value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for x in value for t in tensors(x)]
    if isinstance(value, dict):
        return [t for x in value.values() for t in tensors(x)]
    return []


def wide(value):
    if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        return value.detach().float().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        parts = [wide(x) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: wide(x) for key, x in value.items()}
    return torch.float32 if value in (torch.float16, torch.bfloat16) else value


class Wide:
    # A sample whose tensors of 16 bits are float32.
    def __init__(self, sample):
        self.input, self.args, self.kwargs = wide(sample.input), wide(sample.args), wide(sample.kwargs)
        self.output_process_fn_grad = sample.output_process_fn_grad


def as_exact(found, expected, exact):
    # Whether the device is as near to the result in float32 as the CPU: both round in their own order.
    for one, other, truth in zip(found, expected, exact or ()):
        if not one.is_floating_point():
            continue
        one, other, truth = (t.detach().cpu().double() for t in (one, other, truth))
        scale = truth.abs().max() if truth.numel() else 0.0
        if ((one - truth).abs() > 2 * (other - truth).abs().max() + 0.01 * scale + 1e-3).any():
            return False
    return bool(exact)


def compare(found, expected, dtype, values):
    assert len(found) == len(expected), "another number of results"
    for one, other in zip(found, expected):
        one = one.detach().cpu()
        other = other.detach().cpu()
        assert one.shape == other.shape, f"{tuple(one.shape)} for {tuple(other.shape)}"
        one = one.to(other.dtype)
        if not values or one.is_sparse or one.layout != torch.strided:
            continue
        rtol, atol = {torch.float32: (1e-3, 1e-4), torch.float16: (1e-2, 1e-2), torch.bfloat16: (4e-2, 4e-2)}[dtype]
        if one.dtype in (torch.float64, torch.complex128):
            rtol, atol = 1e-5, 1e-6
        torch.testing.assert_close(one, other.detach(), rtol=rtol, atol=atol, equal_nan=True)


def outcome(op, sample, place, strided, gradients):
    leaves = [] if gradients else None
    try:
        input, args, kwargs = (to(x, place, strided, leaves) for x in (sample.input, sample.args, sample.kwargs))
        if op.inplace_variant is None or not gradients:
            torch.manual_seed(0)
        result = op(input, *args, **kwargs)
        found = tensors(sample.output_process_fn_grad(result) if gradients else result)
        if gradients:
            found = [t for t in found if t.requires_grad]
            total = sum((t.abs().sum() if t.is_complex() else (t * t).sum()) for t in found)
            if not found or not leaves:
                return None, None
            grads = torch.autograd.grad(total, leaves, allow_unused=True)
            found += [g for g in grads if g is not None]
        if place == "cuda":
            torch.cuda.synchronize()
        return found, None
    except Exception as error:
        return None, error


def case(name, dtype_name, test):
    op, dtype = OPS[name], TYPES[dtype_name]
    strided, gradients = test == "noncontiguous", test == "gradients"
    torch.manual_seed(0)
    compared, refused = 0, None
    for sample in op.sample_inputs("cpu", dtype, requires_grad=gradients):
        expected, cpu_error = outcome(op, sample, "cpu", strided, gradients)
        found, error = outcome(op, sample, "cuda", strided, gradients)
        if cpu_error is not None:
            refused = cpu_error
            continue
        if error is not None:
            raise error
        if expected is None:
            continue
        checked = (found, expected, dtype, op.name not in LOOSE | NOT_UNIQUE and "dropout" not in op.name and not op.name.startswith("nn.functional.rrelu"))
        try:
            compare(*checked)
        except AssertionError:
            if dtype == torch.float32 or not as_exact(found, expected, outcome(op, Wide(sample), "cpu", strided, gradients)[0]):
                raise
        compared += 1
    return ("pass", "") if compared else ("skip", f"the CPU: {refused}"[:200] if refused else "nothing to compare")


for line in sys.stdin:
    asked = json.loads(line)
    began = time.process_time()
    try:
        result, reason = case(*asked)
    except BaseException as error:
        result, reason = "fail", f"{error.__class__.__name__}: {error}".strip()[:600]
    stays = False
    try:
        torch.cuda.synchronize()
    except Exception:
        stays = True
    print("@@" + json.dumps([result, reason, round(time.process_time() - began, 1), stays]), flush=True)
"""


def cases(python: str) -> list[list[str]]:
    """Every case, in the sample's order."""
    listing = (
        "import json, torch; from torch.testing._internal.common_methods_invocations import op_db\n"
        "t = {'float32': torch.float32, 'float16': torch.float16, 'bfloat16': torch.bfloat16}\n"
        "print(json.dumps(sorted([op.formatted_name, n, k] for op in op_db for n, d in t.items() if d in op.dtypesIfCUDA\n"
        "    for k in ('results', 'noncontiguous', 'gradients') if k != 'gradients' or (op.supports_autograd and d in op.backward_dtypesIfCUDA))))"
    )
    answer = subprocess.run([python, "-c", listing], check=True, capture_output=True, text=True)
    found: list[list[str]] = json.loads(answer.stdout.splitlines()[-1])
    random.Random(SEED).shuffle(found)
    return found


class Child:
    """A process under ``warpwright run`` that answers cases."""

    def __init__(self, python: str, gpu: str) -> None:
        command = [python, "-m", "warpwright", "run", "--gpu", gpu, "--timing", "off", python, "-u", "-c", _CHILD]
        self.errors = tempfile.NamedTemporaryFile("w+", prefix="opinfo-", suffix=".stderr")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True
        )

    def ask(self, case: list[str], seconds: float) -> list[Any] | None:
        """The answer of a case; None: the process ended, or its time is over."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps(case).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and select.select([self.process.stdout], [], [], left)[0]:
            line = self.process.stdout.readline()
            if not line:
                return None
            if line.startswith(b"@@"):
                answer: list[Any] = json.loads(line[2:])
                return answer
        return None

    def said(self) -> str:
        """The last message on standard error."""
        lines = Path(self.errors.name).read_text(errors="replace").strip().splitlines()
        return " | ".join(line for line in lines[-3:])[:400]

    def end(self) -> None:
        """End the process and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.errors.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--again", action="store_true", help="with --resume: run the cases that failed again")
    parser.add_argument("--only", default="", help="cases whose name contains this, of all instead of the sample")
    options = parser.parse_args()
    everything = cases(options.python)
    wanted = [c for c in everything if options.only in c[0]] if options.only else everything
    results: dict[str, list[Any]] = {}
    if options.resume and options.json and options.json.exists():
        results = json.loads(options.json.read_text())
        results = {key: answer for key, answer in results.items() if not (options.again and answer[0] == "fail")}
    child = None
    for case in wanted[options.first : options.first + options.cases]:
        key = " ".join(case)
        if key in results:
            continue
        fresh = child is None
        child = child or Child(options.python, options.gpu)
        answer = child.ask(case, options.seconds + (120 if fresh else 0))
        if answer is None or answer[3]:
            answer = answer or [
                "fail",
                f"the process ended or its time was over: {child.said()}",
                options.seconds,
                True,
            ]
            child.end()
            child = None
        results[key] = answer
        print(answer[0], key, answer[1][:200].replace("\n", " "), f"{answer[2]} s", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=0))
    if child:
        child.end()
    print(len(everything), "cases in all;", dict(Counter(answer[0] for answer in results.values())))


if __name__ == "__main__":
    main()

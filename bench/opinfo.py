"""Run a fixed random sample of PyTorch's OpInfo cases on a simulated device and print which agree with the CPU.

    python -m bench.opinfo [--python PYTHON] [--gpu h200] [--cases 300] [--first 0] [--seconds 120]
        [--workers 1] [--limit SECONDS] [--json FILE] [--resume] [--again] [--passed-by FILE]

PYTHON is an interpreter that has PyTorch with CUDA, expecttest, NumPy and this package.  A case is an operator of ``op_db`` (the database in PyTorch's
wheel), a type of elements and a test: ``results`` compares each sample's result with the CPU's, ``noncontiguous`` does so with strided arguments,
``gradients`` compares backward passes.  Results of 16 bits that differ are compared
with float32's: the device has to be as near as the CPU is.  The order of the cases is a shuffle with a fixed seed, so ``--cases 300`` is the beginning of every longer sample.
``--gpu card`` runs them on the machine's own GPU: what a card passes is what a model of it has to pass.
Cases run in one process until one of them ends it, leaves an error that stays or exceeds ``--seconds``; the rest go on in a new one.
"""

from __future__ import annotations

import json
import random
import subprocess

from bench.pytorch.case_processes import ANSWER, Sample, chosen, option_parser, passed

SEED = 20261127
_CHILD = (
    ANSWER
    + r"""
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
    answer(result, reason, began)
"""
)


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


def main() -> None:
    options = option_parser(__doc__, 300).parse_args()
    everything = passed(options.passed_by) if options.passed_by else cases(options.python)
    print(len(everything), "cases in all")
    Sample(_CHILD, chosen(everything, options), options).run()


if __name__ == "__main__":
    main()

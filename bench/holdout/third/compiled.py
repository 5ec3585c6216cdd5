"""Generates the PTX of other compilers in this folder: Triton's and Numba's code for sm_90, from the sources below.

``TRITON_DISABLE_LINE_INFO=1 python bench/holdout/third/compiled.py`` with Triton 3.6.0 and numba-cuda; no GPU is needed.  Numba's entries get plain names
instead of their mangled ones.  Triton's need the dynamic shared memory that the first line of a file says, and two
null pointers behind their own arguments; Numba's take an array as two null pointers, numbers of elements and of bytes of one, its
address, shape and strides.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import triton
import triton.language as tl
from numba import cuda, float32, float64, int32
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FOLDER = Path(__file__).parent


@triton.jit
def triton_matmul(
    a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr
):
    """bf16 products with tiles in groups of rows, for the L2's sake."""
    pid, across = tl.program_id(0), tl.cdiv(n, BLOCK_N)
    width = GROUP * across
    group = pid // width
    rows = min(tl.cdiv(m, BLOCK_M) - group * GROUP, GROUP)
    pm, pn = group * GROUP + (pid % width) % rows, (pid % width) // rows
    rm, rn, rk = pm * BLOCK_M + tl.arange(0, BLOCK_M), pn * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    pa, pb = a + rm[:, None] * k + rk[None, :], b + rk[:, None] * n + rn[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K):
        total = tl.dot(tl.load(pa), tl.load(pb), total)
        pa += BLOCK_K
        pb += BLOCK_K * n
    tl.store(c + rm[:, None] * n + rn[None, :], total.to(tl.bfloat16))


@triton.jit
def triton_layer_norm(x, gain, bias, out, columns, eps, BLOCK: tl.constexpr):
    """A row a program, with a mask."""
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    inside = c < columns
    v = tl.load(x + row * columns + c, inside, other=0.0)
    mean = tl.sum(v, axis=0) / columns
    off = tl.where(inside, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(off * off, axis=0) / columns + eps)
    tl.store(out + row * columns + c, off * scale * tl.load(gain + c, inside) + tl.load(bias + c, inside), inside)


@triton.jit
def triton_attention(q, k, v, out, length, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    """Attention in one pass over the keys, base-two exponentials."""
    head, rm, rd = tl.program_id(1), tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    base = head * length * D
    query = tl.load(q + base + rm[:, None] * D + rd[None, :])
    top, total = tl.full((BLOCK_M,), -1e30, tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, length, BLOCK_N):
        rn = start + tl.arange(0, BLOCK_N)
        keys = tl.load(k + base + rn[None, :] * D + rd[:, None])
        s = tl.dot(query, keys) * scale
        now = tl.maximum(top, tl.max(s, axis=1))
        p, keep = tl.exp2(s - now[:, None]), tl.exp2(top - now)
        total, top = total * keep + tl.sum(p, axis=1), now
        values = tl.load(v + base + rn[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), values, acc * keep[:, None])
    tl.store(out + base + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def triton_int4_matmul(x, w, scales, out, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Few tokens by weights of four bits, eight in a word along k; a scale for each 128 of a column."""
    rm, rn, rk = tl.arange(0, BLOCK_M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        words = tl.load(w + ((start + rk) // 8)[:, None] * n + rn[None, :])
        codes = (words >> ((rk % 8) * 4)[:, None]) & 15
        scale = tl.load(scales + (start // 128) * n + rn)
        weights = ((codes - 8).to(tl.float16) * scale[None, :]).to(tl.float16)
        tokens = tl.load(x + rm[:, None] * k + (start + rk)[None, :])
        total = tl.dot(tokens, weights, total)
    tl.store(out + rm[:, None] * n + rn[None, :], total.to(tl.float16))


@triton.jit
def triton_vocabulary_loss(logits, label, loss, columns, BLOCK: tl.constexpr):
    """Cross entropy of rows longer than a block: largest and sum go along."""
    row, c = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    top, total = tl.full((BLOCK,), -1e30, tl.float32), tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        v = tl.load(logits + row * columns + start + c, start + c < columns, other=-1e30).to(tl.float32)
        now = tl.maximum(top, v)
        total = total * tl.exp(top - now) + tl.exp(v - now)
        top = now
    most = tl.max(top, axis=0)
    total_all = tl.sum(total * tl.exp(top - most), axis=0)
    own = tl.load(logits + row * columns + tl.load(label + row)).to(tl.float32)
    tl.store(loss + row, tl.log(total_all) + most - own)


TRITON = (
    (triton_matmul, "*bf16 *bf16 *bf16 i32 i32 i32", {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 4}, 8, 3),
    (triton_layer_norm, "*fp32 *fp32 *fp32 *fp32 i32 fp32", {"BLOCK": 4096}, 8, 1),
    (triton_attention, "*fp16 *fp16 *fp16 *fp16 i32 fp32", {"BLOCK_M": 64, "BLOCK_N": 64, "D": 64}, 4, 3),
    (triton_int4_matmul, "*fp16 *i32 *fp16 *fp16 i32 i32", {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128}, 4, 4),
    (triton_vocabulary_loss, "*bf16 *i32 *fp32 i32", {"BLOCK": 2048}, 4, 3),
)
"""Kernel, types of its arguments, constants, warps and stages; pointers and integers are multiples of 16."""


def numba_matmul(a, b, c):
    """Tiles of 16 by 16 in shared memory."""
    left, right = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for step in range((a.shape[1] + 15) // 16):
        left[ty, tx] = right[ty, tx] = float32(0.0)
        if y < a.shape[0] and step * 16 + tx < a.shape[1]:
            left[ty, tx] = a[y, step * 16 + tx]
        if x < b.shape[1] and step * 16 + ty < b.shape[0]:
            right[ty, tx] = b[step * 16 + ty, x]
        cuda.syncthreads()
        for k in range(16):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def numba_stencil(src, dst, rounds):
    """Heat on a plate in doubles, with a stride over the grid in both directions."""
    x0, y0 = cuda.grid(2)
    across, down = cuda.gridsize(2)
    for y in range(y0 + 1, src.shape[0] - 1, down):
        for x in range(x0 + 1, src.shape[1] - 1, across):
            dst[y, x] = src[y, x] + 0.2 * (
                src[y - 1, x] + src[y + 1, x] + src[y, x - 1] + src[y, x + 1] - 4.0 * src[y, x]
            )


def numba_bins(values, bins, low, width):
    """A histogram of floats by atomics on memory, Python's floor and all."""
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        place = int(math.floor((values[i] - low) / width))  # noqa: RUF046
        if 0 <= place < bins.size:
            cuda.atomic.add(bins, place, 1)


def numba_julia(dst, most):
    """Escape times of a Julia set in complex doubles."""
    x, y = cuda.grid(2)
    if y < dst.shape[0] and x < dst.shape[1]:
        z = complex(3.0 * x / dst.shape[1] - 1.5, 3.0 * y / dst.shape[0] - 1.5)
        rounds = 0
        while rounds < most and z.real * z.real + z.imag * z.imag < 4.0:
            z = z * z + complex(-0.4, 0.6)
            rounds += 1
        dst[y, x] = rounds


NUMBA = (
    (numba_matmul, (float32[:, ::1], float32[:, ::1], float32[:, ::1])),
    (numba_stencil, (float64[:, ::1], float64[:, ::1], int32)),
    (numba_bins, (float32[::1], int32[::1], float32, float32)),
    (numba_julia, (int32[:, ::1], int32)),
)


def main() -> None:
    for kernel, types, constants, warps, stages in TRITON:
        names = [n for n in kernel.arg_names if n not in constants]
        signature = dict(zip(names, types.split(), strict=True)) | dict.fromkeys(constants, "constexpr")
        whole = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if signature[n][0] in "*i"}
        source = ASTSource(kernel, signature, constants, whole)
        made = triton.compile(source, GPUTarget("cuda", 90, 32), {"num_warps": warps, "num_stages": stages})
        head = f"// Triton {triton.__version__}: {made.metadata.shared} bytes of dynamic shared memory, {32 * warps} threads\n"
        (FOLDER / f"{kernel.__name__}.ptx").write_text(head + made.asm["ptx"].lstrip())
    for function, types in NUMBA:
        ptx, _ = cuda.compile_ptx(function, types, cc=(9, 0))
        entry = re.search(r"\.entry (\w+)\(", ptx)
        assert entry is not None
        (FOLDER / f"{function.__name__}.ptx").write_text(ptx.replace(entry[1], function.__name__).lstrip())


if __name__ == "__main__":
    main()

"""Trace records: one for each memory instruction, and both engines tell the same addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.abi import (
    BLOCK,
    TAG_AFFINE,
    TAG_BLOCK,
    TAG_GATHER,
    TAG_PATTERN,
    WARP,
    Status,
)
from warpwright.engine.arguments import pack
from warpwright.engine.blocks import basic_blocks, recorded_accesses
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreted_launch import global_memory
from warpwright.engine.interpreter import Kernel, Launch, run_block
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.engine.launch import make_context
from warpwright.isa.sass.lower import lower

SOURCE = """
extern "C" __global__ void rows(int n, float *out, const float *in) {
    __shared__ float tile[2][17], other[16][3];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[y * n + x];
    other[x][y] = in[x];
    __syncthreads();
    float sum = 0;
    for (int j = 0; j < n; j++) sum += tile[y][j] * other[j][1 - y] + tile[1 - y][x];
    if (x < 11) out[x * 3 + y] = sum;
}

extern "C" __global__ void columns(int n, float *out, const float *in) {
    int x = threadIdx.y * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += in[k * n + x] * in[x * 2 + k * 3];
    out[x] = sum;
}

extern "C" __global__ void matrices(unsigned *out, const uint4 *in, int valid) {
    __shared__ uint4 tile[32];
    int lane = threadIdx.y * 16 + threadIdx.x;
    unsigned to = (unsigned)__cvta_generic_to_shared(&tile[lane]), a, b, c, d;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(in + lane), "r"(lane < 20 ? 16 : valid));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(to));
    out[lane] = a + b + c + d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(to));
    out[lane + 32] = a + b;
}
"""
Visit = tuple[int, list[tuple[int, int, list[int]]]]
"""A block's lanes and, for each record: instruction, lanes, their addresses."""


def prepared(name: str) -> Any:
    gpu = ww.GPU("a100", timing="off")
    module = gpu.compile(SOURCE)
    if name in ("rows", "columns"):
        arguments = [16, gpu.array(np.zeros(64, np.float32)), gpu.array(np.zeros(320, np.float32))]
    else:
        arguments = [gpu.array(np.zeros(64, np.uint32)), gpu.array(np.zeros(128, np.uint32)), 5]
    kernel = module[name]
    program = kernel._loaded.program
    geometry = Geometry((1, 1, 1), (16, 2, 1))
    packed = pack(kernel.parameters, name, arguments, gpu.memory)
    bank0 = constant_bank0(program, geometry, packed.parameters)
    context = make_context(program, geometry, gpu.memory, bank0, kernel._loaded.banks, 1)
    return (gpu, arguments), program, lower(program), context


def compiled_trace(program: Any, lowered: Any, context: Any, limit: int) -> list[int]:
    """Words that the compiled function leaves for one warp, its buffer emptied whenever it returns."""
    kernel = compile_kernel(program, lowered, (16, 2, 1), trace=True)
    shared = np.zeros(4096 // 8, np.int64)
    block, warp = np.zeros(BLOCK.size_bytes // 8, np.int64), np.zeros(WARP.size_bytes // 8, np.int64)
    save = np.zeros(kernel.spill_bytes // 8 + 8, np.int64)
    room = np.full(limit + kernel.trace_words + 1, -1, np.int64)
    block[BLOCK.slot("shared_base")] = shared.ctypes.data
    block[BLOCK.slot("shared_bytes")] = program.shared_static_bytes
    for field, value in {
        "launch": context.address,
        "block": block.ctypes.data,
        "lanes": 0xFFFFFFFF,
        "spill": (save.ctypes.data + 63) // 64 * 64,
        "trace_base": room.ctypes.data,
        "trace_limit": limit,
    }.items():
        warp[WARP.slot(field)] = value
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(kernel.warp_function)
    words: list[int] = []
    for _ in range(1000):
        warp[WARP.slot("trace_used")] = 0
        status = function(warp.ctypes.data)
        used = int(warp[WARP.slot("trace_used")])
        assert used < len(room), "no word beyond what the kernel says it may write"
        assert room[-1] == -1
        words += [int(v) & 0xFFFFFFFFFFFFFFFF for v in room[:used]]
        if status == Status.EXIT:
            return [*expanded(words)]
        assert status in (Status.BARRIER, Status.TRACE_FULL)
    raise AssertionError("the warp does not end")


def expanded(words: Sequence[int]) -> list[int]:
    """Patterns as gathered addresses, while the tables that they point to are there."""
    result: list[int] = []
    at = 0
    while at < len(words):
        tag = words[at] >> 60
        if tag == TAG_PATTERN:
            table = np.ctypeslib.as_array((ctypes.c_int64 * 32).from_address(words[at + 2]))
            result.append(TAG_GATHER << 60 | words[at] & 0xFFFFFFFF)
            result += [words[at + 1] + int(d) for d in table]
        length = {TAG_BLOCK: 1, TAG_AFFINE: 2, TAG_PATTERN: 3, TAG_GATHER: 33}[tag]
        if tag != TAG_PATTERN:
            result += words[at : at + length]
        at += length
    return result


def visits(words: Sequence[int], program: Any, lowered: Any) -> list[Visit]:
    """Records by instruction; fails unless every instruction has exactly its own."""
    blocks = basic_blocks(program, lowered)
    found: list[Visit] = []
    at = 0
    while at < len(words):
        assert words[at] >> 60 == TAG_BLOCK
        block = blocks[words[at] >> 32 & 0xFFFFFFF]
        records: list[tuple[int, int, list[int]]] = []
        found.append((words[at] & 0xFFFFFFFF, records))
        at += 1
        for index in range(block.first, block.first + block.count):
            for _ in recorded_accesses(lowered[index]):
                tag, lanes = words[at] >> 60, words[at] & 0xFFFFFFFF
                active = [n for n in range(32) if lanes >> n & 1]
                if tag == TAG_AFFINE:
                    stride = (words[at] >> 32 & 0xFFFFFF ^ 0x800000) - 0x800000
                    records.append((index, lanes, [words[at + 1] + n * stride for n in active]))
                    at += 2
                else:
                    assert tag == TAG_GATHER
                    records.append((index, lanes, [words[at + 1 + n] for n in active]))
                    at += 33
    assert at == len(words)
    return found


@pytest.mark.parametrize("limit", [1, 256])
@pytest.mark.parametrize("name", ["rows", "columns", "matrices"])
def test_both_engines_record_the_same_accesses(name: str, limit: int) -> None:
    _alive, program, lowered, context = prepared(name)
    compiled = visits(compiled_trace(program, lowered, context, limit), program, lowered)
    launch = Launch(Kernel(program, lowered), context.geometry, global_memory(context.memory), context.banks)
    outcome, block = run_block(launch, (0, 0, 0), trace=True)
    assert outcome.status is Status.EXIT, outcome
    assert compiled == visits([w & 0xFFFFFFFFFFFFFFFF for w in block.warps[0].trace], program, lowered)
    opcodes = [program.instructions[index].opcode for _, records in compiled for index, *_ in records]
    if name == "matrices":
        assert opcodes.count("LDSM") == 2
        assert opcodes.count("LDGSTS") == 2
    assert len(opcodes) > 4


def test_addresses_some_strides_apart_are_written_eight_at_a_time() -> None:
    """Of an unrolled loop's accesses to a column, one address and the stride are enough for all records."""
    _alive, program, lowered, _context = prepared("columns")
    kernel = compile_kernel(program, lowered, (16, 2, 1), trace=True, use_cache=False)
    strided = kernel.ir.count("mul <8 x i64>")
    assert strided >= 4
    assert kernel.ir.count("store <8 x i64>") > strided


def test_rows_of_shared_memory_take_three_words() -> None:
    """Accesses of two rows, whose distances the compiler knows, are not 32 addresses."""
    _alive, program, lowered, _context = prepared("rows")
    kernel = compile_kernel(program, lowered, (16, 2, 1), trace=True, use_cache=False)
    longest = max(len(b.accesses) for b in kernel.blocks)
    assert longest >= 4
    assert kernel.trace_words < 33 * longest

"""Cycles and counters of a launch are the same in every process, wherever the host has placed memory, and beside other devices of the process."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
from typing import Any

import pytest

import warpwright as ww
from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.host_mappings import UNIFIED_PLACE_BYTES

PROGRAM = r"""
import ctypes, hashlib, json, mmap, random, sys
import numpy as np
import warpwright as ww

SOURCE = '''
__constant__ float factors[256];
extern "C" __global__ void mixed(const float *x, float *y, unsigned *counts, const float *host, int n)
{
    __shared__ float tile[256];
    float own[24];
    for (int i = 0; i < 24; i++)
        own[i] = x[(i * 61 + threadIdx.x * 7 + blockIdx.x) % n];
    tile[threadIdx.x] = own[counts[0] % 24] * factors[threadIdx.x];
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[(i * 2654435761u) % n] = tile[i % 256] + own[i % 24] + host[i % 4096];
        atomicAdd(counts + 1 + i % 31, 1u);
    }
}
'''
seed = int(sys.argv[1])
draw = random.Random(seed)
# What the host has mapped before differs from process to process.
kept = [mmap.mmap(-1, mmap.PAGESIZE * draw.randrange(1, 4000)) for _ in range(draw.randrange(20))]
kept += [bytearray(draw.randrange(1 << 20)) for _ in range(draw.randrange(50))]


def launch(node, before):
    gpu, other = node.gpus[0], node.gpus[1]
    node.enable_peer_access(0, 1)
    n = 1 << 13
    values = np.random.default_rng(1).random(n).astype(np.float32)
    page = mmap.mmap(-1, 1 << 16)
    kept.append(page)
    host = np.frombuffer(page, np.float32)
    host[:4096] = 1
    mapped = gpu.memory.map(host.ctypes.data, 1 << 14, "registered")
    out = other.zeros(n, np.float32)
    run = gpu.compile(SOURCE)["mixed"][48, 256](
        gpu.array(values), np.uint64(out.device_address()), gpu.zeros(32, np.uint32), np.uint64(mapped.address), np.int32(n)
    )
    return run.cycles, hashlib.sha256(json.dumps(run.metrics, sort_keys=True).encode()).hexdigest()


found = []
for machine in sys.argv[2:]:
    first = ww.System(machine)
    found.append(launch(first, 0))
    # The first machine is still there: the second one's memory is at other addresses.
    second = ww.System(machine)
    found.append(launch(second, 1))
    assert first.gpus[0].memory.base != second.gpus[0].memory.base
    del first, second
print(json.dumps(found))
"""


def run(seed: int, *machines: str) -> Any:
    """Cycles and a digest of the counters of the program's launches, in a separate process."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seed), *machines],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.ci
def test_cycles_and_counters_are_the_same_in_every_process() -> None:
    each = [run(seed, "dgx-1", "h200x2") for seed in (1, 2, 3)]
    assert each[0] == each[1] == each[2]
    v100_first, v100_second, h200_first, h200_second = each[0]
    assert v100_first == v100_second
    assert h200_first == h200_second
    assert v100_first != h200_first


def test_memories_of_one_device_number_lie_beside_each_other() -> None:
    memories = [DeviceMemory(1 << 26, unified=True, ordinal=3) for _ in range(6)]
    assert len({memory.base for memory in memories}) == 6
    for memory in memories:
        assert memory.moved_bytes % UNIFIED_PLACE_BYTES == 0
        assert memory.device_at(memory.base + 64) is None
    other = DeviceMemory(1 << 26, unified=True, ordinal=5)
    assert {memory.device_at(other.base + 4096) for memory in memories} == {5}
    assert other.device_at(memories[5].base) == 3


def test_registered_memory_is_known_by_the_order_of_registration() -> None:
    memory = DeviceMemory(1 << 26, unified=True)
    host = 0x7123_4567_8000
    seen = [memory.map(at, 5000, "registered") for at in (host + 0x100, host + 0x40_0000, host + 0x9_0000)]
    known = [one.address - one.moved_bytes for one in seen]
    assert known == sorted(known)
    assert [(one.address - at) % 4096 for one, at in zip(seen, known, strict=True)] == [0, 0, 0]
    again = DeviceMemory(1 << 26, unified=True)
    first = again.map(0x7000_0000_0100, 5000, "registered")
    assert first.address - first.moved_bytes == known[0]


def test_own_memory_is_where_the_first_of_its_number_would_be() -> None:
    system = ww.System("h200x2", timing="off")
    array = system.gpus[1].zeros(16)
    allocation = system.gpus[1].memory.find(array.device_address())
    assert allocation is not None
    assert allocation.moved_bytes == system.gpus[1].memory.moved_bytes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="addresses are chosen on Linux only")
def test_the_host_puts_nothing_into_the_windows_of_shared_and_local_memory() -> None:
    """A pointer there that a kernel gets from the host would be taken for one of shared memory."""
    DeviceMemory(1 << 26, unified=True)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    for start in range(SHARED_WINDOW, LOCAL_WINDOW + WINDOW_BYTES, WINDOW_BYTES):
        for address in (start, start + WINDOW_BYTES // 2, start + WINDOW_BYTES - mmap.PAGESIZE):
            # Without MAP_FIXED the address is a hint, which Linux follows where nothing is.
            found = libc.mmap(address, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            libc.munmap(found, mmap.PAGESIZE)
            assert not SHARED_WINDOW <= found < LOCAL_WINDOW + WINDOW_BYTES

"""Random cooperative launches in random streams of four GPUs, submitted together and ordered only by their streams: every sum is right.

CI makes a short run; ``python -m pytest -m slow tests/test_cooperative_streams.py`` makes 10,000 launches in 40 parts, each with its own seed.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.test_driver_devices import right
from warpwright.toolchain import InputKind, compile_source, link

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

SOURCE = r"""
typedef unsigned long long Handle;
extern "C" __device__ Handle __cuda_syscall_CGS_get_intrinsic_handle(unsigned scope);
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(Handle handle, unsigned flags);
struct Parts { unsigned *of[4]; };

// In each round, groups of lanes add their values and every grid updates the next one's array, so that its values depend on the order of rounds and launches.
extern "C" __global__ void rounds(Parts parts, int own, int grids, int several, int count, int group)
{
    Handle all = several ? __cuda_syscall_CGS_get_intrinsic_handle(2) : __cuda_syscall_CGS_get_intrinsic_handle(1);
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < count; round++) {
        unsigned value = own * 1000 + thread % 97 + round;
        for (int distance = group / 2; distance > 0; distance /= 2)
            value += __shfl_xor_sync(0xffffffffu, value, distance);
        unsigned *to = parts.of[(own + round) % grids];
        to[thread] = to[thread] * 3 + value;
        __cuda_syscall_CGS_sync(all, 0);
    }
}
"""
LAUNCHES, PARTS, TOGETHER = 10_000, 40, 5
PROGRAM = """
import struct
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

STREAMS, LARGEST = 3, 6 * 256
functions, streams, arrays = [], {{}}, {{}}
for d in devices:
    on(d)
    for other in devices:
        if other != d:
            cuda("cuCtxEnablePeerAccess", contexts[other], 0)
    module = cuda.word("cuModuleLoadData", open({path!r}, "rb").read())
    functions.append(cuda.word("cuModuleGetFunction", module, b"rounds"))
for d in devices:
    for s in range(STREAMS):
        on(d)
        streams[d, s] = cuda.word("cuStreamCreate", 1)
        on((d + s) % len(devices))  # a stream's array is its own device's or another's
        arrays[d, s] = cuda.word("cuMemAlloc_v2", 4 * LARGEST)
expected = {{place: np.zeros(LARGEST, np.uint32) for place in streams}}
place = st.tuples(st.permutations(devices), st.integers(1, len(devices)), st.lists(st.integers(0, STREAMS - 1), min_size=4, max_size=4))
LAUNCH = st.tuples(
    place.map(lambda p: [(d, s) for d, s in zip(p[0][: p[1]], p[2])]), st.booleans(), st.integers(1, 6),
    st.sampled_from({threads}), st.integers(1, 4), st.sampled_from([1, 2, 4, 8, 16, 32]),
)
made = [0]

def launch(places, several, blocks, threads, rounds, group):
    several = several or len(places) > 1
    table = (ctypes.c_uint64 * 4)(*[arrays[p] for p in places])
    raw, kept = b"", []
    for own, at in enumerate(places):
        values = [table, *(ctypes.c_int32(n) for n in (own, len(places), several, rounds, group))]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        kept.append((values, pointers))
        on(at[0])
        if not several:
            cuda("cuLaunchCooperativeKernel", functions[at[0]], blocks, 1, 1, threads, 1, 1, 0, streams[at], pointers)
        raw += struct.pack("Q7I4xQQ", functions[at[0]], blocks, 1, 1, threads, 1, 1, 0, streams[at], ctypes.addressof(pointers))
    if several:
        packed = ctypes.create_string_buffer(raw)
        cuda("cuLaunchCooperativeKernelMultiDevice", packed, len(places), 0)
    made[0] += 1
    thread = np.arange(blocks * threads)
    for round in range(rounds):
        for own in range(len(places)):
            values = own * 1000 + thread % 97 + round
            sums = values.reshape(-1, group).sum(axis=1).repeat(group).astype(np.uint32)
            part = expected[places[(own + round) % len(places)]][: len(thread)]
            part[:] = part * np.uint32(3) + sums

@seed({seed})
@settings(max_examples={batches}, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(LAUNCH, min_size={together}, max_size={together}))
def batches(launches):
    for p in streams:
        cuda("cuMemsetD32_v2", arrays[p], 0, LARGEST)
        expected[p][:] = 0
    for one in launches:
        launch(*one)
    for d in devices:
        on(d)
        cuda("cuCtxSynchronize")
    for p in streams:
        found = np.zeros(LARGEST, np.uint32)
        cuda("cuMemcpyDtoH_v2", found.ctypes.data, arrays[p], 4 * LARGEST)
        assert np.array_equal(found, expected[p]), (p, launches)

batches()
print(made[0])
"""


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rounds") / "rounds.cubin"
    compiled = compile_source(SOURCE, "70", options=["-rdc=true"])
    path.write_bytes(link([(InputKind.CUBIN, compiled.cubin, "rounds.cubin")], "70").cubin)
    return os.fspath(path)


def launches(path: str, number: int, count: int, threads: list[int], **more: str) -> int:
    """Number of launches that a program has made, all with right sums."""
    program = PROGRAM.format(path=path, seed=number, batches=count // TOGETHER, together=TOGETHER, threads=threads)
    return int(right(program, "v100,v100,v100,v100", **more).split()[-1])


@pytest.mark.ci
def test_random_cooperative_launches_in_random_streams(rounds: str) -> None:
    assert launches(rounds, 19, 25, [64]) == 25


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_launches_in_random_streams(part: int, rounds: str) -> None:
    assert launches(rounds, 3000 + part, LAUNCHES // PARTS, [32, 64, 96, 160, 256]) == LAUNCHES // PARTS

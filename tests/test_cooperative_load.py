"""Cooperative launches of random GPUs, grids, blocks and groups over links that lose packets: sums are right, and what can never end is reported.

A short run is in CI; ``python -m pytest -m slow tests/test_cooperative_load.py`` makes 10,000 launches in 40 parts, each with its own seed (``-k "launches[7]"``), and 1,000 with
timing in 40 parts, each over links that lose a random share of their packets (``-k "lossy and part"``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.errors import DeadlockError
from warpwright.toolchain import InputKind, compile_source, link

SOURCE = r"""
typedef unsigned long long Handle;
extern "C" __device__ Handle __cuda_syscall_CGS_get_intrinsic_handle(unsigned scope);
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(Handle handle, unsigned flags);
struct Parts { int *of[4]; };

// Each round, groups of lanes add their values; each GPU's threads add the sums to the next GPU's part, and all grids meet. Lanes whose number is no
// multiple of `every` are left out of the groups' count, as a coalesced group has it.
extern "C" __global__ void rounds(Parts parts, int own, int gpus, int count, int group, int every, int absent)
{
    Handle all = __cuda_syscall_CGS_get_intrinsic_handle(2);
    if ((int)blockIdx.x < absent)
        return;
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < count; round++) {
        int value = own * 1000 + thread % 97 + round;
        for (int distance = group / 2; distance > 0; distance /= 2)
            value += __shfl_xor_sync(0xffffffffu, value, distance);
        if (threadIdx.x % every == 0)
            value += __popc(__activemask() & __ballot_sync(__activemask(), 1));
        int *to = parts.of[(own + round) % gpus];
        to[thread] += value;
        __cuda_syscall_CGS_sync(all, 0);
    }
}
"""
LARGEST = 6 * 256
LAUNCHES, LOSSY_LAUNCHES, PARTS = 10_000, 1_000, 40
ERRORS_PER_MILLION = 20_000
LEAST_ERRORS, MOST_ERRORS = 2_000, 300_000
"""Per million packets, of the links of a part; their logarithm is uniform."""


@dataclass(frozen=True)
class Shape:
    """One launch on several GPUs."""

    gpus: tuple[int, ...]
    blocks: int
    threads: int
    rounds: int
    group: int
    every: int
    absent: int
    """Blocks of the first GPU that do not come."""


SHAPES = st.builds(
    Shape,
    gpus=st.permutations(range(4)).flatmap(lambda order: st.integers(1, 4).map(lambda n: tuple(order[:n]))),
    blocks=st.integers(1, 6),
    threads=st.sampled_from([32, 64, 96, 160, 256]),
    rounds=st.integers(1, 4),
    group=st.sampled_from([1, 2, 4, 8, 16, 32]),
    every=st.sampled_from([1, 2, 3, 7, 32]),
    absent=st.sampled_from([0] * 9 + [1]),
)


class Node:
    """Four GPUs that all reach each other, and an array on each."""

    def __init__(self, name: str, **options: Any) -> None:
        self.node = ww.System(name, **options)
        arch = str(self.node.gpus[0].chip.arch)
        compiled = compile_source(SOURCE, arch, options=["-rdc=true"])
        code = link([(InputKind.CUBIN, compiled.cubin, "rounds.cubin")], arch).cubin
        self.kernels = [gpu.compile(code)["rounds"] for gpu in self.node.gpus[:4]]
        self.parts = [gpu.zeros(LARGEST, np.int32) for gpu in self.node.gpus[:4]]
        self.replays = 0
        for first in range(4):
            for other in range(4):
                if first != other:
                    self.node.enable_peer_access(first, other)

    def run(self, shape: Shape) -> list[np.ndarray]:
        """The GPUs' arrays after a launch, in its order."""
        parts = np.zeros(4, np.uint64)
        for place, gpu in enumerate(shape.gpus):
            self.parts[gpu].numpy()[:] = 0
            parts[place] = self.parts[gpu].device_address()
        launches = []
        for place, gpu in enumerate(shape.gpus):
            numbers = (
                place,
                len(shape.gpus),
                shape.rounds,
                shape.group,
                shape.every,
                shape.absent if place == 0 else 0,
            )
            launcher = self.kernels[gpu][shape.blocks, shape.threads]
            launches.append((launcher, (np.void(parts.tobytes()), *(np.int32(number) for number in numbers))))
        runs = self.node.launch(*launches, cooperative=True)
        if self.node.gpus[0].timing == "full":
            self.replays += int(sum(run.metrics.get("nvltx__packets_replayed.sum", 0) for run in runs))
        return [self.parts[gpu].numpy().copy() for gpu in shape.gpus]


def expected(shape: Shape) -> list[np.ndarray]:
    """What the arrays must hold."""
    count, gpus = shape.blocks * shape.threads, len(shape.gpus)
    found = [np.zeros(LARGEST, np.int64) for _ in range(gpus)]
    thread = np.arange(count)
    lane_counts = np.zeros(count, np.int64)
    chosen = thread % shape.threads % shape.every == 0
    warps = thread // 32
    members = np.bincount(warps[chosen], minlength=warps[-1] + 1)
    lane_counts[chosen] = members[warps[chosen]]
    for round_number in range(shape.rounds):
        for own in range(gpus):
            values = own * 1000 + thread % 97 + round_number
            sums = values.reshape(-1, shape.group).sum(axis=1).repeat(shape.group)
            found[(own + round_number) % gpus][:count] += sums + lane_counts
    return found


def check(node: Node, shape: Shape) -> None:
    """A launch has the right sums, or is reported if some of its blocks do not come."""
    if shape.absent and (shape.blocks > 1 or len(shape.gpus) > 1):
        with pytest.raises(DeadlockError, match="blocks have arrived"):
            node.run(shape)
        return
    found = node.run(shape)
    if not shape.absent:
        for ours, theirs in zip(found, expected(shape), strict=True):
            assert np.array_equal(ours, theirs), shape


@cache
def untimed() -> Node:
    """DGX-1's first four GPUs without timing."""
    return Node("dgx-1", timing="off")


def _settings(count: int) -> settings:
    return settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )  # fmt: skip


@pytest.mark.ci
@pytest.mark.long
@seed(19)
@_settings(6)
@given(SHAPES)
def test_random_cooperative_launches(shape: Shape) -> None:
    # Finding a deadlock takes seconds: one case is a test of its own, many are among the ten thousand. So are the other sizes of a block, for each of
    # which the kernel is compiled.
    check(untimed(), replace(shape, absent=0, threads=96 if shape.threads <= 96 else 256))


@pytest.mark.ci
def test_a_launch_whose_blocks_do_not_all_come_is_reported() -> None:
    check(untimed(), Shape((2, 0), 1, 32, rounds=2, group=8, every=3, absent=1))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_random_cooperative_launches(part: int) -> None:
    @seed(1000 + part)
    @_settings(LAUNCHES // PARTS)
    @given(SHAPES)
    def launches(shape: Shape) -> None:
        check(untimed(), shape)

    launches()


def over_lossy_links(folder: Path, errors_per_million: int) -> Node:
    """DGX-1's first four GPUs with timing, over links that lose packets."""
    path = folder / "lossy.toml"
    path.write_text(
        f'base = "dgx-1"\n[links.nvlink2]\nerrors_per_million_packets = {errors_per_million}\n', encoding="utf-8"
    )
    return Node(str(path), timing="full")


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Links that lose two packets of a hundred."""
    return over_lossy_links(tmp_path_factory.mktemp("machines"), ERRORS_PER_MILLION)


@pytest.mark.ci
@pytest.mark.parametrize("number", range(3))
def test_random_launches_over_links_that_lose_packets(number: int, lossy: Node) -> None:
    random = np.random.default_rng(number)
    order = tuple(int(gpu) for gpu in random.permutation(4)[: 2 + number % 3])
    shape = Shape(order, int(random.integers(1, 4)), int(random.choice([32, 96, 256])), 3, 8, 3, 0)
    check(lossy, shape)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_launches_over_links_with_random_errors(part: int, tmp_path: Path) -> None:
    rate = np.random.default_rng(part).uniform(np.log(LEAST_ERRORS), np.log(MOST_ERRORS))
    node = over_lossy_links(tmp_path, int(np.exp(rate)))

    @seed(2000 + part)
    @_settings(LOSSY_LAUNCHES // PARTS)
    @given(SHAPES)
    def launches(shape: Shape) -> None:
        check(node, replace(shape, absent=0))

    launches()
    assert node.replays > 0

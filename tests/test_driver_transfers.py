"""Copies and fills take simulated time: what an H200 measured, and one engine for each direction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_driver_devices import right

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
ROOT = Path(__file__).parents[1]


@pytest.mark.ci
def test_the_same_program_finds_on_the_model_what_it_found_on_a_card(tmp_path: Path) -> None:
    out = tmp_path / "transfers.json"
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "h200,h200", "bench/transfers.py", "--out", str(out)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    ours = json.loads(out.read_text())["microseconds"]
    card = json.loads((ROOT / "bench/data/h200/transfers.json").read_text())["microseconds"]
    assert ours.keys() == card.keys()
    for kind in ("pinned to", "pinned from", "within", "fill", "peer", "both"):
        for size in ours[kind]:
            # A pair of events has 3.2 us between them on the card.
            theirs = card[kind][size] - card["nothing"][size]
            if kind == "both" and int(size) < 64 << 20:
                continue  # the host issues the second copy some 15 us later there
            assert ours[kind][size] == pytest.approx(theirs, rel=0.1, abs=2.5), (kind, size)
    for size in ("1048576", "16777216"):  # the host's own copy, which varied by a factor of two
        assert card["pageable to"][size] / 2 < ours["pageable to"][size] < 2 * card["pageable to"][size]


def test_copies_of_one_direction_wait_for_each_other_and_kernels_do_not() -> None:
    said = right(
        """
SIZE = 64 << 20
on(0)
streams = [cuda.word("cuStreamCreate", 1) for _ in range(3)]
places = [cuda.word("cuMemAlloc_v2", SIZE) for _ in range(3)]
host = cuda.word("cuMemHostAlloc", SIZE, 0)
start = cuda.word("cuEventCreate", 0)

def took(*works):
    ends = [cuda.word("cuEventCreate", 0) for _ in works]
    for stream in streams:
        cuda("cuStreamWaitEvent", stream, start, 0)
    cuda("cuCtxSynchronize")
    first = cuda.word("cuEventCreate", 0)
    cuda("cuEventRecord", first, 0)
    for stream in streams:
        cuda("cuStreamWaitEvent", stream, first, 0)
    for work, stream, end in zip(works, streams, ends):
        work(stream)
        cuda("cuEventRecord", end, stream)
    times = []
    for end in ends:
        value = ctypes.c_float()
        cuda("cuEventElapsedTime", ctypes.byref(value), first, end)
        times.append(value.value)
    print(*times)

up = lambda stream: cuda("cuMemcpyHtoDAsync_v2", places[0], host, SIZE, stream)
down = lambda stream: cuda("cuMemcpyDtoHAsync_v2", host, places[1], SIZE, stream)
took(up, up, down)
""",
        "h200",
        WARPWRIGHT_TIMING="full",
    )
    first, second, back = map(float, said.split())
    alone = 3.4e-3 + (64 << 20) / 55.5e9 * 1e3
    event = 1.28e-3  # the second of a pair
    assert first == pytest.approx(alone + event, rel=1e-3)
    assert second == pytest.approx(2 * alone + event, rel=1e-3)
    assert back == pytest.approx(alone + event, rel=1e-3)


def test_without_timing_copies_take_none() -> None:
    right(
        """
on(0)
stream, host = cuda.word("cuStreamCreate", 1), cuda.word("cuMemHostAlloc", 4 * N, 0)
cuda("cuMemcpyHtoDAsync_v2", filled(1), host, 4 * N, stream)
from warpwright.driver.driver_state import state
assert state().device.engines_free == {}
""",
        "h200",
    )

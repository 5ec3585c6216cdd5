"""Copies in simulated time, and several chips that draw one frame."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.graphics_streams import THREE_D, TWO_D, Stream
from warpwright.chips import load_chip
from warpwright.errors import UnsupportedError
from warpwright.graphics.state_3d import ShareOfFrame
from warpwright.graphics.timed.copy_times import Copy, copy_cycles
from warpwright.graphics.timed.frame import described, frame_of
from warpwright.graphics.timed.linked_chips import balanced, in_turn, split
from warpwright.graphics.timed.timer import GraphicsTimer

CHIP = load_chip("g80")
RECORDINGS = Path(__file__).parents[1] / "warpwright" / "studies" / "recordings"


def timed() -> tuple[Stream, GraphicsTimer]:
    stream = Stream()
    return stream, stream.device.keep_time(CHIP)


def buffers(stream: Stream, *local: bool, size: int = 1 << 20) -> list[int]:
    return [stream.device.memory.allocate(size, 4096, local=place).address for place in local]


@pytest.mark.ci
# --- copies ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("local", "gb_per_s"),
    [
        ((True, True), CHIP.transfer.device_copy_gb_per_s),
        ((False, True), CHIP.transfer.host_copy_gb_per_s),
        ((True, False), CHIP.transfer.host_copy_gb_per_s),
    ],
)
def test_a_copy_takes_its_bytes_at_the_rate_of_its_way(local: tuple[bool, bool], gb_per_s: float) -> None:
    stream, timer = timed()
    source, target = buffers(stream, *local)
    stream.copy(source, target, 4096, 200, 4096)
    stream.submit()
    (copy,) = timer.copies
    wanted = 4096 * 200 / (gb_per_s * 1e9) * CHIP.clocks.sm_clock_mhz * 1e6
    assert wanted <= copy.end - copy.begin < wanted + 1
    assert timer.clock_cycles == copy.end
    assert (copy.copy.from_host, copy.copy.to_host) == (not local[0], not local[1])


@pytest.mark.ci
def test_copies_follow_each_other() -> None:
    stream, timer = timed()
    source, target = buffers(stream, True, True)
    for rows in (100, 50):
        stream.copy(source, target, 4096, rows, 4096)
    stream.submit()
    first, second = timer.copies
    assert first.begin == 0
    assert second.begin == first.end
    assert first.end - first.begin == pytest.approx(2 * (second.end - second.begin), abs=2)
    frame = frame_of(timer)
    assert frame.use["copies"] == 1.0
    assert frame.bottleneck == "copies"
    assert frame.copy_cycles == frame.cycles
    assert any(line.startswith("2 copies of 614,400 bytes took") for line in described(frame))
    assert [row["copy"]["label"] for row in frame.to_dict()["copies"]] == ["memory copy"] * 2


def test_an_upload_takes_the_words_of_the_command_stream() -> None:
    stream, timer = timed()
    (target,) = buffers(stream, True)
    stream.put(TWO_D, "DST_FORMAT", 0xF3)
    stream.put(TWO_D, "DST_LINEAR", 1)
    stream.put(TWO_D, "DST_PITCH", 4096, 4096, 1, target >> 32, target)
    stream.put(TWO_D, "SIFC_BITMAP_ENABLE", 0)
    stream.put(TWO_D, "SIFC_FORMAT", 0xF3)
    stream.put(TWO_D, "SIFC_WIDTH", 1000, 1, 0, 1, 0, 1, 0, 0, 0, 0)
    for _ in range(10):
        stream.words += [0x4000_0000 | 25 << 18 | TWO_D << 13 | 0x860, *range(25)]
    stream.submit()
    (copy,) = timer.copies
    assert copy.copy == Copy("upload", 1000, 1000, True, False)
    assert copy.end - copy.begin == np.ceil(copy_cycles(CHIP, copy.copy)) > 0


def test_copies_without_time_change_nothing_else() -> None:
    stream, timer = timed()
    timer.times_copies = False
    source, target = buffers(stream, True, True)
    stream.device.memory.view(source, 4096, "a test")[:] = 7
    stream.copy(source, target, 4096, 1, 4096)
    stream.submit()
    assert timer.clock_cycles == 0
    assert (stream.device.memory.view(target, 4096, "a test") == 7).all()


# --- several chips --------------------------------------------------------------------------------
def screen(stream: Stream) -> tuple[int, int]:
    device = stream.device.three_d
    return device["SCREEN_SCISSOR_HORIZ"], device["SCREEN_SCISSOR_VERT"]


def test_a_share_limits_surfaces_of_the_frames_size_only() -> None:
    stream = Stream()
    stream.device.three_d.share = ShareOfFrame(64, 48, 10, 30)
    stream.put(THREE_D, "SCREEN_SCISSOR_HORIZ", 64 << 16, 48 << 16)
    stream.submit()
    assert screen(stream) == (64 << 16, 10 | 20 << 16)
    stream.put(THREE_D, "SCREEN_SCISSOR_HORIZ", 64 << 16, 64 << 16)
    stream.submit()
    assert screen(stream) == (64 << 16, 64 << 16)


def test_bands_are_made_by_the_speed_of_the_last_frame() -> None:
    assert balanced([0, 50, 100], [100.0, 100.0]) == [0, 50, 100]
    assert balanced([0, 50, 100], [300.0, 100.0]) == [0, 34, 100]
    assert balanced([0, 50, 100], [1e9, 1.0]) == [0, 26, 100]
    assert balanced([0, 2, 100], [1e9, 1.0]) == [0, 2, 100]
    cuts = balanced([0, 30, 60, 90], [1.0, 1.0, 4.0])
    assert cuts[0] == 0
    assert cuts[-1] == 90
    assert all(a < b for a, b in itertools.pairwise(cuts))


@pytest.mark.ci
def test_two_chips_draw_the_picture_of_one() -> None:
    path = RECORDINGS / "large_triangles.wwcs"
    halves, turns = split(path, CHIP, rounds=1), in_turn(path, CHIP)
    assert (halves.picture == turns.picture).all()
    assert halves.picture.std() > 10
    whole = turns.frames[0]
    assert halves.bands == [(0, 256), (256, 512)]
    for half in halves.frames:
        # All vertices, and half of the pixels.
        assert sum(d.warps["vertex"] for d in half.draws) == sum(d.warps["vertex"] for d in whole.draws)
        assert 0.4 < half.cycles / whole.cycles < 0.7
    crossing = 512 * 512 * 4 / (CHIP.graphics.frame_link_gb_per_s * 1e9)
    assert turns.link_seconds == pytest.approx(crossing / 2)
    assert halves.link_seconds == pytest.approx(crossing / 2)
    assert turns.interval_seconds == pytest.approx(max(whole.seconds / 2, crossing / 2))
    assert turns.latency_seconds == pytest.approx(whole.seconds + crossing)


def test_a_chip_without_a_link_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="has no link for frames"):
        in_turn(RECORDINGS / "fill.wwcs", load_chip("h200"))

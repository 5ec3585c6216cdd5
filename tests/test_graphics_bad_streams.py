"""Bad input of the graphics device: a part of the cases of ``bench/bad_streams.py``, and registers beyond the chip's limits."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from bench.bad_streams import SCENE, WAYS, Snapshot, Spoiling
from tests.graphics_streams import THREE_D, Stream
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.linkage import Interpolants
from warpwright.graphics.pushbuffer import CommandError
from warpwright.graphics.recording import Replay


@pytest.mark.ci
def test_each_case_ends_in_an_error_or_a_picture() -> None:
    replay = Spoiling(range(200_000, 200_300))
    replay.run()
    assert replay.is_same is True
    found = {case.number: case for case in replay.found}
    assert len(found) == 300
    assert {case.way for case in found.values()} == set(WAYS)
    assert [case for case in found.values() if case.outcome not in ("error", "picture")] == []
    errors = [case for case in found.values() if case.outcome == "error"]
    assert len(errors) > 60
    assert all(case.said for case in errors)


@pytest.mark.ci
def test_positions_far_outside_an_image_reach_no_other_buffer() -> None:
    """A tiled copy of a length far beyond its pitch, and an upload to a column that was an address of another buffer."""
    replay = Spoiling([600_159, 603_354])
    replay.run()
    assert [case.outcome for case in replay.found] == ["error", "error"]


@pytest.mark.ci
def test_a_snapshot_brings_a_device_back() -> None:
    """Spoilt and restored before each submission, the recording still ends with its memory."""

    class Restored(Replay):
        def _carry_out(self, device: GraphicsDevice, kind: bytes, fields: tuple[int, ...], tail: bytes) -> None:
            if kind == b"S" and fields[0] and self.submissions in (3, 9):
                segments = [(int(a), int(n)) for a, n in np.frombuffer(tail, np.uint64).reshape(-1, 2)]
                snapshot = Snapshot(device)
                device.submit(segments)
                device.three_d.registers[:] = 0xFFFF_FFFF
                snapshot.restore()
            super()._carry_out(device, kind, fields, tail)

    replay = Restored(SCENE)
    replay.run()
    assert replay.is_same is True


def test_registers_have_the_chips_limits() -> None:
    stream = Stream()
    stream.put(THREE_D, "FP_RESULT_COUNT", 65)
    stream.put(THREE_D, "FP_INTERPOLANT_CTRL", 0x0003_0002)
    stream.submit()
    engine = stream.device.three_d
    with pytest.raises(CommandError, match="FP_RESULT_COUNT is 65: the chip has at most 64"):
        engine.limited("FP_RESULT_COUNT", 64)
    assert engine.limited("FP_RESULT_COUNT", 65) == 65
    with pytest.raises(CommandError, match="of its 2 attributes 3 are interpolated"):
        Interpolants.of(engine)


@pytest.mark.ci
def test_draws_with_odd_state_and_vertices_end_in_pictures_or_errors() -> None:
    command = [sys.executable, "-m", "bench.bad_state", "--cases", "30", "--first", "1450"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert re.match(r"30 cases in \d+ s: 0 failures", done.stdout), done.stdout

"""Bad input of the graphics device: a part of the cases of ``bench/bad_streams.py``, and registers beyond the chip's limits."""

from __future__ import annotations

import pytest

from bench.bad_streams import WAYS, run_part
from tests.graphics_streams import THREE_D, Stream
from warpwright.graphics.linkage import Interpolants
from warpwright.graphics.pushbuffer import CommandError


@pytest.mark.ci
def test_each_case_ends_in_an_error_or_a_picture() -> None:
    found = run_part(range(200_000, 200_090))
    assert len(found) == 90
    assert {case.way for _, case in found} == set(WAYS)
    assert [(number, case) for number, case in found if case.outcome not in ("error", "picture")] == []
    assert sum(case.outcome == "error" for _, case in found) > 20
    assert all(case.said for _, case in found if case.outcome == "error")


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

"""Piglit's programs for raster, depth, stencil, blending, clipping, multisampling and texture formats on the simulated GeForce 8800."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.piglit_programs import known_failures, programs, run_program, simulated

PIGLIT = next(iter(Path("/usr/lib").glob("*/piglit")), None)
AREAS = programs()


def test_the_list_has_each_area_and_no_program_twice() -> None:
    assert list(AREAS) == ["multisample", "stencil", "clipping", "depth", "blending", "texture formats", "raster"]
    lines = [line for area in AREAS.values() for line in area]
    assert len(lines) == len(set(lines)) == 126
    assert known_failures() < set(lines)
    assert len(known_failures()) == 4


@pytest.mark.slow
@pytest.mark.skipif(PIGLIT is None, reason="needs piglit (apt-get install piglit)")
@pytest.mark.parametrize("area", list(AREAS))
def test_programs_pass(area: str) -> None:
    """All but those that are known to fail, and at least nine of each area do not skip."""
    assert PIGLIT is not None
    found = {line: run_program(PIGLIT, line, simulated()) for line in AREAS[area]}
    failed = {line for line, outcome in found.items() if outcome.result not in ("pass", "skip")}
    assert failed == known_failures() & set(AREAS[area]), {line: found[line] for line in failed}
    assert sum(outcome.result == "pass" for outcome in found.values()) >= 9

"""Labels of compiled code: those that bear a block's number and those that a counter numbers never meet."""

from __future__ import annotations

import re
from pathlib import Path

import warpwright.engine.jit


def test_numbered_labels_have_stems_of_their_own() -> None:
    sources = "".join(p.read_text() for p in Path(warpwright.engine.jit.__file__).parent.glob("*.py"))
    counted = set(re.findall(r'new_label\("(\w+)"\)', sources))
    of_blocks = set(re.findall(r'\.label\(f"([a-z]+)\{', sources))
    assert {"go", "part", "slow"} <= counted
    assert {"turn", "scan", "e"} <= of_blocks
    assert not counted & of_blocks

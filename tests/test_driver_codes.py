"""Every call with wrong arguments gets the code that an H200's driver gives (``bench/driver_codes.py``)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.driver_codes import GROUPS
from tests.driver_library import ENVIRONMENT
from tests.forked_programs import run_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
ROOT = Path(__file__).parents[1]
CARD: dict[str, dict[str, Any]] = json.loads((ROOT / "bench/data/h200/driver_codes.json").read_text())["rows"]
APART = {
    # PTX for what this chip does not have is assembled for it.
    **{f"{call}: {what}": [0, 0, 0] if call == "library" else 0 for call in ("cuModuleLoadData", "cuModuleLoadDataEx", "library") for what in ("of version 99", "for sm_999", "for sm_100")},
    # Inputs of a link are read when it is completed.
    "link(1, bad)": [0, 218, 0],
    "link(1, ...) #2": [0, 218, 0],
    "link(0, bad)": [0, 218, 0],
    # A machine code's variables do not tell which of them are managed.
    "cuLibraryGetManaged(room, room, library, table)": 0,
    # The versions in which calls came are known where there are several of one name.
    "cuGetProcAddress_v2(cuMemAllocAsync, room, 10000, 0, int)": [0, 0],
    # Textures of the host's own memory, and anisotropic ones, are refused.
    "texture of linear, of the host": 1,
    "texture of anisotropy 17": 801,
    # A context that was reset is as good as new.
    "behind a trap, 35: cuMemAlloc_v2": 0,
}  # fmt: skip
"""What is answered otherwise here."""


PROGRAM = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT)!r})
from warpwright.driver import attach
from warpwright.libraries import provide
provide()
attach.preload()
runpy.run_path({str(ROOT / "bench/driver_codes.py")!r}, run_name="__main__")
"""


def answers(group: str) -> dict[str, Any]:
    """This driver's answers to a group's rows, asked in a process of their own; those that end a card's process are not asked."""
    environment = {**os.environ, **ENVIRONMENT, "WARPWRIGHT_GPU": "h200"}
    dead = ",".join(str(n) for n, answer in enumerate(CARD[group].values()) if answer == "dies")
    done = run_program(PROGRAM, environment, "--group", group, "--dead", dead)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line[:1] in '"[0123456789']
    return dict(zip(lines[0::2], lines[1::2], strict=True))


@pytest.mark.ci
@pytest.mark.parametrize("group", GROUPS)
def test_every_code_is_the_cards(group: str) -> None:
    mine, theirs = answers(group), CARD[group]
    assert mine.keys() == theirs.keys()
    apart = {k: (v, mine[k]) for k, v in theirs.items() if mine[k] != APART.get(k, v)}
    assert apart == {}

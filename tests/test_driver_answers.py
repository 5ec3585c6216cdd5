"""The driver answers as an H200's does to arguments that are right and wrong (``bench/driver_answers.py``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.driver_answers import MIB, SIZES, maps

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
ROOT = Path(__file__).parents[1]
CARD: dict[str, Any] = json.loads((ROOT / "bench/data/h200/driver_answers.json").read_text())
MEMORY_ATTRIBUTES = (9, 19, 41, 83, 88, 89, 91, 99, 100, 101, 102, 108, 109, 115, 126, 127, 130, 131)
"""CU_DEVICE_ATTRIBUTE_*: of host memory that is mapped, unified addressing, managed and pageable memory and who may use it, virtual memory,
persisting L2, windows, pools, domains, tensor maps, nodes."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("answers") / "answers.json"
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "h200", "--timing", "off", "bench/driver_answers.py"]
    command += ["--out", str(out), "--address", str(CARD["tensor_maps"]["address"])]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.mark.parametrize("kind", ["tiled", "im2col"])
def test_tensor_maps_are_refused_or_have_the_cards_bytes(ours: dict[str, Any], kind: str) -> None:
    theirs, mine = CARD["tensor_maps"][kind], ours["tensor_maps"][kind]
    taken = sum(code == 0 for code, *_ in theirs)
    assert 1500 < taken < len(theirs) - 1500
    apart = [(a, x, y) for a, x, y in zip(maps(kind == "im2col"), theirs, mine, strict=True) if x != y]
    assert apart == []


def test_addresses_of_tensor_maps_are_replaced_as_by_a_card(ours: dict[str, Any]) -> None:
    assert ours["tensor_maps"]["replaced"] == CARD["tensor_maps"]["replaced"]


@pytest.mark.parametrize("section", ["managed", "batches"])
def test_every_answer_is_the_cards(ours: dict[str, Any], section: str) -> None:
    apart = {k: (v, ours[section].get(k)) for k, v in CARD[section].items() if ours[section].get(k) != v}
    assert apart == {}
    assert ours[section].keys() == CARD[section].keys()


def test_allocations_of_a_mebibyte_begin_at_pages_of_their_own(ours: dict[str, Any]) -> None:
    for size, theirs, mine in zip(SIZES, CARD["places"], ours["places"], strict=True):
        assert mine == theirs if size >= MIB else mine >= 512, size


def test_attributes_of_memory_are_the_cards(ours: dict[str, Any]) -> None:
    for number in MEMORY_ATTRIBUTES:
        assert ours["attributes"][number] == CARD["attributes"][number], number

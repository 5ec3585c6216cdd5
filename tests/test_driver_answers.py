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
from tests.driver_library import RUNTIME_CALLS
from tests.forked_programs import run_program
from tests.test_driver_devices import finished

pytestmark = [
    pytest.mark.ci,  # two programs ask for all answers
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
ROOT = Path(__file__).parents[1]
CARD: dict[str, Any] = json.loads((ROOT / "bench/data/h200/driver_answers.json").read_text())
STREAMS: dict[str, Any] = json.loads((ROOT / "bench/data/h200/stream_answers.json").read_text())
MEMORY_ATTRIBUTES = (9, 19, 41, 83, 88, 89, 91, 99, 100, 101, 102, 108, 109, 115, 126, 127, 130, 131, 134)
"""CU_DEVICE_ATTRIBUTE_*: of host memory that is mapped, unified addressing, managed and pageable memory and who may use it, virtual memory,
persisting L2, windows, pools, domains, tensor maps, nodes."""


def answers(folder: Path, program: str, *more: str) -> dict[str, Any]:
    """What a program that asks a driver is answered here."""
    out = folder / "answers.json"
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "h200", "--timing", "off", program]
    command += ["--out", str(out), *more]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    address = str(CARD["tensor_maps"]["address"])
    return answers(tmp_path_factory.mktemp("answers"), "bench/driver_answers.py", "--address", address)


@pytest.fixture(scope="module")
def of_streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answers(tmp_path_factory.mktemp("streams"), "bench/stream_answers.py")


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


@pytest.mark.parametrize(
    "section", ["parts", "resources", "memory_operations", "ranges", "pools", "log", "green_contexts"]
)
def test_every_answer_about_streams_is_the_cards(of_streams: dict[str, Any], section: str) -> None:
    mine = of_streams[section]
    apart = {k: (v, mine.get(k)) for k, v in STREAMS[section].items() if mine.get(k) != v}
    assert apart == {}
    assert mine.keys() == STREAMS[section].keys()


def test_allocations_of_a_mebibyte_begin_at_pages_of_their_own(ours: dict[str, Any]) -> None:
    for size, theirs, mine in zip(SIZES, CARD["places"], ours["places"], strict=True):
        assert mine == theirs if size >= MIB else mine >= 512, size


def test_attributes_of_memory_are_the_cards(ours: dict[str, Any]) -> None:
    for number in MEMORY_ATTRIBUTES:
        assert ours["attributes"][number] == CARD["attributes"][number], number


RUNTIME = (
    RUNTIME_CALLS
    + """
ARRAY = ctypes.c_uint64 * 2
first, managed = made("cudaMalloc", 4096), made("cudaMallocManaged", 8192, 1)
stream = made("cudaStreamCreate")
data = bytes(range(256)) * 4
source = ctypes.create_string_buffer(data, 1024)
failed = ctypes.c_uint64(7)
between = (ctypes.byref(failed),) if version == 12 else ()
base = ctypes.addressof(source)

# Two stretches of the source, the other way round, then back.
attributes = ctypes.create_string_buffer(struct.pack("<iiiiiI", 1, 0, 0, 0, 0, 0), 24)
batch = (ARRAY(first + 512, first), ARRAY(base, base + 512), ARRAY(512, 512), 2, attributes, ARRAY(0), 1)
assert call("cudaMemcpyBatchAsync", *batch, *between, stream) == 0
assert call("cudaMemcpyBatchAsync", *batch, *between, 0) == 1
back = (ctypes.c_uint8 * 1024)()
assert call("cudaMemcpy", back, first, 1024, 2) == 0
assert bytes(back) == data[512:] + data[:512]

# Rows of 16 bytes out of rows of 64, three of them, in two layers.
def side(address, row, height):
    return struct.pack("<i4xQQQii", 1, address, row, height, 0, 0)

block = side(base + 8, 64, 4) + side(first, 16, 3) + struct.pack("<QQQiI", 16, 3, 2, 1, 0)
operation = ctypes.create_string_buffer(block, 112)
assert call("cudaMemcpy3DBatchAsync", 1, operation, *between, 0, stream) == 0
assert call("cudaMemcpy", back, first, 96, 2) == 0
rows = [data[8 + 256 * z + 64 * y :][:16] for z in range(2) for y in range(3)]
assert bytes(back[:96]) == b"".join(rows)

# Places: CUDA 12 names devices, 13 has a structure.
host = -1 if version == 12 else 2
assert call("cudaMemAdvise", managed, 8192, 3, host) == 0
assert call("cudaMemPrefetchAsync", managed, 8192, *((0, stream) if version == 12 else (1, 0, stream))) == 0
words = (ctypes.c_int32 * 2)()
for number, wanted in ((2, -1), (4, 0), (1, 0)):
    assert call("cudaMemRangeGetAttribute", ctypes.byref(words, 4), 4, number, managed, 8192) == 0
    assert words[1] == wanted, (number, words[1])
assert call("cudaMemAdvise", managed, 4096, 1, host) == 0
assert call("cudaFree", managed) == 0
again = made("cudaMallocManaged", 8192, 1)
assert call("cudaMemRangeGetAttribute", ctypes.byref(words, 4), 4, 2, again, 8192) == 0
assert words[1] == -2, "advice ends with the memory"
print("right")
"""
)


@pytest.mark.parametrize("version", ["12", "13"])
def test_the_runtimes_of_both_versions_copy_batches_and_advise(version: str) -> None:
    environment = {**os.environ, "WARPWRIGHT_GPU": "h200", "WARPWRIGHT_TIMING": "off"}
    done = run_program(RUNTIME, environment, version)
    assert done.stdout == "right\n", done.stderr


def test_managed_memory_may_be_several_devices() -> None:
    """Each that accesses it is named; a place that ranges have in common is one device's."""
    program = """
address = cuda.word("cuMemAllocManaged", 1 << 20, 1)

def asked(number, count=1, size=1 << 20):
    words = (ctypes.c_int32 * count)()
    cuda("cuMemRangeGetAttribute", words, 4 * count, number, address, size)
    return list(words)

for device in (1, 0, -1):
    cuda("cuMemAdvise", address, 1 << 20, 5, device)
assert asked(3, 4) == [0, 1, -1, -2]
cuda("cuMemAdvise", address, 1 << 19, 6, 0)
assert asked(3, 3) == [1, -1, -2] and asked(3, 3, 4096) == [1, -1, -2]
cuda("cuMemPrefetchAsync", address, 1 << 20, 1, 0)
assert asked(4) == [1]
cuda("cuMemPrefetchAsync", address, 4096, 0, 0)
assert asked(4) == [-2] and asked(4, size=4096) == [0]
assert cuda.raw("cuMemPrefetchAsync", address, 4096, 2, 0) == 101
print("right")
"""
    said = finished("on(0)\n" + program)
    assert said.stdout == "right\n", said.stderr

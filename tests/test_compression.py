"""Compute data compression: what of a line crosses DRAM's bus, by its contents and by how it was written."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import warpwright as ww
from bench.machine.l2_policies import contents

ROOT = Path(__file__).parents[1]
CARD = ROOT / "bench" / "data" / "h200" / "l2_policies.json"
SIZE = 4 << 20
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
# Bytes of a line of 128 on the mean, as an H200's times of fills and reads tell (docs/howto/compressible-memory.md).
SIZES = {
    **dict.fromkeys(("zeros", "constant", "constant random", "a word a line", "count", "1 bit", "4 bits"), 32),
    **dict.fromkeys(("sparse floats, 31 of 32", "a random word a sector", "a random word a line"), 32),
    **dict.fromkeys(("a word a sector", "8 bits", "12 bits", "signed 8 bits", "base and 8 bits", "bytes of 1 bit"), 64),
    **dict.fromkeys(("base a line and 8 bits", "floats of 8 bits", "doubles of 8 bits", "longs of 16 bits"), 64),
    "1 of 4 sectors random": 64,
    **dict.fromkeys(
        ("16 bits", "20 bits", "24 bits", "top 16 bits", "base a line and 16 bits", "bytes of 4 bits"), 128
    ),
    **dict.fromkeys(("halves of 8 bits", "floats", "pointers", "half the sectors random", "sector four times"), 128),
    **dict.fromkeys(("halves 2 of 4", "random"), 128),
    "1 of 8 sectors random": 48,
    "half the lines random": 80,
    "half the 256 bytes random": 80,
}


class Bench:
    """A chip with an A100's SMs and a sixteenth of its L2, and 4 MiB that may be compressed."""

    def __init__(self, compressible: bool = True) -> None:
        chip = ww.load_chip("a100", l2_kib=2560, l2_set_aside_max_kib=0, l2_set_aside_default_kib=0)
        self.gpu = ww.GPU(chip, caches="kept", unified=True)
        self.module = self.gpu.compile(ROOT / "bench" / "machine" / "l2_policies.cu")
        self.data, self.other = (self.gpu.array(np.zeros(SIZE, np.uint8)) for _ in range(2))
        self.table = self.gpu.array(np.zeros(8192, np.uint32))
        self.sink = self.gpu.array(np.zeros(1, np.uint32))
        self._line_bytes: dict[str, float] = {}
        if compressible:
            self.gpu.memory.compress(self.data.device_address(), SIZE, 128)

    def read(self, array: object) -> ww.Run:
        return self.module["read"][216, 256](array, np.uint32(SIZE // 16), np.int32(1), self.sink)

    def fill(self, words: np.ndarray) -> float:
        """DRAM's bytes written for each line of 128 bytes, of this fill and what it leaves in L2."""
        self.read(self.other)
        self.table.numpy()[:] = words
        run = self.module["fill"][216, 256](self.data, np.uint32(SIZE // 16), self.table)
        rest = self.read(self.other)
        return float(128 * (run.metrics[WRITTEN] + rest.metrics[WRITTEN]) / SIZE)

    def poke(self, stride_words: int) -> None:
        count = SIZE // 4 // stride_words
        self.module["poke"][216, 256](self.data, np.uint32(count), np.uint32(stride_words), np.uint32(2654435761))

    def line_bytes(self) -> float:
        """DRAM's bytes read for each line of 128 bytes."""
        self.read(self.other)
        return float(128 * self.read(self.data).metrics[READ] / SIZE)

    def line_bytes_of(self, name: str) -> float:
        """DRAM's bytes read for each line of some contents, measured once."""
        if name not in self._line_bytes:
            self.fill(contents()[name])
            self._line_bytes[name] = self.line_bytes()
        return self._line_bytes[name]


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def test_every_kind_of_contents_that_the_card_measured_has_its_size() -> None:
    card = json.loads(CARD.read_text())["compression"]["compressible"]["rows"]
    sparse = {name for name in card if name.startswith("sparse")} - set(SIZES)
    assert set(SIZES) | sparse == set(card) == set(contents())


@pytest.mark.parametrize("name", ["zeros", "a random word a sector", "8 bits", "1 of 8 sectors random", "random"])
def test_a_line_takes_what_its_contents_allow(bench: Bench, name: str) -> None:
    written = bench.fill(contents()[name])
    assert bench.line_bytes() == pytest.approx(SIZES[name], rel=0.02)
    assert written == pytest.approx(SIZES[name], rel=0.05)


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(SIZES))
def test_a_line_takes_what_the_card_takes(bench: Bench, name: str) -> None:
    assert bench.line_bytes_of(name) == pytest.approx(SIZES[name], rel=0.02)


@pytest.mark.ci
def test_the_sizes_follow_from_the_times_of_the_cards_fills(bench: Bench) -> None:
    rows = json.loads(CARD.read_text())["compression"]["compressible"]["rows"]
    took = {name: median(row["fill"]) for name, row in rows.items()}
    quarter, half, whole = (took[name] for name in ("zeros", "12 bits", "random"))
    for name in contents():
        size = bench.line_bytes_of(name)
        low = size <= 64
        expected = quarter + (size - 32) / 32 * (half - quarter) if low else half + (size - 64) / 64 * (whole - half)
        assert took[name] == pytest.approx(expected, abs=0.25 * (whole - quarter)), name


def test_a_line_written_in_part_is_stored_as_it_is_until_it_is_written_whole(bench: Bench) -> None:
    zeros = contents()["zeros"]
    bench.fill(zeros)
    assert bench.line_bytes() == pytest.approx(32, rel=0.02)
    bench.poke(64)  # every other line
    assert bench.line_bytes() == pytest.approx(80, rel=0.05)
    bench.poke(32)
    assert bench.line_bytes() == pytest.approx(128, rel=0.02)
    bench.fill(zeros)
    assert bench.line_bytes() == pytest.approx(32, rel=0.02)


def test_memory_that_may_not_be_compressed_is_not() -> None:
    plain = Bench(compressible=False)
    plain.fill(contents()["zeros"])
    assert plain.line_bytes() == pytest.approx(128, rel=0.02)


def test_incompressible_contents_cost_nothing(bench: Bench) -> None:
    words = contents()["random"]
    plain = Bench(compressible=False)
    for one in (bench, plain):
        one.fill(words)
        one.read(one.other)
    ours, theirs = (one.read(one.data).cycles for one in (bench, plain))
    assert ours == pytest.approx(theirs, rel=0.02)

"""Errors of the hardware: codes, flipped words in memory and SMs, what the driver does about them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.errors import UnsupportedError
from warpwright.faults import DeviceFaults, Injection, InjectionError, UncorrectableEccError, parse_injections
from warpwright.faults.injection import Exposure
from warpwright.faults.particles import expected_strikes
from warpwright.faults.remapping import MOST_RETIRED_PAGES, PAGE_BYTES, SPARE_ROWS_PER_BANK, Row, RowRemapper
from warpwright.faults.secded import Verdict, code_of

SOURCE = """
extern "C" __global__ void tile(const float *x, float *y)
{
    __shared__ float kept[64];
    int n = blockIdx.x * 64 + threadIdx.x;
    kept[threadIdx.x] = x[n];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += kept[(threadIdx.x + i) & 63];
    y[n] = sum;
}
extern "C" __global__ void halves(unsigned short *y) { y[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void one(unsigned short *y) { if (threadIdx.x == 5) y[threadIdx.x] = 1; }
"""
BLOCKS = 4


class Bench:
    """A GPU with the kernel's arrays."""

    def __init__(self, chip: str = "a100", timing: str = "off") -> None:
        self.gpu = ww.GPU(chip, timing=timing)
        self.module = self.gpu.compile(SOURCE)
        self.values = np.arange(64 * BLOCKS, dtype=np.float32)
        self.x = self.gpu.array(self.values, name="x")
        self.y = self.gpu.zeros(64 * BLOCKS, np.float32, name="y")
        self.faults: DeviceFaults = self.gpu.faults

    def run(self) -> Any:
        self.module["tile"][BLOCKS, 64](self.x, self.y)
        return self.y.get()

    @property
    def right(self) -> Any:
        tiles = self.values.reshape(BLOCKS, 64)
        total = np.zeros_like(tiles)
        for i in range(8):
            total += np.roll(tiles, -i, axis=1)
        return total.reshape(-1)


@pytest.mark.parametrize("data_bits", [32, 64])
def test_every_single_flip_is_corrected_and_every_double_flip_detected(data_bits: int) -> None:
    code = code_of(data_bits)
    data = 0x9E3779B97F4A7C15 & (1 << data_bits) - 1
    word = code.encode(data)
    assert code.decode(word) == (Verdict.CLEAN, data)
    for one in range(code.bits):
        assert code.decode(word ^ 1 << one) == (Verdict.CORRECTED, data)
        for other in range(one):
            assert code.decode(word ^ 1 << one ^ 1 << other).verdict is Verdict.UNCORRECTABLE


@given(st.integers(0, 2**64 - 1), st.sets(st.integers(0, 71), max_size=2))
def test_codewords_of_any_data(data: int, flips: set[int]) -> None:
    code = code_of(64)
    decoded = code.decode(code.encode(data) ^ sum(1 << bit for bit in flips))
    assert decoded.verdict is (Verdict.CLEAN, Verdict.CORRECTED, Verdict.UNCORRECTABLE)[len(flips)]
    assert len(flips) == 2 or decoded.data == data


@pytest.mark.parametrize("structure", ["dram", "l2"])
def test_a_single_flip_in_memory_is_corrected_and_counted(structure: str) -> None:
    bench = Bench()
    bench.faults.inject(structure, bench.x.device_address() + 40, [70])
    assert (bench.run() == bench.right).all()
    assert bench.faults.log.volatile[structure].corrected == 1
    assert not bench.faults.upsets
    assert not bench.faults.log.xids


def test_a_double_flip_in_memory_ends_the_kernel_that_reads_it_and_says_which() -> None:
    bench = Bench()
    bench.faults.inject("dram", bench.x.device_address() + 8 * 40, [1, 2])
    with pytest.raises(
        UncorrectableEccError, match=r"uncorrectable ECC error in DRAM at .*\n  read by kernel tile, block \(1, 0, 0\)"
    ) as caught:
        bench.run()
    assert caught.value.contained
    assert [xid.number for xid in bench.faults.log.xids] == [48, 94, 63]
    assert bench.faults.remapper.counts() == (0, 1)
    assert bench.faults.log.total("uncorrectable") == 1


def test_memory_is_as_before_the_launch_after_a_corrected_read() -> None:
    """The run of blocks begins again: a kernel that adds to its output must not add twice."""
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile('extern "C" __global__ void add(const int *x, int *y) { y[threadIdx.x] += x[threadIdx.x]; }')[
        "add"
    ]
    x, y = gpu.array(np.arange(64, dtype=np.int32)), gpu.array(np.ones(64, np.int32))
    gpu.faults.inject("dram", x.device_address() + 248, [0])
    kernel[1, 64](x, y)
    assert (y.get() == 1 + np.arange(64)).all()


def test_a_write_of_the_whole_word_makes_it_right_again() -> None:
    bench = Bench()
    bench.faults.inject("l2", bench.y.device_address() + 8, [3, 4])
    assert (bench.run() == bench.right).all()
    assert (bench.faults.log.overwritten, bench.faults.log.total("uncorrectable")) == (1, 0)


def test_lanes_beside_each_other_write_a_word_together_and_one_alone_reads_it_first() -> None:
    bench = Bench()
    words = bench.gpu.zeros(64, np.uint16)
    bench.faults.inject("dram", words.device_address() + 8, [3, 4])
    bench.module["halves"][1, 64](words)
    assert (bench.faults.log.overwritten, bench.faults.log.total("uncorrectable")) == (1, 0)
    bench.faults.inject("dram", words.device_address() + 8, [3, 4])
    with pytest.raises(UncorrectableEccError):
        bench.module["one"][1, 64](words)


def test_a_copy_of_the_host_reads_and_writes_words_too() -> None:
    bench = Bench()
    bench.faults.inject("dram", bench.x.device_address(), [9])
    assert (bench.x.get() == bench.values).all()
    assert bench.faults.log.total("corrected") == 1
    bench.faults.inject("dram", bench.x.device_address(), [9, 10])
    with pytest.raises(UncorrectableEccError, match="read by a copy of the host"):
        bench.x.get()
    bench.x.set(bench.values)
    assert (bench.x.get() == bench.values).all()


def test_an_injection_waits_for_its_launch_and_block() -> None:
    bench = Bench()
    bench.faults.add([Injection("dram", (1, 2), 0, "x", launch=1, block=2)])
    assert (bench.run() == bench.right).all()
    assert (bench.run() == bench.right).all(), "word 0 is read by block 0, which has run before block 2"
    with pytest.raises(UncorrectableEccError):
        bench.run()
    with pytest.raises(InjectionError, match="launch 1 has begun: the next one is launch 3"):
        bench.faults.add([Injection("dram", (1,), 0, "x", launch=1)])


def strikes(structure: str, bits: tuple[int, ...]) -> st.SearchStrategy[Injection]:
    moment = st.integers(0, 40)
    if structure == "registers":
        return st.builds(
            lambda register, lane, warp, block, at: Injection("registers", bits, register, block=block, warp=warp, lane=lane, instruction=at),
            st.integers(0, 20), st.integers(0, 31), st.integers(0, 1), st.integers(0, BLOCKS - 1), moment,
        )  # fmt: skip
    return st.builds(
        lambda word, block, at: Injection("shared", bits, 4 * word, block=block, instruction=at),
        st.integers(0, 63), st.integers(0, BLOCKS - 1), moment,
    )  # fmt: skip


_bench: list[Bench] = []


def shared_bench() -> Bench:
    if not _bench:
        _bench.append(Bench())
    bench = _bench[0]
    bench.faults.upsets.clear()
    bench.faults.ecc = True
    bench.faults.launches = 0
    return bench


@pytest.mark.ci
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["registers", "shared"]).flatmap(lambda s: strikes(s, (17,))))
def test_single_flips_in_an_sm_never_change_a_result(injection: Injection) -> None:
    bench = shared_bench()
    bench.faults.add([injection])
    assert (bench.run() == bench.right).all()


@pytest.mark.ci
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["registers", "shared"]).flatmap(lambda s: strikes(s, (17, 30))))
def test_double_flips_in_an_sm_are_detected_or_never_read(injection: Injection) -> None:
    bench = shared_bench()
    bench.faults.add([injection])
    before = bench.faults.log.total("uncorrectable")
    met: UncorrectableEccError | None = None
    try:
        found = bench.run()
    except UncorrectableEccError as error:
        met = error
    if met is None:
        assert (found == bench.right).all()
        return
    assert f"kernel tile, block ({injection.block}, 0, 0)" in met.consumer
    assert met.structure == injection.structure
    assert bench.faults.log.total("uncorrectable") == before + 1


def test_without_ecc_a_flip_changes_the_result() -> None:
    bench = Bench()
    bench.faults.ecc = False
    bench.faults.inject("dram", bench.x.device_address() + 4 * 64, [30])
    assert (bench.run() != bench.right).sum() == 8, "eight threads of block 1 read it"
    assert bench.faults.log.total("corrected") == 0


def test_timed_launches_have_the_same_cycles_with_corrected_flips() -> None:
    bench = Bench(timing="full")
    bench.run()
    cycles = bench.gpu.launches[-1].cycles
    bench.faults.inject("dram", bench.x.device_address(), [9])
    assert (bench.run() == bench.right).all()
    assert bench.gpu.launches[-1].cycles == cycles
    bench.faults.ecc = False
    bench.faults.add([Injection("registers", (3,), 4, launch=bench.faults.launches)])
    with pytest.raises(UnsupportedError, match="without timing"):
        bench.run()


def test_a_failed_page_gets_no_new_allocation_until_the_reset() -> None:
    bench = Bench()
    address = bench.x.device_address()
    bench.faults.inject("dram", address, [1, 2])
    with pytest.raises(UncorrectableEccError):
        bench.run()
    with pytest.raises(InjectionError, match="in use"):
        bench.faults.reset()
    bench.x.free()
    bench.y.free()
    page = (address - bench.gpu.memory.base) // PAGE_BYTES
    other = bench.gpu.zeros(4, np.float32)
    assert (other.device_address() - bench.gpu.memory.base) // PAGE_BYTES != page
    other.free()
    bench.faults.reset()
    assert bench.gpu.zeros(4, np.float32).device_address() == address
    assert bench.faults.remapper.counts() == (0, 1), "recorded for good"
    assert not bench.faults.remapper.pending


def test_rows_are_replaced_while_their_bank_has_spare_ones() -> None:
    rows = RowRemapper()
    assert rows.record(Row(0, 0, 99), "corrected")
    for n in range(SPARE_ROWS_PER_BANK):
        assert rows.record(Row(0, 0, n), "uncorrectable"), "the one for corrected errors gives way"
    assert not rows.record(Row(0, 0, 50), "uncorrectable")
    assert rows.failed
    assert rows.record(Row(0, 1, 50), "uncorrectable")
    assert rows.counts() == (0, SPARE_ROWS_PER_BANK + 1)
    histogram = rows.histogram(load_chip("a100"))
    assert (histogram["none"], histogram["high"], sum(histogram.values())) == (1, 1, 80 * 16)


def test_volta_retires_pages_and_contains_nothing() -> None:
    bench = Bench("v100")
    for _ in range(2):
        bench.faults.inject("dram", bench.x.device_address(), [5])
        assert (bench.run() == bench.right).all()
    assert list(bench.faults.retired.pages.values()) == ["corrected"]
    bench.faults.inject("dram", bench.x.device_address(), [5, 6])
    with pytest.raises(UncorrectableEccError, match="v100 cannot contain it: all its contexts end") as caught:
        bench.run()
    assert not caught.value.contained
    for page in range(1, MOST_RETIRED_PAGES + 1):
        assert bench.faults.retired.retire(page * PAGE_BYTES, "uncorrectable")
    assert not bench.faults.retired.retire((MOST_RETIRED_PAGES + 1) * PAGE_BYTES, "uncorrectable")


def test_injections_are_read_from_text() -> None:
    assert parse_injections("dram@x+128:3+17,launch=2,block=40; registers@R5:31,warp=1,lane=7,instruction=120") == [
        Injection("dram", (3, 17), 128, "x", launch=2, block=40),
        Injection("registers", (31,), 5, warp=1, lane=7, instruction=120),
    ]
    assert parse_injections("particles@flux=13,hours=2,seed=4") == [
        Exposure("particles", {"flux": 13.0, "hours": 2.0}, 4)
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no injection is named"),
        ("cache@0x0:1", "must begin with one of dram@"),
        ("dran@x+16:3", "did you mean 'dram@'?"),
        ("dram@0x10", r"names no bits: write dram@0x10:BIT, or dram@0x10:BIT\+BIT for several bits"),
        ("dram@", "names no bits: write dram@ADDRESS:BIT"),
        ("registers@", "names no bits: write registers@R5:BIT"),
        ("l2@:5", "names no place: write l2@ADDRESS:BIT"),
        ("dram@0x10:72", "a word has bits 0 to 71"),
        ("shared@0x10:39", "a word has bits 0 to 38"),
        ("dram@0x10:1,when=3", "one of launch="),
        ("registers@X:1", "a register is R0 to R254"),
        ("rate@dram=much", "dram is a number, not 'much'"),
        ("registers@R5:1,lane=77", "a warp has no lane 77"),
        ("dram@0x10:3+3", "bits 3, 3 of dram"),
    ],
)
def test_what_is_wrong_with_an_injection_is_said(text: str, message: str) -> None:
    with pytest.raises(InjectionError, match=message):
        parse_injections(text)


def test_places_that_a_launch_does_not_have_are_refused() -> None:
    for injection, message in (
        (Injection("dram", (1,), 0, "z"), "no array is called 'z'; allocated are: array 'x', array 'y'"),
        (Injection("registers", (1,), 3, block=BLOCKS), "the launch has blocks 0 to 3"),
        (Injection("registers", (1,), 3, instruction=10**6), "was never reached"),
        (Injection("shared", (1,), 1 << 20), "bytes of shared memory"),
    ):
        bench = shared_bench()
        bench.faults.add([injection])
        with pytest.raises(InjectionError, match=message):
            bench.run()


def test_strikes_follow_flux_time_and_bits() -> None:
    once = expected_strikes(Exposure("particles", {"flux": 13, "hours": 1e6}), "l2", 1000)
    assert expected_strikes(Exposure("particles", {"flux": 26, "hours": 1e6}), "l2", 1000) == pytest.approx(2 * once)
    assert expected_strikes(
        Exposure("rate", {"dram": 1.0, "seconds": 3600e9}), "dram", (1 << 20) // 72
    ) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.ci
def test_particles_strike_the_same_words_with_the_same_seed() -> None:
    seen = []
    for _ in range(2):
        bench = Bench()
        bench.faults.add(
            parse_injections("particles@flux=1e9,hours=20,registers_cm2=1e-15,shared_cm2=1e-14,dram_cm2=1e-14,seed=3")
        )
        try:
            assert (bench.run() == bench.right).all()
        except UncorrectableEccError as error:
            seen.append(str(error))
        seen.append(repr(bench.faults.log))
    half = len(seen) // 2
    assert seen[:half] == seen[half:]
    assert "overwritten=0" not in seen[0], "somebody was struck"


def seeded(seed: int, bits: int) -> Injection:
    """An injection into any structure; those into memory are of words that the kernel reads."""
    random = np.random.default_rng([bits, seed])
    structure = ("dram", "l2", "registers", "shared")[seed % 4]
    width = 72 if structure in ("dram", "l2") else 39
    flips = tuple(sorted(int(bit) for bit in random.choice(width, bits, replace=False)))
    block = int(random.integers(BLOCKS))
    if structure in ("dram", "l2"):
        return Injection(structure, flips, 8 * int(random.integers(32 * BLOCKS)), "x")
    moment = int(random.integers(40))
    if structure == "registers":
        register, lane, warp = (int(random.integers(most)) for most in (20, 32, 2))
        return Injection("registers", flips, register, block=block, warp=warp, lane=lane, instruction=moment)
    return Injection("shared", flips, 4 * int(random.integers(64)), block=block, instruction=moment)


@pytest.mark.slow
def test_ten_thousand_single_flips_are_corrected_with_no_wrong_result() -> None:
    bench = shared_bench()
    before, in_memory = bench.faults.log.total("corrected"), 0
    for seed in range(10_000):
        bench.faults.launches = 0
        injection = seeded(seed, 1)
        bench.faults.add([injection])
        assert (bench.run() == bench.right).all(), injection
        in_memory += injection.structure in ("dram", "l2")
    corrected = bench.faults.log.total("corrected") - before
    assert corrected >= in_memory == 5_000, "every word of memory was read"
    assert bench.faults.log.total("uncorrectable") == 0


@pytest.mark.slow
def test_a_thousand_double_flips_are_detected_and_attributed() -> None:
    bench = shared_bench()
    detected = unread = 0
    for seed in range(1_000):
        bench.faults.launches = 0
        bench.faults.upsets.clear()
        bench.x.set(bench.values)
        injection = seeded(seed, 2)
        bench.faults.add([injection])
        met: UncorrectableEccError | None = None
        try:
            found = bench.run()
        except UncorrectableEccError as error:
            met = error
        if met is None:
            assert injection.structure in ("registers", "shared"), injection
            assert (found == bench.right).all(), injection
            unread += 1
            continue
        detected += 1
        in_memory = injection.structure in ("dram", "l2")
        block = injection.address // 256 if in_memory else injection.block
        assert met.structure == injection.structure
        assert f"kernel tile, block ({block}, 0, 0)" in met.consumer
        assert bench.faults.log.xids[-1].number in (63, 64, 94)
    assert detected >= 500
    assert detected + unread == 1_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dram@x+16:3,launch=2", "was not applied: launches count from 0, and the program made launches 0 to 1"),
        ("dram@0x{free:x}:3", "hit nothing: no allocation contained 0x{free:x}"),
        ("registers@R200:3,instruction=2", "hit nothing: tile has registers R0 to R"),
    ],
)
def test_an_injection_that_has_no_effect_is_reported_with_the_reason(text: str, reason: str) -> None:
    bench = Bench()
    free = bench.x.device_address() + (1 << 30)
    bench.faults.add(parse_injections(text.format(free=free)))
    for _ in range(2):
        assert (bench.run() == bench.right).all()
    said, *rest = bench.faults.summary()
    assert said.startswith(f"{text.split(':')[0].split('@')[0]}@")
    assert reason.format(free=free) in said
    assert rest == ["no error was met"]


def test_an_injection_beyond_its_array_is_refused() -> None:
    bench = Bench()
    bench.faults.add(parse_injections("dram@x+1024:3"))
    with pytest.raises(InjectionError, match=r"dram@x\+1024:3,launch=0,block=0: 'x' has 1,024 bytes, from 0 to 1023"):
        bench.run()


def test_an_applied_injection_is_not_reported_as_missed() -> None:
    bench = Bench()
    bench.faults.add(parse_injections("dram@x+16:3,launch=1"))
    for _ in range(2):
        bench.run()
    assert bench.faults.summary() == ["dram: 1 corrected, 0 uncorrectable"]


def test_the_command_reports_an_injection_that_is_not_applied(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import warpwright as ww\nww.GPU('a100', timing='off')\n")
    run = [sys.executable, "-m", "warpwright", "run", "--inject", "dram@x:3", str(program)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (
        "a100: dram@x+0:3,launch=0,block=0 was not applied: launches count from 0, and the program made no launch"
        in done.stderr
    )

"""What a chip file may say: every hole is refused with a sentence before anything runs, and what is accepted runs rightly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import warpwright as ww
from tests.chip_files import run_kernel
from warpwright.chips import ChipError, chip_files, chip_names, load_chip
from warpwright.chips.chip import fields, sections
from warpwright.chips.limits import field_range
from warpwright.errors import LaunchError
from warpwright.timing import buffer_reuse

NOWHERE = object()
entries = chip_files._entries


def refusal(tmp_path: Path, text: str, base: str = "a100") -> str:
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "{base}"\n{text}\n')
    with pytest.raises(ChipError) as caught:
        load_chip(str(path))
    return str(caught.value).replace(str(path), "mine.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "sub_core_count = 2\nmax_warps_per_sm = 63",
            "chip 'mine': max_warps_per_sm = 63 must be a multiple of sub_core_count = 2 and at most 64: a sub-core has "
            "16 warp slots (of mine.toml)",
        ),
        (
            "sub_core_count = 3",
            "chip 'mine': max_warps_per_sm = 64 must be a multiple of sub_core_count = 3 and at most 48: a sub-core has "
            "16 warp slots (of mine.toml)",
        ),
        ("sm_count = 100000", "field 'sm_count' of chip 'mine' must be 1 to 512, not 100000 ([sm] of mine.toml)"),
        ("l2_kib = 999999999", "field 'l2_kib' of chip 'mine' must be 1 to 349,525, not 999999999 ([l2] of mine.toml)"),
        ("l1_kib = 1", "field 'l1_kib' of chip 'mine' must be 8 to 1,024, not 1 ([shared] of mine.toml)"),
        (
            "l2_kib = 1",
            "chip 'mine': l2_kib = 1 must be whole sets: l2_slice_count = 80 slices with sets of l2_ways = 16 lines of 128 "
            "bytes, which are 160 KiB or a multiple of it (of mine.toml)",
        ),
        (
            "l2_ways = 7",
            "chip 'mine': l2_kib = 40,960 must be whole sets: l2_slice_count = 80 slices with sets of l2_ways = 7 lines of "
            "128 bytes, which are 70 KiB or a multiple of it (of mine.toml)",
        ),
        ("[l2]\nsm_count = 110", "field 'sm_count' of chip 'mine' belongs to [sm], not to [l2] (of mine.toml)"),
        (
            "sm_coutn = 110",
            "chip 'mine' has no field 'sm_coutn'; did you mean 'sm_count' or 'tpc_sm_count' or 'gpc_sm_counts'? (of "
            "mine.toml)",
        ),
        (
            "[l2]\nl2_way = 8",
            "chip 'mine' has no field 'l2_way' in [l2]; did you mean 'l2_ways' or 'l1_ways' or 'l2_dirty_ways'? (of mine.toml)",
        ),
        ("[drams]\nx = 1", "chip 'mine' has no section 'drams'; did you mean 'dram'? (of mine.toml)"),
        ("dram = 1", "[dram] of chip 'mine' must be a table of fields, not 1 (of mine.toml)"),
        (
            'compute_capability = "12.0"',
            "chip 'mine': compute_capability = '12.0' must be one of 1.0, 1.1, 1.2, 1.3, 2.0, 6.0, 6.1, 6.2, 7.0, 7.2, 7.5, 8.0, 8.6, 8.7, 8.9, 9.0 (of "
            "mine.toml)",
        ),
        (
            'compute_capability = "6.0"',
            "chip 'mine': instruction_bytes = 16 must be 8, the size of an instruction of compute_capability = '6.0' (of "
            "mine.toml)",
        ),
        (
            'compute_capability = "9.0"',
            "chip 'mine': cluster_sm_counts and max_cluster_blocks_per_sm must be given: chips of compute_capability = '9.0' "
            "have thread block clusters (of mine.toml)",
        ),
        (
            "sm_clock_mhz = inf",
            "field 'sm_clock_mhz' of chip 'mine' must be 100 to 10,000, not inf ([clocks] of mine.toml)",
        ),
        (
            "dram_gb_per_s = nan",
            "field 'dram_gb_per_s' of chip 'mine' must be 1 to 1,000,000, not nan ([dram] of mine.toml)",
        ),
        (
            "dram_latency_cycles = 200",
            "chip 'mine': dram_latency_cycles = 200 must be at least 219: l2_hit_latency_cycles is 219 (of mine.toml)",
        ),
        ("gpc_sm_counts = []", "chip 'mine': gpc_sm_counts names 0 GPCs: the model has 1 to 16 (of mine.toml)"),
        (
            "gpc_l2_partitions = [0, 0, 0, 0, 1, 1, 2]",
            "chip 'mine': gpc_l2_partitions = [0, 0, 0, 0, 1, 1, 2] must be 0 to 1: l2_partition_count is 2 (of mine.toml)",
        ),
        (
            "shared_max_per_block_kib = 164",
            "chip 'mine': shared_max_per_block_kib = 164 with shared_reserved_bytes_per_block = 1,024 must fit the largest of "
            "shared_carveout_kib, 164 (of mine.toml)",
        ),
        (
            "constant_line_bytes = 96",
            "chip 'mine': constant_block_bytes = 256 must be a multiple of constant_line_bytes = 96 (of mine.toml)",
        ),
        (
            "icache_line_bytes = 96",
            "chip 'mine': icache_line_bytes = 96 must be a power of two: 64 or 128 (of mine.toml)",
        ),
        (
            "dram_bank_refresh_ns = 3900.0",
            "chip 'mine': dram_bank_refresh_ns = 3900 must be below dram_bank_refresh_interval_ns = 3900 (of mine.toml)",
        ),
        (
            "tensor_read_cycles = [1, 63]",
            "chip 'mine': tensor_read_cycles = [1, 63] must rise from 0 or more to at most 62 (of mine.toml)",
        ),
        ("[sources]\nx = 1", "[sources] of chip file 'mine.toml' must be a table of texts, not {'x': 1}"),
    ],
)
def test_a_hole_is_refused_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text) == said


def test_a_file_may_not_be_its_own_base(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(f'base = "{tmp_path / "mine.toml"}"\n')
    assert refusal(tmp_path, "", str(tmp_path / "other.toml")).endswith("'mine.toml' is a base of itself")


def test_a_file_without_base_must_name_every_field(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("sm_count = 3\n")
    for overrides in ({}, {"sm_count": 4}, {"l1_kib": 64}):
        with pytest.raises(
            ChipError, match=r"^chip 'mine' lacks the field 'product' \(\[identity\] of .*\); to change a few numbers"
        ):
            load_chip(str(path), **overrides)


def test_a_base_is_read_once_and_not_changed_by_the_files_that_are_based_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_chip("a100", sm_count=100)
    path = tmp_path / "mine.toml"
    path.write_text('base = "a100"\nsm_count = 40\nl2_ways = 8\nl2_kib = 20480\n')
    opened = []
    monkeypatch.setattr(chip_files, "_entries", lambda *entry: opened.append(entry[0]) or entries(*entry))
    changed = load_chip(str(path))
    again = load_chip("a100", l1_kib=128)
    assert set(opened) == {"mine"}
    assert (changed.sm.sm_count, changed.kind("sm_count"), changed.kind("l2_ways")) == (40, "set", "set")
    own = load_chip("a100")
    assert (again.sm, again.l2, again.kind("sm_count")) == (own.sm, own.l2, own.kind("sm_count"))
    assert again.sources["l2_ways"] == own.sources["l2_ways"]


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"base = ", b'base = "../a100"', b"base = 3"])
def test_what_is_no_chip_file_is_a_sentence(bad: bytes, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(bad)
    with pytest.raises(ChipError):
        load_chip(str(path))
    for name in ("", "../chips/a100", "\0.toml", "/"):
        with pytest.raises(ChipError):
            load_chip(name)


def test_every_number_has_a_least_and_a_most() -> None:
    h200 = load_chip("h200")
    chips = [load_chip(name) for name in chip_names()]
    for field, section in fields().items():
        limits = field_range(field, sections()[section].model_fields[field])
        if limits is None:
            continue
        assert -20_000 <= limits[0] < limits[1] < 1 << 31, field
        assert all(limits[0] <= chip.get(field) <= limits[1] for chip in chips), field
        for beyond in (limits[0] - 1, limits[1] + 1):
            with pytest.raises(ChipError, match=f"^field '{field}' of chip 'h200' must be "):
                load_chip(h200, **{field: type(h200.get(field))(beyond)})


@pytest.mark.parametrize(
    ("name", "value"), [("sub_core_count", 3), ("sm_count", 100000), ("l2_ways", 7), ("sm_coutn", 3)]
)
def test_overrides_are_checked_as_files_are(name: str, value: int) -> None:
    with pytest.raises(ChipError):
        ww.GPU("a100", **{name: value})
    with pytest.raises(ChipError):
        load_chip(load_chip("a100"), **{name: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"sub_core_count": 2, "max_warps_per_sm": 32},
        {"sub_core_count": 3, "max_warps_per_sm": 48},
        {"sub_core_count": 1, "max_warps_per_sm": 16, "max_threads_per_block": 512},
        {"sm_count": 512},
        {"sm_count": 1},
        {"l1_kib": 8},
        {"l1_kib": 1024},
        {"l2_kib": 80 * 128 * 16 // 1024},
        {"l2_kib": 348_160},
        {"l2_slice_count": 2, "l2_kib": 4096},
        {"l2_partition_count": 1},
        {"l2_hit_latency_cycles": 1024, "dram_latency_cycles": 10_000},
        {"l2_hit_latency_cycles": 16, "dram_latency_cycles": 16},
        {"dram_gb_per_s": 1.0},
        {"sm_clock_mhz": 100},
        {"sm_clock_mhz": 10_000},
    ],
    ids=str,
)
def test_a_chip_at_its_limits_runs_rightly(changes: dict[str, int]) -> None:
    run_kernel(load_chip("a100", **changes))


def test_a_chip_whose_blocks_do_not_fit_names_what_lacks() -> None:
    gpu = ww.GPU("a100", timing="off", named_barriers_per_sm_count=1, registers_per_sm=4096)
    with pytest.raises(LaunchError, match=r"does not fit a100: an SM has 4,096 registers"):
        gpu.compile("extern __shared__ int s[]; __global__ void k() {}")["k"][1, 1024]()


def test_memory_that_the_machine_does_not_have_is_refused_before_it_is_taken() -> None:
    with pytest.raises(LaunchError, match=r"^timing this launch takes 7450580.6 GiB of memory, this machine has "):
        buffer_reuse.take("test of too much", 10**15)


def tried(first: int, count: int, every: int, seconds: int) -> list[str]:
    """What each of these seeds came to; a crash or a traceback of the process that tries them is a failure here."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "tests.chip_files", *map(str, (first, count, every))],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        text=True,
        capture_output=True,
        timeout=seconds,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"exit code {done.returncode} after: {lines[-1:]}\n{done.stderr[-3000:]}"
    assert len(lines) == count
    return lines


@pytest.mark.ci
def test_random_chip_files_run_or_are_refused() -> None:
    found = tried(0, 150, 5, 500)
    assert sum(line.endswith(" ran") for line in found) > 5
    assert sum("refused: " in line for line in found) > 30


@pytest.mark.slow
def test_a_hundred_thousand_random_chip_files_run_or_are_refused() -> None:
    for first in range(1000, 101_000, 5000):
        tried(first, 5000, 20, 3600)

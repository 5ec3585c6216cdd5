"""Chip files: every number has a unit and a source, names are unique, and mistakes are explained word for word."""

import re
from pathlib import Path

import pytest

from warpwright.chips import Chip, ChipError, OccupancyError, chip_names, describe, kind_counts, load_chip, occupancy
from warpwright.chips.chip import fields, sections
from warpwright.chips.kinds import KINDS
from warpwright.chips.sections import COALESCING
from warpwright.engine.geometry import clusters_at_once

UNITS = (
    *(
        "_bits",
        "_count",
        "_counts",
        "_partitions",
        "_cycles",
        "_mhz",
        "_us",
        "_kib",
        "_bytes",
        "_lanes",
        "_entries",
        "_ways",
        "_ns",
        "_warps",
        "_registers",
    ),
    *(
        "_percent",
        "_per_clk",
        "_gb_per_s",
        "_lines",
        "_bursts",
        "_bytes_per_block",
        "_per_sm",
        "_per_block",
        "_per_thread",
    ),
)
CHIPS = ["a100", "fx5600", "g80", "g80-ultra", "g92", "gtx480", "h200", "hd5870", "hd6970", "p100", "v100"]


def test_the_package_has_its_chips() -> None:
    assert chip_names() == CHIPS


@pytest.mark.parametrize("name", CHIPS)
def test_every_number_has_a_source_in_a_named_document(name: str) -> None:
    chip = load_chip(name)
    for row in describe(chip):
        if row.section == "identity":
            continue
        assert row.source, row.field
        assert row.source.split(":")[0].split()[0] in chip.documents, (row.field, row.source)


@pytest.mark.parametrize("name", CHIPS)
def test_every_number_of_a_built_in_chip_says_how_it_is_known(name: str) -> None:
    chip = load_chip(name)
    optional = () if name in ("g80", "g80-ultra", "fx5600", "g92") else ("texture", "graphics")
    optional += () if name in ("v100", "a100") else ("engines",)
    assert set(chip.kinds) == {field for field, section in fields().items() if section not in ("identity", *optional)}
    for field, kind in chip.kinds.items():
        assert kind in KINDS, field
        assert kind != "set", field
        assert chip.kind(field) == kind
        assert chip.source(field) == chip.sources[field]
        document = chip.source(field).split(":")[0]
        # This project's card is an H200: what it shows of another chip is borrowed, and a choice is not evidence.
        if kind == "measured":
            assert (name, document) == ("h200", "card"), field
        if document == "card":
            assert kind in (("measured", "fitted", "assumed") if name == "h200" else ("borrowed", "fitted")), field
        if document == "model":
            assert kind not in ("measured", "published"), field
        if re.search(r"\b(on|in) (an )?H200", chip.source(field)) and name != "h200":
            assert kind in ("borrowed", "fitted", "assumed"), field
    assert kind_counts(chip) == {kind: n for kind in KINDS if (n := list(chip.kinds.values()).count(kind))}
    assert (chip.kind("product"), chip.source("product")) == ("published", "")


def test_what_a_chip_inherits_is_borrowed_and_what_the_user_gives_is_set(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'base = "h200"\nsm_clock_mhz = 1500\n[l2]\nl2_kib = { published = 30720, source = "sheet: table 2" }\n'
        'l2_fetch_bytes = { value = 32, source = "sheet: table 3" }\n[sources]\nsheet = "A data sheet"\n'
    )
    chip = load_chip(str(path))
    known = {name: chip.kind(name) for name in ("sm_clock_mhz", "l2_kib", "l2_fetch_bytes", "l1_hit_latency_cycles")}
    assert known == {
        "sm_clock_mhz": "set",
        "l2_kib": "published",
        "l2_fetch_bytes": "set",
        "l1_hit_latency_cycles": "borrowed",
    }
    assert load_chip("h200").kind("l1_hit_latency_cycles") == "measured"
    assert chip.kind("l1_ways") == "assumed", "what nobody knew of the base is no better known here"
    # An override changes one number of the same chip: the others are known as before.
    changed = load_chip("h200", sm_count=64)
    assert (changed.kind("sm_count"), changed.kind("gpc_sm_counts")) == ("set", "set")
    assert changed.kind("l1_hit_latency_cycles") == "measured"
    with pytest.raises(ChipError, match="has no field 'l2_mib'"):
        chip.kind("l2_mib")


@pytest.mark.parametrize("name", CHIPS)
def test_every_named_document_is_used(name: str) -> None:
    chip = load_chip(name)
    text = " ".join(chip.sources.values())
    for document in chip.documents:
        assert re.search(rf"\b{document}\b", text), document


def test_every_numeric_field_carries_its_unit() -> None:
    answers = {row.field for row in describe(load_chip("h200")) if row.value in ("True", "False", *COALESCING)}
    for field, section in fields().items():
        if section != "identity" and field not in answers:
            assert field.endswith(UNITS), field


def test_field_names_are_unique_over_sections() -> None:
    names = [field for model in sections().values() for field in model.model_fields]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "arch", "sm_count", "l1_kib", "l2_kib", "bandwidth"),
    [("v100", 70, 80, 128, 6144, 900.0), ("a100", 80, 108, 192, 40960, 1555.0)],
)
def test_identity_agrees_with_the_whitepaper(
    name: str, arch: int, sm_count: int, l1_kib: int, l2_kib: int, bandwidth: float
) -> None:
    chip = load_chip(name)
    assert (chip.arch, chip.get("sm_count"), chip.get("l1_kib")) == (arch, sm_count, l1_kib)
    assert (chip.get("l2_kib"), chip.get("dram_gb_per_s")) == (l2_kib, bandwidth)
    assert sum(chip.sm.gpc_sm_counts) == sm_count


@pytest.mark.parametrize(("name", "teraflops"), [("v100", 15.7), ("a100", 19.5), ("h200", 66.9)])
def test_fp32_peak_follows_from_lanes_and_clock(name: str, teraflops: float) -> None:
    chip = load_chip(name)
    lanes = (chip.pipes.fma_heavy_lanes + chip.pipes.fma_lite_lanes) * chip.sm.sub_core_count * chip.sm.sm_count
    assert 2e-6 * lanes * chip.clocks.sm_clock_mhz == pytest.approx(teraflops, rel=0.01)


@pytest.mark.parametrize(("name", "teraflops"), [("v100", 125), ("a100", 312), ("h200", 989)])
def test_tensor_peak_follows_from_width_and_clock(name: str, teraflops: float) -> None:
    chip = load_chip(name)
    rate = chip.pipes.tensor_fp16_fma_per_clk * chip.sm.sub_core_count * chip.sm.sm_count
    # H100's 989 TFLOPS are stated at 1830 MHz, below the maximum clock.
    clock = 1830 if name == "h200" else chip.clocks.sm_clock_mhz
    assert 2e-6 * rate * clock == pytest.approx(teraflops, rel=0.01)


def test_override_by_plain_field_name() -> None:
    chip = load_chip("v100", l1_kib=192, dram_gb_per_s=1000)
    assert chip.shared.l1_kib == 192
    assert chip.dram.dram_gb_per_s == 1000.0
    assert chip.sources["l1_kib"] == "override"
    assert load_chip(chip, sm_count=40).get("l1_kib") == 192


def test_dependent_fields_follow_an_override() -> None:
    chip = load_chip("v100", sm_count=10)
    assert sum(chip.sm.gpc_sm_counts) == 10
    small = load_chip("v100", l1_kib=64)
    assert small.shared.shared_carveout_kib == [0, 8, 16, 32, 64]
    assert small.shared.shared_max_per_block_kib == 64


def test_a_file_inherits_from_its_base(tmp_path: Path) -> None:
    path = tmp_path / "wide.toml"
    path.write_text(
        'base = "v100"\nname = "v100-wide"\nl2_kib = 12288\n[dram]\ndram_gb_per_s = { value = 1800.0, source = "model: a what-if" }\n'
    )
    chip = load_chip(str(path))
    assert isinstance(chip, Chip)
    assert (chip.name, chip.l2.l2_kib, chip.dram.dram_gb_per_s, chip.sm.sm_count) == ("v100-wide", 12288, 1800.0, 80)
    assert chip.sources["dram_gb_per_s"] == "model: a what-if"


def test_dependent_fields_follow_a_file_that_changes_its_base(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text('base = "v100"\nsm_count = 10\nl1_kib = 64\n')
    chip = load_chip(str(path))
    assert sum(chip.sm.gpc_sm_counts) == 10
    assert chip.shared.shared_carveout_kib == [0, 8, 16, 32, 64]
    path.write_text('base = "v100"\nsm_count = 10\ngpc_sm_counts = [4, 4]\n')
    with pytest.raises(ChipError, match="gpc_sm_counts add up to 8 SMs, but sm_count is 10"):
        load_chip(str(path))


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        (
            "v10",
            {},
            "no chip is called 'v10'; did you mean 'v100' or 'p100' or 'a100'? known chips: a100, fx5600, g80, g80-ultra, g92, gtx480, h200, hd5870, hd6970, p100, v100",
        ),
        (
            "zz",
            {},
            "no chip is called 'zz'; known chips: a100, fx5600, g80, g80-ultra, g92, gtx480, h200, hd5870, hd6970, p100, v100",
        ),
        (
            "v100",
            {"l1_kb": 3},
            "chip 'v100' has no field 'l1_kb'; did you mean 'l1_kib' or 'l2_kib' or 'l1_icache_kib'?",
        ),
        ("v100", {"l1_kib": "big"}, "field 'l1_kib' of chip 'v100' must be a whole number, not 'big' ([shared])"),
        (
            "v100",
            {"shared_bank_count": 64},
            "field 'shared_bank_count' of chip 'v100' must be 16 or 32, not 64 ([shared])",
        ),
        ("v100", {"sm_count": 0}, "field 'sm_count' of chip 'v100' must be 1 to 512, not 0 ([sm])"),
        ("v100", {"gpc_sm_counts": [40]}, "chip 'v100': gpc_sm_counts add up to 40 SMs, but sm_count is 80"),
        ("h200", {"gpc_tlb_ways": 12}, "chip 'h200': gpc_tlb_page_count = 128 must be a multiple of gpc_tlb_ways = 12"),
        ("gone.toml", {}, "chip file 'gone.toml' does not exist"),
    ],
)
def test_mistakes_are_explained(name: str, overrides: dict[str, object], message: str) -> None:
    with pytest.raises(ChipError) as error:
        load_chip(name, **overrides)
    assert str(error.value) == message


def test_a_number_without_source_in_a_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('base = "v100"\n[l2]\nl2_kib = { value = 1 }\n')
    with pytest.raises(
        ChipError, match=re.escape("field 'l2_kib' of chip 'bad' must be { KIND = …, source = \"…\" }, where KIND is")
    ):
        load_chip(str(path))


def test_a_kind_that_there_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('base = "v100"\n[l2]\nl2_kib = { guessed = 6144, source = "model: x" }\n')
    with pytest.raises(ChipError, match="one of measured, published, derived, borrowed, fitted, assumed, set"):
        load_chip(str(path))


@pytest.mark.parametrize(
    ("chip", "threads", "registers", "shared", "blocks", "limiter"),
    [
        ("v100", 1024, 32, 0, 2, "warps"),
        ("v100", 32, 16, 0, 32, "blocks"),
        ("v100", 256, 64, 0, 4, "registers"),
        ("v100", 256, 65, 0, 3, "registers"),  # 65 registers round up to 72
        ("v100", 128, 32, 48 * 1024, 2, "shared memory"),
        ("a100", 128, 32, 48 * 1024, 3, "shared memory"),  # 49 KiB with the system's 1 KiB
        ("h200", 128, 32, 227 * 1024, 1, "shared memory"),
        ("h200", 1024, 64, 0, 1, "registers"),
        # cuOccupancyMaxActiveBlocksPerMultiprocessor on an H200.
        ("h200", 64, 24, 0, 32, "warps"),
        ("h200", 64, 34, 0, 24, "registers"),
        ("h200", 64, 40, 0, 24, "registers"),
        ("h200", 192, 47, 0, 6, "registers"),
        ("h200", 128, 52, 12288, 9, "registers"),
    ],
)
def test_occupancy_and_its_limiter(
    chip: str, threads: int, registers: int, shared: int, blocks: int, limiter: str
) -> None:
    result = occupancy(load_chip(chip), threads, registers, shared)
    assert (result.blocks_per_sm, result.limiter) == (blocks, limiter)


@pytest.mark.parametrize(
    ("threads", "shared", "clusters"),
    [
        (32, 0, {1: 1056, 2: 528, 4: 248, 8: 124, 16: 58}),
        (128, 100_000, {1: 264, 2: 132, 4: 62, 8: 30, 16: 14}),
        (512, 0, {1: 528, 2: 264, 4: 124, 8: 62, 16: 28}),
        (1024, 0, {1: 264, 2: 132, 4: 62, 8: 30, 16: 14}),
    ],
)
def test_clusters_at_once_are_those_of_an_h200(threads: int, shared: int, clusters: dict[int, int]) -> None:
    """cuOccupancyMaxActiveClusters on an H200, for a kernel of 16 registers."""
    chip = load_chip("h200")
    resident = occupancy(chip, threads, 16, shared, clustered=True).blocks_per_sm
    assert {blocks: clusters_at_once(blocks, resident, chip) for blocks in clusters} == clusters


def test_carve_out_is_the_smallest_step_that_holds_the_blocks() -> None:
    assert occupancy(load_chip("v100"), 1024, 32, 0).shared_kib == 0
    assert occupancy(load_chip("v100"), 1024, 32, 4096).shared_kib == 8
    assert occupancy(load_chip("v100"), 1024, 32, 4097).shared_kib == 16
    assert occupancy(load_chip("a100"), 1024, 32, 48 * 1024).l1_kib == 92


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "message"),
    [
        (1025, 32, 0, "a block of 1,025 threads does not fit v100: a block has 1 to 1,024 threads"),
        (32, 32, 98305, "98,305 bytes of shared memory do not fit v100: a block has at most 98,304 bytes"),
        (32, 256, 0, "256 registers per thread do not fit v100: a thread has at most 255"),
        (
            1024,
            128,
            0,
            "a block of 1,024 threads with 128 registers each does not fit v100: an SM has 65,536 registers",
        ),
    ],
)
def test_a_block_that_cannot_run_is_refused(threads: int, registers: int, shared: int, message: str) -> None:
    with pytest.raises(OccupancyError) as error:
        occupancy(load_chip("v100"), threads, registers, shared)
    assert str(error.value) == message

"""AMD published no latencies of Cypress and Cayman: chip files, reports and studies say beside such numbers that they are not anchored."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.chips.chip import fields
from warpwright.chips.chip_files import tomllib
from warpwright.studies.catalogue import STUDIES
from warpwright.tools.report.launch_sections import source_of

CHIPS = ("hd5870", "hd6970")
LATENCIES = [name for name in fields() if name.endswith("_latency_cycles")]
PUBLISHED = {"alu_latency_cycles": 8, "global_share_latency_cycles": 25}
"""The only ones: a bundle's eight cycles, and the 25 of global data share."""
STORE = """
.version 7.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 out) {
    .reg .u64 %p; .reg .u32 %r;
    ld.param.u64 %p, [out];
    ld.global.u32 %r, [%p];
    add.u32 %r, %r, 1;
    st.global.u32 [%p], %r;
    ret;
}
"""


@pytest.mark.parametrize("chip", CHIPS)
def test_no_latency_counts_as_known_but_the_two_that_were_published(chip: str) -> None:
    record = load_chip(chip)
    graphics = ("texture_unit_", "fixed_stage_")
    known = {name for name in LATENCIES if record.kind(name) not in ("assumed", "borrowed")}
    # A latency of 0 stands for an instruction that the chip does not have.
    known = {name for name in known if getattr(getattr(record, fields()[name]), name)}
    assert {name for name in known if not name.startswith(graphics)} <= set(PUBLISHED)
    for name, cycles in PUBLISHED.items():
        assert getattr(getattr(record, fields()[name]), name) == cycles


def test_the_chip_file_says_it_beside_each_latency_that_it_assumes() -> None:
    text = (Path(ww.__file__).parent / "chips" / "hd5870.toml").read_text(encoding="utf-8")
    rows = [
        (name, row["source"])
        for section in tomllib.loads(text).values()
        if isinstance(section, dict)
        for name, row in section.items()
        if isinstance(row, dict) and "assumed" in row and name.endswith("_latency_cycles")
    ]
    assert len(rows) > 8
    assert not [name for name, source in rows if "not anchored" not in source]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.ci
def test_the_report_says_it_beside_each_number(chip: str, tmp_path: Path) -> None:
    gpu = ww.GPU(chip, timing="full")
    out = np.zeros(1, np.uint32)
    run = gpu.compile(STORE)["store"][1, 1](out)
    page = tmp_path / "page.html"
    run.report(page)
    rows = re.findall(
        r'<td class="code">(\w+)</td><td>(assumed|borrowed)</td><td class="num">[^<]*</td><td class="source">([^<]*)</td>',
        page.read_text(encoding="utf-8"),
    )
    assert "dram_latency_cycles" in [name for name, _, _ in rows]
    assert not [name for name, _, source in rows if "not anchored" not in source]


def test_sources_of_other_chips_stay_as_they_are() -> None:
    p100 = load_chip("p100")
    assert all(source_of(name, p100) == p100.source(name) for name in LATENCIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("cayman-")])
def test_the_studies_say_it(name: str) -> None:
    assert any("Not anchored" in remark for remark in STUDIES[name].run(lambda text: None).remarks)

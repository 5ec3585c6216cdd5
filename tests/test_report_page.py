"""The report: a page that is whole, says the run's own numbers, and is safe with any name and any source."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.browser import BROWSER, Browser
from warpwright.isa.schedule import UNITS
from warpwright.run import Run
from warpwright.tools.report import attribute, report_html, what_if, write_report
from warpwright.tools.report.coloured_code import coloured
from warpwright.tools.report.figures import draw_roofline, roofline
from warpwright.tools.report.instruction_mix import KIND_OF, instruction_mix
from warpwright.tools.report.live_registers import LiveRegisters, live_registers
from warpwright.tools.report.occupancy_curves import curves
from warpwright.tools.report.phases import Phases, phases
from warpwright.tools.report.relieved import Ranking, Relief, WhatIf
from warpwright.tools.report.resources import BOUNDS

SOURCE = """\
// <script>alert("source")</script> & more
extern "C" __global__ void product(int n, const float *a, const float *b, float *c)
{
    __shared__ float as[16][16], bs[16][16];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int t = 0; t < n; t += 16) {
        as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) /* "<b>" & '</style>' */
            sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
"""
VOID = {"meta", "br", "hr", "img", "input", "link"}
HOSTILE = "</title><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


def launch(gpu: ww.GPU) -> None:
    module = gpu.compile(SOURCE, name="demo.cu")
    n = 32
    square = np.ones((n, n), np.float32)
    module["product"][(n // 16, n // 16), (16, 16)](n, square, square, np.zeros_like(square))
    module["saxpy"][16, 256](4000, 2.0, np.ones(4096, np.float32), np.ones(4096, np.float32))


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    gpu = ww.GPU("h200")
    launch(gpu)
    return gpu.launches


@pytest.fixture(scope="module")
def page(runs: list[Run]) -> str:
    return report_html(runs)


class Reader(HTMLParser):
    """Checks that elements nest, and collects text, attributes and numbers."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.problems: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def values(page: str, section: str) -> dict[str, float]:
    """``data-name`` → ``data-value`` of a launch's section."""
    body = page[page.index(f'id="{section}"') :]
    following = body.find('<section class="launch"', 1)
    attributes = [a for _, a in read(body[: following if following > 0 else None]).seen if "data-value" in a]
    return {str(a["data-name"]): float(str(a["data-value"])) for a in attributes}


def test_elements_nest_and_ids_are_unique(page: str) -> None:
    reader = read(page)
    assert reader.problems == []
    assert reader.open == []
    ids = [a["id"] for _, a in reader.seen if "id" in a]
    assert len(ids) == len(set(ids))
    assert page.startswith('<!doctype html>\n<html lang="en">')


def test_the_page_needs_nothing_else(page: str) -> None:
    """No address outside the page, one script, and a policy that allows no connection."""
    reader = read(page)
    for _, attributes in reader.seen:
        for name in ("src", "href"):
            assert str(attributes.get(name, "#")).startswith("#")
    assert "url(" not in page
    assert "@import" not in page
    assert [tag for tag, _ in reader.seen].count("script") == 1
    policy = next(str(a["content"]) for _, a in reader.seen if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert len(page) < 1_000_000


def test_numbers_of_the_page_are_the_runs(page: str, runs: list[Run]) -> None:
    for i, run in enumerate(runs):
        assert run.timing is not None
        shown = values(page, f"launch-{i + 1}")
        assert shown["cycles"] == run.cycles
        assert shown["instructions"] == run.instructions
        assert shown["seconds"] == run.seconds
        assert shown["ipc"] == run.ipc
        for name, value in run.metrics.items():
            assert shown[name] == value
        for reason, count in run.timing.stalls.items():
            assert shown.get(f"stall: {reason}", 0) == count
        for unit in attribute(run).units:
            assert shown[f"unit: {unit.name}"] == unit.share
        assert run.program is not None
        for j, instruction in enumerate(run.program.instructions):
            assert shown.get(f"issues {instruction.address:#x}", 0) == run.timing.instruction_issues[j]
            assert shown.get(f"stalls {instruction.address:#x}", 0) == run.timing.instruction_stall_cycles[j]


def test_source_is_shown_as_text(page: str) -> None:
    assert '<script>alert("source")' not in page
    words = "".join(read(page).words)
    assert "for (int k = 0; k < 16; ++k) /* \"<b>\" & '</style>' */" in words
    assert "sum += as[threadIdx.y][k] * bs[k][threadIdx.x];" in words
    assert "FFMA" in words


def test_hostile_names_stay_text(runs: list[Run]) -> None:
    named = list(runs)
    before = named[0].kernel
    named[0].kernel = HOSTILE
    try:
        hostile = report_html(named, title=HOSTILE)
    finally:
        named[0].kernel = before
    reader = read(hostile)
    assert reader.problems == []
    assert [tag for tag, _ in reader.seen].count("script") == 1
    assert "img" not in [tag for tag, _ in reader.seen]
    assert HOSTILE in "".join(reader.words)


def test_every_drawing_and_scrolling_area_has_a_name(page: str) -> None:
    reader = read(page)
    drawings = [a for tag, a in reader.seen if tag == "svg"]
    assert len(drawings) == 14
    assert all(a["role"] == "img" and a["aria-label"] for a in drawings)
    areas = [a for _, a in reader.seen if "scroll" in str(a.get("class", "")).split()]
    assert areas
    assert all(a["role"] == "region" and a["aria-label"] and a["tabindex"] == "0" for a in areas)
    assert all("nan" not in str(a.get("d", "")) and "inf" not in str(a.get("d", "")) for _, a in reader.seen)


def test_savings_are_shown_beside_their_launch(runs: list[Run]) -> None:
    twice = what_if(launch, "h200", baseline=runs, dram_gb_per_s=9624.0)
    ranking = Ranking("saxpy", 1, (Relief(BOUNDS["DRAM bandwidth"], twice),), "")
    with_it = report_html(runs, rankings={1: ranking})
    assert ranking.headline in "".join(read(with_it).words)
    assert values(with_it, "launch-2")[f"after {twice.change}"] == twice.after[1]
    assert f"after {twice.change}" not in values(with_it, "launch-1")


def test_only_the_longest_launches_are_shown_in_full(runs: list[Run]) -> None:
    """Twelve at most, and no more than fit into a megabyte."""
    saxpy = report_html(runs[1:] * 40)
    shown = saxpy.count('<section class="launch"')
    assert 8 <= shown <= 12
    assert len(re.findall(r'<td class="num" data-name="cycles"', saxpy)) == 40
    assert f"The {shown} longest launches are shown in full below." in saxpy
    page = report_html(runs * 20)
    assert 1 < page.count('<section class="launch"') < 12
    assert len(page) < 1_000_000
    assert read(page).problems == []


def test_a_file_is_written(runs: list[Run], tmp_path: Path) -> None:
    path = write_report(tmp_path / "launch.html", runs[:1], title="One launch")
    assert path.read_text(encoding="utf-8") == report_html(runs[:1], title="One launch")
    assert "<title>One launch</title>" in path.read_text(encoding="utf-8")


def test_refusals() -> None:
    with pytest.raises(ww.UnsupportedError) as refused:
        report_html([])
    assert str(refused.value) == "there is nothing to report: the program launched no kernel"
    gpu = ww.GPU("h200", timing="off")
    launch(gpu)
    with pytest.raises(ww.UnsupportedError) as refused:
        report_html(gpu.launches)
    assert (
        str(refused.value)
        == "this run of product has no report: its GPU was made with timing='off' or with checks: add timing='full' (--timing full)"
    )


def test_roofline_stays_below_its_roofs(runs: list[Run]) -> None:
    for run in runs:
        assert run.device is not None
        drawn = roofline(attribute(run), run.device, run.seconds, run.instructions)
        assert drawn is not None
        assert drawn.unit == "FLOP"
        roofs = {roof.name: roof.value for roof in drawn.roofs}
        for name, intensity in drawn.points:
            assert drawn.performance <= roofs[name] * intensity * 1.0001
        assert drawn.performance <= max(roof.value for roof in drawn.roofs if not roof.slope)
        assert "<svg" in draw_roofline(drawn)


# --- in a browser -------------------------------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")


def browse(page: Path, folder: Path, *options: str) -> tuple[str, str]:
    """The page's elements after its script ran, and what the browser's console said."""
    assert BROWSER is not None
    switches = (
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr"),
    )
    result = subprocess.run(
        [BROWSER, *switches, *options, f"--user-data-dir={folder}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return result.stdout, "\n".join(line for line in result.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.ci
@needs_browser
def test_the_browser_reports_no_error(page: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    elements, console = browse(path, tmp_path / "profile", "--dump-dom")
    assert console == ""
    # The script ran: it makes rows reachable by keyboard.
    assert re.search(r'<tr data-line="\d+"[^>]* tabindex="0"', elements)


@pytest.mark.ci
@needs_browser
def test_the_browser_would_report_an_error(page: str, tmp_path: Path) -> None:
    """The other side of the test before: an error of the script and a script from elsewhere are seen."""
    path = tmp_path / "report.html"
    path.write_text(page.replace("</body>", "<script>alert(1)</script></body>"), encoding="utf-8")
    assert "Content Security Policy" in browse(path, tmp_path / "profile", "--dump-dom")[1]


@pytest.mark.ci
@needs_browser
@pytest.mark.parametrize("width", [400, 1280])
def test_only_tables_and_drawings_scroll_sideways(page: str, tmp_path: Path, width: int) -> None:
    measure = "<script>document.title = document.documentElement.scrollWidth + ' of ' + innerWidth</script></body>"
    path = tmp_path / "report.html"
    path.write_text(re.sub("<meta http-equiv[^>]*>", "", page).replace("</body>", measure), encoding="utf-8")
    elements, _ = browse(path, tmp_path / "profile", "--dump-dom", f"--window-size={width},1000")
    found = re.search(r"<title>(\d+) of (\d+)</title>", elements)
    assert found is not None
    assert int(found[1]) <= int(found[2])


@needs_browser
@pytest.mark.ci
@pytest.mark.parametrize("look", ["light", "dark"])
def test_a_picture_is_painted(page: str, tmp_path: Path, look: str) -> None:
    path, picture = tmp_path / "report.html", tmp_path / "report.png"
    path.write_text(page, encoding="utf-8")
    dark = ("--force-dark-mode",) if look == "dark" else ()
    browse(path, tmp_path / "profile", f"--screenshot={picture}", "--window-size=1000,1600", *dark)
    # An empty page of this size compresses to a few kilobytes.
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 60_000


# --- launches: contents, sorting, filter ----------------------------------------------------------------------------------


def test_contents_link_to_every_launch_shown(page: str) -> None:
    seen = read(page).seen
    ids = {a["id"] for _, a in seen if "id" in a}
    links = {str(a["href"])[1:] for tag, a in seen if tag == "a"}
    assert {"launches", "launch-1", "launch-2", "content"} <= links
    assert links <= ids


def test_headline_has_compute_and_memory_throughput(page: str, runs: list[Run]) -> None:
    for i, run in enumerate(runs):
        shown, units = values(page, f"launch-{i + 1}"), attribute(run).units
        assert shown["throughput: compute"] == max(u.share for u in units if u.group == "SM")
        assert shown["throughput: memory"] == max(u.share for u in units if u.group == "memory")


@pytest.mark.ci
@needs_browser
def test_launches_are_sorted_and_filtered(page: str, runs: list[Run], tmp_path: Path) -> None:
    act = """<script>
    const table = document.querySelector("table.sortable"), say = [];
    const order = () => [...table.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[0].textContent).join("");
    const cycles = [...table.tHead.rows[0].cells].find((c) => c.textContent === "cycles");
    cycles.querySelector("button").click(); say.push(cycles.ariaSort, order());
    cycles.querySelector("button").click(); say.push(cycles.ariaSort, order());
    const input = document.querySelector(".filter input");
    input.value = "SAXPY"; input.dispatchEvent(new Event("input")); say.push(order());
    document.title = say.join(" ");</script></body>"""
    path = tmp_path / "report.html"
    path.write_text(re.sub("<meta http-equiv[^>]*>", "", page).replace("</body>", act), encoding="utf-8")
    elements, _ = browse(path, tmp_path / "profile", "--dump-dom")
    found = re.search("<title>(.*?)</title>", elements)
    longest = "12" if runs[0].cycles > runs[1].cycles else "21"
    assert found is not None
    assert found[1] == f"descending {longest} ascending {longest[::-1]} 2"


@pytest.mark.ci
@needs_browser
def test_launches_collapse_and_expand_together(browser: Browser, whole_page: Path) -> None:
    browser.look(1400, False)
    browser.open(whole_page)
    opened = "[...document.querySelectorAll('section.launch > details')].map((one) => one.open)"
    button = "[...document.querySelectorAll('.filter button')].find((one) => one.textContent === '{}').click()"
    assert browser.evaluate(opened) == [True, True]
    browser.evaluate(button.format("Collapse all"))
    assert browser.evaluate(opened) == [False, False]
    browser.evaluate(button.format("Expand all"))
    assert browser.evaluate(opened) == [True, True]


@needs_browser
def test_arrow_keys_go_through_a_listing(browser: Browser, whole_page: Path) -> None:
    """Each side is one stop of Tab; Enter marks what belongs to the line, on both sides."""
    browser.look(1400, False)
    browser.open(whole_page)
    side = "document.querySelectorAll('.listing .scroll')[1]"
    assert browser.evaluate(f"{side}.querySelectorAll('tr[tabindex=\"0\"]').length") == 1
    browser.evaluate(f"{side}.querySelector('tr[tabindex=\"0\"]').focus()")
    rows = f"[...{side}.querySelectorAll('tr[data-line]')]"
    at = f"{rows}.indexOf(document.activeElement)"
    places = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "End", "Home", "ArrowUp"):
        browser.press(key)
        places.append(browser.evaluate(at))
    last = browser.evaluate(f"{rows}.length") - 1
    assert places == [1, 2, 1, last, 0, 0]
    browser.press("Enter")
    marked = browser.evaluate("[...document.querySelectorAll('tr[aria-current]')].map((row) => row.dataset.line)")
    assert len(marked) >= 2
    assert len(set(marked)) == 1


# --- launch and tail ------------------------------------------------------------------------------------------------------


def phases_of(run: Run) -> Phases | None:
    assert run.timing is not None
    return phases(run.timing.blocks, int(np.prod(run.grid)), run.cycles)


def test_phases_have_every_cycle(page: str, runs: list[Run]) -> None:
    for i, run in enumerate(runs):
        assert run.timing is not None
        assert run.timing.blocks is not None
        found = phases_of(run)
        assert found is not None
        assert sum(found.cycles) == run.cycles
        assert min(found.cycles) >= 0
        assert found.cycles[0] == run.timing.blocks[:, 1].min()
        assert 0 <= found.tail_idle <= 1
        assert values(page, f"launch-{i + 1}")["phase: tail"] == found.cycles[3]


def test_a_last_wave_is_the_tail() -> None:
    """One SM gets a second block of equal work: the others idle through half of the time."""
    spin = """extern "C" __global__ void spin(float *x)
    {
        __shared__ float all[12000];
        float a = x[threadIdx.x];
        for (int i = 0; i < 4000; ++i)
            a = a * 1.5f + 1.0f;
        all[threadIdx.x] = a;
        x[threadIdx.x] = all[threadIdx.x ^ 1];
    }"""
    gpu = ww.GPU("v100", sm_count=4)
    two_per_sm = gpu.compile(spin)["spin"][9, 32](np.ones(32, np.float32))
    found = phases_of(two_per_sm)
    assert found is not None
    assert two_per_sm.resident.blocks_per_sm == 2
    assert 0.4 < found.cycles[3] / (two_per_sm.cycles - found.cycles[0]) < 0.6
    assert found.tail_idle == pytest.approx(3 / 4, abs=0.05)
    even = phases_of(gpu.compile(spin)["spin"][8, 32](np.ones(32, np.float32)))
    assert even is not None
    assert even.cycles[3] < 0.05 * sum(even.cycles)


# --- schedulers, mix, occupancy, live registers, caches ------------------------------------------------------------------


def test_issue_slots_are_those_of_the_run(page: str, runs: list[Run]) -> None:
    for i, run in enumerate(runs):
        assert run.device is not None
        assert run.timing is not None
        shown = values(page, f"launch-{i + 1}")
        cycles = int(run.timing.sm["active_cycles"].sum()) * run.device.sm.sub_core_count
        assert shown["slots: issued"] == pytest.approx(run.instructions / cycles)
        assert shown["slots: issued"] + shown["slots: no eligible"] == pytest.approx(1)
        # What Nsight Compute calls smsp__warps_active; waits after a warp's last issue have no reason.
        active = run.metrics["smsp__warps_active.avg.per_cycle_active"]
        assert 0.8 * active < shown["warps: active"] <= active * 1.0001
        assert shown["slots: issued"] <= shown["warps: eligible"] <= shown["warps: active"]


def test_the_mix_has_every_issue(runs: list[Run]) -> None:
    for run in runs:
        assert run.program is not None
        assert run.timing is not None
        mix = instruction_mix(attribute(run), run.program)
        assert sum(row.issues for row in mix) == int(run.timing.instruction_issues.sum())
        assert sum(row.share for row in mix) == pytest.approx(1)
    opcodes = dict(
        next(row for row in instruction_mix(attribute(runs[0]), runs[0].program) if row.kind == "FP32").opcodes
    )  # type: ignore[arg-type]
    assert opcodes["FFMA"] == 32 * 4 * 8  # 32 products a thread in 4 blocks of 8 warps


def test_every_unit_has_a_kind() -> None:
    assert set(KIND_OF) == set(UNITS)


def test_occupancy_curves_pass_through_the_launch(runs: list[Run]) -> None:
    for run in runs:
        for curve in curves(run):
            value, warps = curve.here
            # The curve is made of steps: the last point at or before the launch's, and the next one.
            before = [w for v, w in curve.points if v <= value][-1:]
            after = [w for v, w in curve.points if v >= value][:1]
            assert min(before + after) <= warps <= max(before + after)
            assert all(0 <= w <= curve.most for _, w in curve.points)
    registers = dict(curves(runs[0])[1].points)
    assert registers[255] * 255 <= 65536 // 32
    assert registers[32] == 64


def test_live_registers_follow_the_values(runs: list[Run]) -> None:
    for run in runs:
        assert run.program is not None
        live = live_registers(run.program)
        assert live is not None
        assert len(live) == len(run.program.instructions)
        # Nothing is live before the first instruction but what the driver sets; all that is read is live.
        assert live[0].live <= {1}
        assert all(at.reads <= at.live for at in live)
        assert max(at.held for at in live) <= run.registers
        for n, instruction in enumerate(run.program.instructions):
            if instruction.opcode == "STG":
                assert len(live[n].reads) >= 2
                break
        last = next(n for n, i in enumerate(run.program.instructions) if i.opcode == "EXIT" and i.guard is None)
        assert not live[last].live


def test_marks_of_a_register() -> None:
    at = LiveRegisters(frozenset({1, 2, 3}), frozenset({2, 3}), frozenset({3, 4}))
    assert [at.mark(n) for n in range(6)] == [" ", ":", "v", "x", "^", " "]
    assert at.held == 4


def test_colours_leave_the_text(runs: list[Run]) -> None:
    for run in runs:
        assert run.program is not None
        for cost in attribute(run).instructions:
            markup = coloured(cost.text, run.program.instructions[cost.index], run.program)
            assert "".join(read(markup).words) == cost.text
            assert '<i class="' in markup


def test_tables_of_caches_add_up(page: str, runs: list[Run]) -> None:
    for i, run in enumerate(runs):
        shown = values(page, f"launch-{i + 1}")
        total = run.metrics["lts__t_sectors.sum"]
        assert sum(
            shown.get(f"L2 {name}: sectors", 0) for name in ("reads", "writes", "atomics", "fences")
        ) == pytest.approx(total)
        assert shown["L1 global loads: sectors"] == run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
        assert shown["L1 global stores: requests"] == run.metrics["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"]
    assert values(page, "launch-1")["shared: wavefronts"] > 0
    assert "shared: wavefronts" not in values(page, "launch-2")


# --- looks: widths, light and dark -----------------------------------------------------------------------------------------

CLIPPED = """(() => {
  const seen = [];
  const shown = (box) => box.width > 0 && box.height > 0;
  for (const one of document.querySelectorAll("body *")) {
    if (one.closest(".skip, svg, .scroll, .bar")) continue;
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    if (!shown(box) || style.display === "inline") continue;
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth) seen.push(`${one.tagName}.${one.className} is wider inside: ${one.textContent.slice(0, 40)}`);
    if (box.right > innerWidth + 1 || box.left < -1) seen.push(`${one.tagName}.${one.className} leaves the page`);
  }
  for (const one of document.querySelectorAll("svg text")) {
    const box = one.getBoundingClientRect(), frame = one.closest("svg").getBoundingClientRect();
    if (shown(box) && (box.right > frame.right + 1 || box.left < frame.left - 1 || box.bottom > frame.bottom + 1 || box.top < frame.top - 1))
      seen.push(`text of a drawing is cut off: ${one.textContent}`);
  }
  for (const cell of document.querySelectorAll(".scroll td, .scroll th"))
    if (cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).display !== "none" && cell.clientWidth) seen.push(`cell is cut off: ${cell.textContent.slice(0, 40)}`);
  if (document.documentElement.scrollWidth > innerWidth) seen.push("the page scrolls sideways");
  return [...new Set(seen)];
})()"""
CONTRAST = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => a * top[i] + (1 - a) * under[i]); };
  const light = (c) => c.map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || one.closest("script, .skip, svg title, svg desc")) continue;
    let under = [255, 255, 255];
    const above = [];
    for (let at = one; at; at = at.parentElement) above.unshift(parse(getComputedStyle(at).backgroundColor));
    for (const colour of above) under = over(colour, under);
    const style = getComputedStyle(one);
    const ink = over(parse(one.closest("svg") ? style.fill : style.color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${one.tagName}.${one.className.baseVal ?? one.className}: ${walker.currentNode.data.trim().slice(0, 30)}`);
  }
  return [...new Set(low)];
})()"""
WIDTHS = (1400, 900, 390)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def whole_page(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With what-if rows, which the plain page lacks."""
    what = WhatIf("twice the DRAM bandwidth", {}, tuple(r.cycles for r in runs), tuple(r.cycles - 9 for r in runs))
    ranking = Ranking("saxpy", 1, (Relief(BOUNDS["DRAM bandwidth"], what),), "")
    return write_report(tmp_path_factory.mktemp("page") / "report.html", runs, title="demo.py", rankings={1: ranking})


@needs_browser
@pytest.mark.ci
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_clipped_at(browser: Browser, whole_page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    browser.look(width, dark)
    browser.open(whole_page)
    assert browser.problems == []
    assert browser.evaluate("innerWidth") == width
    browser.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
    assert browser.evaluate(CLIPPED) == []
    assert browser.evaluate(CONTRAST) == []
    picture = browser.picture(tmp_path / "page.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(picture[16:20], "big") == width
    # An empty page of this size compresses to a few kilobytes.
    assert len(picture) > 200_000


@needs_browser
def test_clipped_and_faint_text_would_be_seen(browser: Browser, whole_page: Path) -> None:
    browser.look(390, False)
    browser.open(whole_page)
    browser.evaluate(
        "document.querySelector('h1').style.cssText = 'white-space: nowrap; overflow: hidden; width: 20px; color: #aaa'"
    )
    assert any(found.startswith("H1") for found in browser.evaluate(CLIPPED))
    assert any("H1" in found for found in browser.evaluate(CONTRAST))


@pytest.mark.ci
@needs_browser
def test_tab_goes_through_the_page_in_its_order(browser: Browser, whole_page: Path) -> None:
    browser.look(1400, False)
    browser.open(whole_page)
    order = "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.className") == "skip"
    assert browser.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
    places, names = [], []
    for _ in range(40):
        browser.press("Tab")
        places.append(browser.evaluate(order))
        names.append(browser.evaluate("document.activeElement.tagName"))
        # The focus is seen: something about the element differs from when it has none.
        assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert places == sorted(places)
    assert {"A", "SUMMARY", "INPUT", "BUTTON"} <= set(names)


@needs_browser
def test_enter_on_the_skip_link_reaches_the_content(browser: Browser, whole_page: Path) -> None:
    browser.look(1400, False)
    browser.open(whole_page)
    browser.press("Tab")
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.id") == "content"


@pytest.mark.ci
def test_landmarks(page: str) -> None:
    """One each of banner, navigation, main and footer; every section has a name; headings descend one level at a time."""
    reader = read(page)
    tags = [tag for tag, _ in reader.seen]
    for tag in ("header", "nav", "main", "footer", "h1"):
        assert tags.count(tag) == 1
    assert all(a.get("aria-labelledby") or a.get("aria-label") for tag, a in reader.seen if tag in ("section", "nav"))
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = {a["id"] for _, a in reader.seen if "id" in a}
    links = [str(a["href"])[1:] for tag, a in reader.seen if tag == "a"]
    assert set(links) <= ids
    assert sum(link.startswith("launch-1-") for link in links) == 14


@pytest.mark.parametrize(
    ("chip", "options"),
    [
        ("p100", {}),
        ("v100", {}),
        ("g80", {}),
        ("a100", {"front_end": "ptx"}),
        pytest.param("a100", {"timing": "sampled"}, marks=pytest.mark.ci),
    ],
)
def test_every_kind_of_run_has_a_page(chip: str, options: dict[str, Any]) -> None:
    gpu = ww.GPU(chip, **options)
    module = gpu.compile(SOURCE, name="demo.cu")
    blocks = 16 if options.get("timing") != "sampled" else 4096
    n = 256 * blocks
    module["saxpy"][blocks, 256](n, 2.0, np.ones(n, np.float32), np.ones(n, np.float32))
    page = report_html(gpu.launches)
    reader = read(page)
    assert reader.problems == []
    shown = values(page, "launch-1")
    assert sum(v for name, v in shown.items() if name.startswith("mix: ")) == pytest.approx(
        gpu.launches[0].instructions, rel=0.01
    )
    assert shown["slots: issued"] <= 1
    assert ("Blocks over time" in page) == (gpu.launches[0].sampling is None)
    # PTX's registers are virtual: they have no live ranges.
    live = [v for name, v in shown.items() if name.startswith("live ")]
    assert bool(live) == ("front_end" not in options)
    assert all(v <= gpu.launches[0].registers for v in live)

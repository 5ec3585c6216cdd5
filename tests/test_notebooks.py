"""Runs in notebooks: the report's page in a frame, beside a table that stays where frames are dropped."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.browser import BROWSER, Browser
from warpwright.run import Run
from warpwright.tools.report import report_html

SOURCE = 'extern "C" __global__ void twice(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }'


def launch(timing: str = "full") -> Run:
    gpu = ww.GPU("h200", timing=timing)
    return gpu.compile(SOURCE, name="twice.cu")["twice"][8, 128](np.ones(1024, np.float32))


def test_a_run_shows_its_page_in_a_frame() -> None:
    run = launch()
    shown = run._repr_html_()
    table, frame = shown.split("<iframe ")
    assert table.endswith("</table>")
    assert f"{run.cycles:,}" in table
    page = re.search('srcdoc="([^"]*)"', frame)
    assert page is not None
    assert "<" not in page[1]
    assert unescape(page[1]) == report_html([run])


def test_a_run_without_timing_shows_its_table_only() -> None:
    assert "iframe" not in launch("off")._repr_html_()


@pytest.mark.ci
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_the_frame_works_in_a_page(tmp_path: Path) -> None:
    """The page's script runs within the frame, and its links stay there."""
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>notebook</title><body>{launch()._repr_html_()}</body>", encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        look_at_frame(browser, path)


def look_at_frame(browser: Browser, path: Path) -> None:
    browser.look(1000, False)
    browser.open(path)
    browser.evaluate("document.querySelector('iframe').scrollIntoView()")
    inside = "document.querySelector('iframe').contentDocument"
    ready = f"""new Promise((done) => {{
      const look = () => {inside}?.querySelector('.filter input') ? done(true) : setTimeout(look, 20);
      look(); setTimeout(() => done(false), 20000); }})"""
    assert browser.evaluate(ready), "the page's script did not run in the frame"
    assert browser.evaluate(f"{inside}.documentElement.scrollWidth <= {inside}.documentElement.clientWidth")
    assert browser.evaluate(f"{inside}.documentElement.scrollTop") == 0
    browser.evaluate(f"""{inside}.querySelectorAll('nav a[href$="-counters"]')[0].click()""")
    assert browser.evaluate(f"{inside}.title").startswith("twice")
    assert browser.evaluate(f"{inside}.activeElement.id") == "launch-1-counters"
    assert browser.problems == []


@pytest.mark.ci
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_a_notebook_shows_the_page(tmp_path: Path) -> None:
    """Run by a kernel and written as a page, as JupyterLab and nbconvert do."""
    client = pytest.importorskip("nbclient", reason="needs pip install 'warpwright[notebook]'")
    convert = pytest.importorskip("nbconvert")
    formats = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cell = f"""import numpy as np
import warpwright as ww
run = ww.GPU("h200").compile({SOURCE!r}, name="twice.cu")["twice"][8, 128](np.ones(1024, np.float32))
run"""
    notebook = formats.v4.new_notebook(cells=[formats.v4.new_code_cell(cell)])
    client.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    # A first launch that takes long also writes its progress.
    (output,) = [one for one in notebook.cells[0].outputs if one.output_type == "execute_result"]
    assert "srcdoc=" in output["data"]["text/html"]
    assert output["data"]["text/plain"].startswith("<run of twice on h200")
    page, _ = convert.HTMLExporter(template_name="lab").from_notebook_node(notebook)
    path = tmp_path / "notebook.html"
    path.write_text(page, encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.look(1200, False)
        browser.open(path)
        browser.evaluate("document.querySelector('iframe').scrollIntoView()")
        text = "document.querySelector('iframe').contentDocument?.querySelector('.filter input') !== null"
        assert browser.evaluate(f"new Promise((done) => setTimeout(() => done({text}), 2000))")
        browser.picture(tmp_path / "notebook.png")

"""Origins of launches: ranges of NVTX and of PyTorch, and the report's part for a model."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.browser import BROWSER, Browser
from warpwright.driver import nvtx
from warpwright.ranges import Module, OpenRanges, Origin, open_ranges
from warpwright.run import Run
from warpwright.tools.export import launch_rows
from warpwright.tools.report import report_html
from warpwright.tools.report.origins import kind_of, model_of

BLOCK, LINEAR = Module("Net.blocks.0", "Block"), Module("Net.blocks.0.up", "Linear", 512)
SAXPY = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
"""


def test_a_launch_belongs_to_the_innermost_module_and_the_outermost_operator_within_it() -> None:
    ranges = OpenRanges()
    ranges.push("step 1")
    ranges.enter(BLOCK)
    ranges.enter(LINEAR)
    ranges.push("aten::linear, op_id = 3")
    ranges.push("aten::addmm, seq = 7, op_id = 4")
    assert ranges.origin() == Origin(("step 1",), LINEAR, "aten::linear")
    ranges.pop()
    ranges.pop()
    ranges.leave(LINEAR)
    ranges.push("aten::gelu, seq = 8, op_id = 5")
    assert ranges.origin() == Origin(("step 1",), BLOCK, "aten::gelu")


def test_a_node_of_the_backward_pass_belongs_to_the_module_that_made_it() -> None:
    ranges = OpenRanges()
    ranges.push("step 1")
    ranges.enter(LINEAR)
    # An operator that makes no node has the number of the next one.
    ranges.push("aten::t, seq = 7")
    ranges.pop()
    ranges.push("aten::addmm, seq = 7")
    ranges.pop()
    ranges.leave(LINEAR)
    ranges.pop()
    ranges.push("autograd::engine::evaluate_function: AddmmBackward0, op_id = 9")
    ranges.push("AddmmBackward0, seq = 7, op_id = 10")
    ranges.push("aten::mm, op_id = 11")
    within = Origin(("step 1",), LINEAR, "AddmmBackward0", True)
    assert ranges.origin() == within
    ranges.pop()
    ranges.pop()
    # The sum of a gradient is part of the node, after its operator.
    ranges.push("aten::sum, op_id = 12")
    assert ranges.origin() == within
    ranges.pop()
    ranges.pop()
    assert ranges.origin() == Origin()


def test_a_module_that_ends_closes_what_was_left_open_within() -> None:
    ranges = OpenRanges()
    ranges.enter(BLOCK)
    ranges.push("left open")
    ranges.leave(BLOCK)
    assert ranges.origin() == Origin()
    assert ranges.pop() == -1


def test_ranges_of_the_process_close_in_any_order() -> None:
    ranges = OpenRanges()
    first, second = ranges.start("first"), ranges.start("second")
    ranges.end(first)
    assert ranges.origin().ranges == ("second",)
    ranges.end(second)
    assert ranges.origin().ranges == ()


class Header:
    """NVTX's tables as its header has them."""

    def __init__(self) -> None:
        self._slots = {module: (ctypes.c_uint64 * 16)() for module in (1, 5)}
        self._tables = {
            module: (ctypes.c_uint64 * 16)(*(ctypes.addressof(slots) + 8 * i for i in range(16)))
            for module, slots in self._slots.items()
        }
        self._module = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64)(self._give)
        self._callbacks = (ctypes.c_uint64 * 2)(16, ctypes.cast(self._module, ctypes.c_void_p).value or 0)
        self._table = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32)(
            lambda kind: ctypes.addressof(self._callbacks) if kind == 1 else 0
        )

    def _give(self, module: int, table: int, size: int) -> int:
        if module not in self._tables:
            return 0
        ctypes.c_uint64.from_address(table).value = ctypes.addressof(self._tables[module])
        ctypes.c_uint32.from_address(size).value = 16
        return 1

    @property
    def get_table(self) -> int:
        return ctypes.cast(self._table, ctypes.c_void_p).value or 0

    def call(self, module: int, number: int, result: Any, *arguments: Any) -> Any:
        kinds = [ctypes.c_uint64] * len(arguments)
        return ctypes.CFUNCTYPE(result, *kinds)(self._slots[module][number])(*arguments)


@pytest.fixture
def header() -> Iterator[Header]:
    made = Header()
    assert nvtx._initialize(made.get_table) == 1
    yield made
    open_ranges.by_thread.clear()
    open_ranges.of_process.clear()


def test_a_program_hands_its_ranges_over(header: Header) -> None:
    """Plain and wide texts, an event's attributes, a string that a library's domain has registered."""
    plain, wide = ctypes.create_string_buffer(b"step"), ctypes.create_unicode_buffer("größer")
    assert header.call(1, 9, ctypes.c_int32, ctypes.addressof(plain)) == 0
    assert header.call(1, 10, ctypes.c_int32, ctypes.addressof(wide)) == 1
    registered = header.call(5, 10, ctypes.c_uint64, 0, ctypes.addressof(plain))
    event = (ctypes.c_uint8 * 48)()
    ctypes.c_uint32.from_buffer(event, 32).value = 3
    ctypes.c_uint64.from_buffer(event, 40).value = registered
    header.call(5, 4, ctypes.c_int32, 0, ctypes.addressof(event))
    assert open_ranges.origin() == Origin(("step", "größer"), None, "step")
    header.call(5, 5, ctypes.c_int32, 0)
    number = header.call(1, 5, ctypes.c_uint64, ctypes.addressof(plain))
    assert header.call(1, 11, ctypes.c_int32) == 1
    assert open_ranges.origin() == Origin(("step", "step"))
    header.call(1, 7, None, number)
    header.call(1, 11, ctypes.c_int32)
    assert open_ranges.origin() == Origin()


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    gpu = ww.GPU("h200")
    kernel = gpu.compile(SAXPY)["saxpy"]
    found = []
    origins: tuple[Origin, ...] = (
        Origin(("step 1",), LINEAR, "aten::linear", False, 3 << 20),
        Origin((), Module("Net.blocks.1.up", "Linear", 512), "AddmmBackward0", True, 2 << 20),
        Origin((), None, "aten::<mul>"),
    )
    for origin in origins:
        run = kernel[4, 256](1024, 2.0, np.ones(1024, np.float32), np.ones(1024, np.float32))
        run.origin = origin
        found.append(run)
    return found


def test_modules_sum_the_launches_within(runs: list[Run]) -> None:
    model = model_of(runs)
    assert model is not None
    layers = {layer.path: layer for _, layer in model.root.walk()}
    assert list(layers) == ["Net", "Net.blocks", "Net.blocks.0", "Net.blocks.0.up", "Net.blocks.1", "Net.blocks.1.up"]
    net = layers["Net"]
    assert (net.all.forward_seconds, net.all.backward_seconds) == (runs[0].seconds, runs[1].seconds)
    assert (net.all.launches, net.own.launches, net.parameter_bytes) == (2, 0, 1024)
    assert net.all.allocated_bytes == 3 << 20
    assert net.all.flops == pytest.approx(2 * 2048)
    assert model.outside.seconds == runs[2].seconds
    assert list(model.kinds) == [kind_of("Net.blocks.7.up")]
    assert model.ranges.keys() == {("step 1",)}


def test_the_page_has_a_part_for_the_model_where_launches_have_origins(runs: list[Run]) -> None:
    page = report_html(runs)
    assert 'id="model"' in page
    assert "Roofline by module" in page
    assert "aten::&lt;mul&gt;" in page
    assert 'id="model"' not in report_html([replace(run, origin=None) for run in runs])


@pytest.mark.ci
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_the_modules_fit_a_window_of_1300_and_begin_with_share_and_limit(runs: list[Run], tmp_path: Path) -> None:
    path = "GPT.transformer.h.0.attn.scaled_dot_product_attention"
    deep = Origin(("step",), Module(path, "MultiheadAttention", 1 << 20), "aten::linear", False, 300 << 20)
    page = tmp_path / "page.html"
    page.write_text(report_html([replace(run, origin=deep) for run in runs]))
    area = "document.querySelector('#model .scroll')"
    with Browser(tmp_path / "profile") as browser:
        browser.open(page)
        for width in (1300, 1400):
            browser.look(width, dark=False)
            assert browser.evaluate(f"{area}.scrollWidth - {area}.clientWidth") <= 0
        browser.look(390, dark=False)
        # Beyond the first three columns the area scrolls, and the page does not.
        assert browser.evaluate(f"{area}.querySelectorAll('th')[2].textContent") == "limited by"
        assert browser.evaluate(f"{area}.querySelectorAll('th')[3].getBoundingClientRect().left") < 390
        assert browser.evaluate("document.documentElement.scrollWidth") == 390


def test_exported_launches_name_their_origins(runs: list[Run]) -> None:
    rows = launch_rows(runs)
    assert [row["module"] for row in rows] == ["Net.blocks.0.up", "Net.blocks.1.up", None]
    assert [row["backward"] for row in rows] == [False, True, False]

"""Reductions on surfaces (PTX ``sured``): machine code of three chips in both engines, and PTX, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.textures.table import Format, Sampler, check_sampler, make_image

PTX = """.version 8.8
.target sm_{arch}
.address_size 64
.visible .entry reduce(.param .u64 surface, .param .u64 from)
{{
    .reg .b64 %surface, %from, %wide; .reg .b32 %t, %x, %y, %byte, %word; .reg .pred %low;
    ld.param.u64 %surface, [surface]; ld.param.u64 %from, [from];
    mov.u32 %t, %tid.x; mad.wide.u32 %from, %t, 8, %from; ld.global.u64 %wide, [%from]; cvt.u32.u64 %word, %wide;
    rem.u32 %x, %t, 5; mul.lo.u32 %byte, %x, {size}; and.b32 %y, %t, 1;
    {instruction}
    ret;
}}
"""
WORD, WIDE = "[%surface, {%byte, %y}], %word;", "[%surface, {%byte, %y}], %wide;"
CASES: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "sured.b.add.2d.u32.trap": (WORD, "u4", np.add),
    "sured.b.min.2d.s32.clamp": (WORD, "i4", np.minimum),
    "sured.b.max.2d.u32.zero": (WORD, "u4", np.maximum),
    "sured.b.and.2d.b32.trap": (WORD, "u4", np.bitwise_and),
    "sured.b.or.2d.b32.trap": (WORD, "u4", np.bitwise_or),
    "sured.b.add.2d.u64.trap": (WIDE, "u8", np.add),
    "sured.b.max.2d.s64.trap": (WIDE, "i8", np.maximum),
    "sured.p.min.2d.b32.trap": ("[%surface, {%x, %y}], %word;", "i4", np.minimum),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("chip", "engine", "front_end"),
    [
        ("v100", "compiled", "sass"),
        ("a100", "interpreter", "sass"),
        ("h200", "compiled", "sass"),
        ("h200", "compiled", "ptx"),
    ],
)
def test_every_lane_s_value_is_combined(chip: str, engine: str, front_end: str, name: str) -> None:
    place, kind, combine = CASES[name]
    size = int(kind[1])
    gpu = ww.GPU(chip, timing="off", engine=engine, front_end=front_end)
    text = PTX.format(arch=gpu.chip.arch, size=size, instruction=f"{name} {place}")
    rng = np.random.default_rng(len(name))
    start = rng.integers(0, 1 << 32, (2, 5, size // 4), np.uint32)
    values = rng.integers(0, 1 << 64, 100, np.uint64)
    array = gpu.cuda_array((2, 5), np.int32 if kind[0] == "i" else np.uint32, channels=size // 4)
    array.set(start.view(array.get().dtype).reshape(array.get().shape))
    gpu.compile(text)["reduce"][1, 100](gpu.surface(array), values)
    want = start.copy().view(kind)[..., 0]
    operands = values.astype(f"u{size}").view(kind)
    for thread, value in enumerate(operands):
        at = thread % 2, thread % 5
        want[at] = combine(want[at], value)
    np.testing.assert_array_equal(np.ascontiguousarray(array.get()).view(kind).reshape(2, 5), want)


def test_a_reduction_outside_traps_or_does_nothing() -> None:
    gpu = ww.GPU("h200", timing="off")
    array = gpu.cuda_array((1, 5), np.uint32)
    values = np.ones(4, np.uint64)
    for outside in ("zero", "trap"):
        kernel = gpu.compile(PTX.format(arch=90, size=4, instruction=f"sured.b.add.2d.u32.{outside} {WORD}"))["reduce"]
        if outside == "zero":
            kernel[1, 4](gpu.surface(array), values)
            assert array.get().tolist() == [[1, 0, 1, 0, 0]]
            continue
        with pytest.raises(ww.MemoryFaultError, match="outside of a surface in kernel reduce"):
            kernel[1, 4](gpu.surface(array), values)


def test_anisotropic_filters_are_refused_by_name() -> None:
    image = make_image(DeviceMemory(1 << 20), Format.of("f4", 1), (8, 8))
    with pytest.raises(ww.UnsupportedError, match=r"^anisotropic filtering is not modelled: use anisotropy 1"):
        check_sampler(image, Sampler(anisotropy=4))

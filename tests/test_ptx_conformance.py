"""ZLUDA's public PTX programs, run by both engines where a copy of their folder is at hand.

The programs (``ptx/src/test/spirv_run`` of the ZLUDA project: a ``.ptx`` file each, inputs and outputs in ``mod.rs``) are
read where they are and are no part of this project.  ``WARPWRIGHT_ZLUDA`` names the folder; by hand:

    WARPWRIGHT_ZLUDA=… python -m tests.test_ptx_conformance     # a line for each program that does not pass
"""

from __future__ import annotations

import math
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.ptx_module import load_ptx
from warpwright.kernel import Module

FOLDER = os.environ.get("WARPWRIGHT_ZLUDA", "")
WARP_TEST_THREADS = 64
FORMATS = {
    **{"u8": "<u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i8": "<i1", "i16": "<i2", "i32": "<i4", "i64": "<i8"},
    **{"f32": "<f4", "f64": "<f8", "f16": "<u2"},
}
INVALID = {
    "ldmatrix": "64 threads read 128 bytes past the end of a variable of 256 bytes",
    "mma_m16n8k16_f32_bf16_bf16_f32_2x": "64 threads write 32 bytes each to an output of 1,024",
}
"""Programs whose accesses leave their buffers, which a card does not notice and this engine does."""


@dataclass(frozen=True)
class Program:
    """One row of the table."""

    name: str
    inputs: Any
    outputs: Any
    threads: int


def split_top(text: str) -> list[str]:
    """Parts between commas that are in no bracket."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [p for p in (*parts, current.strip()) if p]


def half(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


def value(text: str) -> tuple[Any, str]:
    """A Rust literal as (value, its type or "")."""
    text = text.strip().replace(" ", "")
    sign = 1
    if text.startswith("-"):
        text, sign = text[1:], -1
    if text.startswith("half::f16::"):
        rest = text[len("half::f16::") :]
        known = {"NAN": 0x7E00, "NEG_INFINITY": 0xFC00, "INFINITY": 0x7C00}
        if rest.endswith(".to_bits()"):
            return known[rest.removesuffix(".to_bits()")], "u16"
        if rest in known:
            return known[rest], "f16"
        inner = rest[rest.index("(") + 1 : -1]
        return (int(inner, 0) if rest.startswith("from_bits") else half(float(inner))), "f16"
    match = re.fullmatch(r"(?:std::)?(f32|f64|u\d+|i\d+)::(.+)", text)
    if match is not None:
        type, rest = match[1], match[2]
        if rest.startswith("consts::PI"):
            return math.pi / (float(rest[len("consts::PI/") :].removesuffix("f32")) if "/" in rest else 1), type
        if rest.startswith("from_bits("):
            return struct.unpack("<f", struct.pack("<I", int(rest[10:-1], 0)))[0], type
        limits = (
            np.iinfo(type.replace("i", "int").replace("uint", "uint").replace("u", "uint")) if type[0] in "ui" else None
        )
        known = {"NAN": math.nan, "INFINITY": math.inf, "NEG_INFINITY": -math.inf}
        if limits is not None:
            known |= {"MAX": limits.max, "MIN": limits.min, "max_value()": limits.max}
        return sign * known[rest] if sign < 0 else known[rest], type
    match = re.fullmatch(
        r"(0x[0-9a-fA-F_]+?|0b[01_]+?|[0-9_]+?\.?[0-9_]*?(?:e-?\d+)?)_?(f32|f64|[ui](?:8|16|32|64))?", text
    )
    if match is None:
        raise ValueError(f"not a literal: {text}")
    digits, type = match[1].replace("_", ""), match[2] or ""
    if digits[:2] in ("0x", "0b"):
        return sign * int(digits, 0), type
    if "." in digits or type.startswith("f"):
        return sign * float(digits), type or "f32?"
    return sign * int(digits), type


def array(text: str) -> Any:
    """A Rust array of literals."""
    items = [value(x) for x in split_top(text.strip()[1:-1])]
    types = [t for _, t in items if t and t != "f32?"]
    type = types[0] if types else "f32" if any(t == "f32?" for _, t in items) else "i32"
    if type[0] in "ui":
        bits = int(type[1:])
        return np.array([int(v) & ((1 << bits) - 1) for v, _ in items], dtype=f"<u{bits // 8}")
    return np.array([v for v, _ in items], dtype=FORMATS[type])


def programs(folder: str) -> list[Program]:
    """The rows of ``mod.rs`` that have inputs or outputs."""
    path = Path(folder) / "mod.rs"
    text = re.sub(r"//[^\n]*", "", path.read_text())
    found = []
    for match in re.finditer(r"\b(test_ptx|test_ptx_with_32|test_ptx_warp)!\(", text[text.index("test_ptx!(ld_st,") :]):
        start = text.index("test_ptx!(ld_st,") + match.end()
        depth, end = 1, start
        while depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        parts = split_top(text[start : end - 1])
        if len(parts) == 2:
            found.append(Program(parts[0], None, array(parts[1]), WARP_TEST_THREADS))
        elif len(parts) == 3:
            found.append(Program(parts[0], array(parts[1]), array(parts[2]), 1))
    return found


def run(program: Program, engine: str, chip: str = "h200") -> Any:
    """What the program leaves in its output."""
    gpu = ww.GPU(chip, timing="off", engine=engine)
    text = (Path(FOLDER) / f"{program.name}.ptx").read_text()
    module = Module(gpu, load_ptx(text, gpu.chip.arch, gpu.memory, f"{program.name}.ptx"))
    output = np.zeros_like(program.outputs)
    name = program.name if program.name in module.kernels else module.kernels[0]
    inputs = np.zeros(16, np.uint64) if program.inputs is None else program.inputs
    buffers = [gpu.array(inputs), gpu.array(output)]
    dynamic = 1024 if "extern" in text and ".shared" in text else 0
    count = len(module[name].parameters)
    module[name][1, program.threads, dynamic](*(np.uint64(b.device_address()) for b in buffers[2 - count :]))
    return buffers[1].get()


def same(got: Any, want: Any) -> bool:
    if want.dtype.kind == "f":
        close = np.abs(got - want) <= np.abs(want) * 2.0**-20
        return bool((close | (np.isnan(got) & np.isnan(want)) | (got == want)).all())
    return bool((got == want).all())


@pytest.mark.skipif(not FOLDER, reason="WARPWRIGHT_ZLUDA does not name a folder")
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("program", programs(FOLDER) if FOLDER else [], ids=lambda p: p.name)
def test_public_program(program: Program, engine: str) -> None:
    if program.name in INVALID:
        with pytest.raises(ww.MemoryFaultError, match="out-of-bounds"):
            run(program, engine)
        return
    got = run(program, engine)
    assert same(got, program.outputs), f"{got} instead of {program.outputs}"


def main() -> None:
    """Run every program on both engines and print what fails."""
    for engine in ("interpreter", "compiled"):
        passed = 0
        rows = programs(FOLDER)
        for program in rows:
            try:
                got = run(program, engine)
                if same(got, program.outputs):
                    passed += 1
                    continue
                reason = f"gives {got.tolist()[:8]} instead of {program.outputs.tolist()[:8]}"
            except (ww.WarpwrightError, ValueError) as error:
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:220]}"
            print(f"{engine}: {program.name}: {reason}")
        print(f"{engine}: {passed} of {len(rows)} programs pass")


if __name__ == "__main__":
    main()

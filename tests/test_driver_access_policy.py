"""Residency control through the driver: limits and windows as an H200 answers them; windows of streams, launches and kernel nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from warpwright.toolchain import compile_source

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "bench" / "machine" / "l2_policies.py"
CARD = ROOT / "bench" / "data" / "h200" / "l2_policies.json"

PROGRAM = """
import ctypes, struct, sys
from pathlib import Path
from bench.machine.l2_policies import MIB, NORMAL, PERSISTING, STREAMING, WINDOW, Bench

b = Bench(Path(sys.argv[1]).read_bytes(), True)
hot, flood = b.card.alloc(8 * MIB), b.card.alloc(48 * MIB)
packed = struct.pack("<QQfII36x", hot.address, 8 * MIB, 1.0, PERSISTING, STREAMING)
value = ctypes.create_string_buffer(packed, 64)

def plain():
    b.read(hot.address, 8 * MIB)

def stream():
    b.window(hot.address, 8 * MIB, 1.0, PERSISTING, STREAMING)
    plain()
    b.window()

def launch():
    attribute = ctypes.create_string_buffer(struct.pack("<I4x", WINDOW) + packed, 72)
    cells = [ctypes.c_uint64(hot.address), ctypes.c_uint32(8 * MIB // 16), ctypes.c_int(1), ctypes.c_uint64(b.sink.address)]
    pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(cell) for cell in cells))
    shape = struct.pack("<7I4xQQI4x", 528, 1, 1, 512, 1, 1, 0, b.stream.value, ctypes.addressof(attribute), 1)
    b.call("cuLaunchKernelEx", ctypes.c_char_p(shape), b.module.function("read"), pointers, None)

def graph(node_has_it):
    made, ready = ctypes.c_void_p(), ctypes.c_void_p()
    b.call("cuStreamBeginCapture_v2", b.stream, ctypes.c_int(0))
    plain() if node_has_it else stream()
    b.call("cuStreamEndCapture", b.stream, ctypes.byref(made))
    if node_has_it:
        nodes, count = (ctypes.c_void_p * 1)(), ctypes.c_size_t(1)
        b.call("cuGraphGetNodes", made, nodes, ctypes.byref(count))
        b.call("cuGraphKernelNodeSetAttribute", ctypes.c_void_p(nodes[0]), ctypes.c_int(WINDOW), value)
    b.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), made, ctypes.c_ulonglong(0))
    b.call("cuGraphLaunch", ready, b.stream)

ways = {"plain": plain, "stream": stream, "launch": launch, "captured": lambda: graph(False), "node": lambda: graph(True)}
for name, way in ways.items():
    b.reset()
    b.set_aside(b.largest)
    b.read(flood.address, 48 * MIB)
    way()
    b.read(flood.address, 48 * MIB)
    print("took", name, b.microseconds(plain), flush=True)
"""


def run(*words: str | Path, gpu: str, timing: str) -> str:
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", gpu, "--timing", timing, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.ci
def test_limits_and_windows_are_answered_as_by_an_h200(tmp_path: Path) -> None:
    cubin, out = tmp_path / "l2.cubin", tmp_path / "out.json"
    cubin.write_bytes(compile_source(SCRIPT.with_suffix(".cu"), "90", options=["-std=c++17"]).cubin)
    run(SCRIPT, "--cubin", cubin, "--out", out, "--parts", "limits", gpu="h200", timing="off")
    found, card = (json.loads(path.read_text())["limits"] for path in (out, CARD))
    assert found["limits"] == card["limits"]
    assert found["windows"] == card["windows"]
    assert found["attributes"] == card["attributes"]


@pytest.mark.ci
def test_windows_of_streams_launches_and_kernel_nodes(tmp_path: Path) -> None:
    cubin, program = tmp_path / "l2.cubin", tmp_path / "program.py"
    cubin.write_bytes(compile_source(SCRIPT.with_suffix(".cu"), "80", options=["-std=c++17"]).cubin)
    program.write_text(PROGRAM)
    printed = run(program, cubin, gpu="a100", timing="full")
    took = {line.split()[1]: float(line.split()[2]) for line in printed.splitlines() if line.startswith("took")}
    assert set(took) == {"plain", "stream", "launch", "captured", "node"}
    for way in ("stream", "launch", "captured", "node"):
        assert took[way] < 0.8 * took["plain"], took

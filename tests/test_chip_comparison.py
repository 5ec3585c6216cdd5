"""One program on several chips: the table, what changed from chip to chip, and the page."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import warpwright as ww
from tests.browser import BROWSER, Browser
from warpwright.commands.error_lines import Copy
from warpwright.tools.chip_differences import Figures, Launch, difference, figures_of, match_launches
from warpwright.tools.chip_table import fitting_table, ratios
from warpwright.tools.report.chips_page import chips_page

TRANSPOSE = Path(__file__).parent.parent / "examples" / "transpose.py"
COPY = """
extern "C" __global__ void copy(const int *x, int *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i]; }
extern "C" __global__ void other(int *y) { y[threadIdx.x] = 1; }
"""


def figures(chip: str, **changes: object) -> Figures:
    """A launch of a microsecond of which nothing is notable."""
    record = ww.load_chip(chip, launch_overhead_cycles=0)
    plain: dict[str, object] = {"seconds": 1e-6, "cycles": 1000, "instructions": 100, "load_bytes": 128.0}
    plain |= {
        "store_bytes": 128.0,
        "l1_hit_percent": 0.0,
        "l2_hit_percent": 50.0,
        "dram_bytes": 1 << 20,
        "dram_percent": 10.0,
    }
    plain |= {
        "occupancy_percent": 100.0,
        "active_warps": 20.0,
        "bank_passes": 1.0,
        "launch_share": 0.0,
        "lanes": 32,
        "reason": "latency",
    }
    return Figures(**{"chip": record, "note": "", **plain, **changes})  # type: ignore[arg-type]


def test_what_is_alike_is_not_told() -> None:
    assert (
        difference(figures("a100"), figures("a100"))
        == "a100 takes 1.00 µs, about as fast as a100. Limited by: latency."
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"load_bytes": 256.0}, "a load by a warp moves 256 bytes instead of 128"),
        ({"dram_bytes": 3 << 20}, "DRAM moves 3.00 MiB instead of 1.00 MiB"),
        ({"l2_hit_percent": 70.0}, "L2 hits 70% instead of 50%"),
        ({"bank_passes": 4.0}, "an access of shared memory takes 4.00 times its passes for conflicts instead of 1.00"),
        ({"active_warps": 40.0}, "an SM has 40 active warps instead of 20, of at most 64"),
        ({"active_warps": 1.0}, "an SM has 1 active warp instead of 20, of at most 64"),
        ({"instructions": 250}, "its code executes 2.50 times the instructions"),
        ({"launch_share": 0.6}, "60% of the time is before the first block runs"),
    ],
)
def test_each_mechanism_that_changed_is_told(changes: dict[str, object], said: str) -> None:
    assert difference(figures("a100"), figures("a100", **changes)) == (
        f"a100 takes 1.00 µs, about as fast as a100: {said}. Limited by: latency."
    )


def test_numbers_of_warps_that_round_to_the_same_have_decimals() -> None:
    said = difference(figures("a100", active_warps=1.0), figures("a100", active_warps=1.4))
    assert "an SM has 1.4 active warps instead of 1.0, of at most 64" in said


def test_the_machine_the_rule_and_the_caches_are_told() -> None:
    old = figures(
        "g80", l2_hit_percent=None, store_bytes=1024.0, dram_percent=60.0, reason="DRAM bandwidth", seconds=4e-6
    )
    told = difference(old, figures("gtx480"))
    assert told.startswith(
        "gtx480 takes 1.00 µs, 4.00 times as fast as g80: a store by a warp moves 128 bytes instead of 1,024 (whole lines"
    )
    assert "caches are new: 0% of loads hit in L1, 50% of requests in L2 of 0.75 MiB" in told
    assert "its DRAM has 2.05 times the bandwidth, of which 10% is used" in told
    assert told.endswith("Limited by: latency (before: DRAM bandwidth).")
    waves = difference(figures("gtx480"), figures("hd6970", lanes=64, instructions=50, load_bytes=256.0))
    assert "a load by a wavefront of 64 lanes moves 256 bytes instead of 128" in waves
    assert "its code executes 0.500 times the instructions, each for 64 lanes instead of 32" in waves
    assert "132 SMs at 1,980 MHz instead of 108 at 1,410" in difference(figures("a100"), figures("h200"))
    assert ", 4.00 times as long as gtx480" in difference(figures("gtx480"), old)
    assert ", about as fast as gtx480" in difference(figures("gtx480"), figures("hd6970"))


def test_launches_are_matched_by_their_place() -> None:
    runs = {}
    for chip, names in {"p100": ("copy", "other", "copy"), "v100": ("copy", "copy")}.items():
        gpu = ww.GPU(chip, timing="full")
        module = gpu.compile(COPY)
        for name in names:
            arguments = [np.zeros(64, np.int32) for _ in range(2 if name == "copy" else 1)]
            module[name][1, 64](*arguments)
        runs[chip] = gpu.launches
    found = match_launches(runs)
    assert [(launch.kernel, sorted(launch.runs)) for launch in found] == [
        ("copy", ["p100", "v100"]),
        ("other", ["p100"]),
        ("copy", ["p100", "v100"]),
    ]
    first = found[0].figures()
    assert first["p100"].load_bytes == first["p100"].store_bytes == 128
    assert ratios(first)["p100"] == ("", "")
    page = chips_page(found, {"g80": "no <reason>"}, "program.py")
    assert "program.py on 2 chips" in page
    assert "no &lt;reason&gt;" in page
    gpu = ww.GPU("p100", timing="off")
    gpu.compile(COPY)["copy"][1, 64](np.zeros(64, np.int32), np.zeros(64, np.int32))
    with pytest.raises(ValueError, match="the run of copy has no cycles"):
        figures_of(gpu.launches[0])


@pytest.mark.ci
def test_bytes_of_a_wavefront_are_those_of_amd_s_lines() -> None:
    """A sector has 64 bytes there: 64 lanes that load and store consecutive words move 256."""
    gpu = ww.GPU("hd6970", timing="full")
    gpu.compile(COPY)["copy"][1, 64](np.zeros(64, np.int32), np.zeros(64, np.int32))
    found = figures_of(gpu.launches[0])
    assert found.load_bytes == found.store_bytes == 256


def command(*words: str) -> tuple[int, str]:
    """Exit code and output of a command in a separate process: the driver's device of a process is the first chip that it had."""
    done = subprocess.run(
        [sys.executable, "-m", "warpwright", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "160"},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.ci
def test_a_program_is_compared_over_ten_years(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    chips = ["g80", "gtx480", "p100"]
    code, output = command("compare", "--report", str(page), *chips, "--", str(TRANSPOSE), "64")
    assert code == 0, output
    assert "× g80" in output
    assert all(name in output for name in ("transpose_plain", "transpose_tiled", "transpose_padded"))
    text = page.read_text(encoding="utf-8")
    assert "gtx480 takes" in text
    assert "PTX, timed by a scoreboard" in text
    if BROWSER is not None:
        with Browser(tmp_path / "profile") as browser:
            browser.look(1400, False)
            browser.open(page)
            # A page without contents on its left takes the width for itself.
            assert browser.evaluate("document.querySelector('main').clientWidth") > 1100


@pytest.mark.ci
def test_a_chip_that_cannot_run_the_program_is_left_out_with_its_reason(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, warpwright as ww\n"
        "source = 'extern \"C\" __global__ void k(int *x) { x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1); }'\n"
        "ww.GPU().compile(source)['k'][1, 32](np.zeros(32, np.int32))\n"
    )
    words = ["compare", "--timing", "off", "gtx480", "v100", "--", str(program)]
    code, output = command(*words)
    assert code == 0, output
    assert "gtx480 does not run it: " in output
    assert "it needs compute capability 3.0" in " ".join(output.split())
    assert command(*(w for w in words if w != "v100"))[0] == 1


NAMES_ITS_DEVICE = """
import ctypes

driver, name, device = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(99), ctypes.c_int()
assert driver.cuInit(0) == driver.cuDeviceGet(ctypes.byref(device), 0) == 0
assert driver.cuDeviceGetName(name, 99, device) == 0
print("runs on", name.value.decode())
"""


@pytest.mark.ci
def test_a_program_on_the_driver_gets_each_chip(tmp_path: Path) -> None:
    """Also the later ones, although a process's driver keeps its first chip."""
    program = tmp_path / "program.py"
    program.write_text(NAMES_ITS_DEVICE)
    code, output = command("compare", "v100", "a100", "h200", "--", str(program))
    assert code == 0, output
    assert re.findall(r"runs on (?:Tesla |NVIDIA )?(\w+)", output) == ["V100", "A100", "H200"]


@pytest.fixture(scope="module")
def copies() -> list[Launch]:
    """A launch on two chips."""
    by_chip = {}
    for chip in ("v100", "a100"):
        x, y = np.arange(1 << 14, dtype=np.int32), np.zeros(1 << 14, np.int32)
        by_chip[chip] = [ww.GPU(chip).compile(COPY)["copy"][64, 256](x, y)]
    return match_launches(by_chip)


@pytest.mark.parametrize(("width", "missing"), [(60, "instructions"), (80, "L1 hit"), (110, "× before"), (200, "")])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers(copies: list[Launch], width: int, missing: str) -> None:
    """No number is cut short, and the frame is closed."""
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    table, without = fitting_table(copies, ["v100", "a100"], "copy.py", console)
    assert (missing in without) if missing else not without
    with console.capture() as printed:
        console.print(table)
    _, top, *lines = printed.get().splitlines()
    assert top.rstrip().endswith("┓")
    assert max(len(line) for line in (top, *lines)) <= width
    assert not any("…" in line for line in lines)
    run = copies[0].runs["v100"]
    (row,) = [line for line in lines if line.startswith("│   v100")]
    assert f" {run.cycles:,} │" in row
    assert row.rstrip().endswith("│")


@pytest.mark.ci
def test_a_chip_on_which_the_program_fails_does_not_end_the_comparison(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy as np, warpwright as ww\n"
        "gpu = ww.GPU()\n"
        "if gpu.name == 'v100':\n"
        "    sys.exit(7)\n"
        "gpu.compile('extern \"C\" __global__ void k(int *x) { x[threadIdx.x] = 1; }')['k'][1, 32](np.zeros(32, np.int32))\n"
    )
    words = ["compare", "--timing", "off", "v100", "p100", "a100", "--", str(program)]
    done = subprocess.run([sys.executable, "-m", "warpwright", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert f"v100 does not run it: {program} ended with exit code 7; see its output above" in " ".join(
        done.stdout.split()
    )
    assert re.search(r"p100.*a100", done.stdout, re.DOTALL)


@pytest.mark.ci
@pytest.mark.parametrize("words", [[], [sys.executable]], ids=["file", "command"])
def test_the_page_has_the_error_of_a_chip_on_which_the_program_fails(tmp_path: Path, words: list[str]) -> None:
    program, page = tmp_path / "program.py", tmp_path / "page.html"
    program.write_text(
        "import ctypes, numpy as np, warpwright as ww\n"
        "gpu = ww.GPU()\n"
        "if gpu.name == 'v100':\n"
        "    raise RuntimeError('tables <of> sm_70\\nare missing')\n"
        "gpu.compile('extern \"C\" __global__ void k(int *x) { x[threadIdx.x] = 1; }')['k'][1, 32](np.zeros(32, np.int32))\n"
    )
    asked = ["compare", "--report", str(page), "v100", "a100", "--", *words, str(program)]
    done = subprocess.run([sys.executable, "-m", "warpwright", *asked], capture_output=True, text=True, check=False)
    assert "RuntimeError: tables <of> sm_70" in done.stderr, "it still reaches the terminal"
    text = page.read_text(encoding="utf-8")
    assert "ended with exit code 1<pre>RuntimeError: tables &lt;of&gt; sm_70\nare missing</pre>" in text


def test_the_error_of_a_program_without_a_traceback_is_its_last_lines() -> None:
    copy = Copy()
    for number in range(8):
        copy.add(b"line %d\n" % number)
    copy.add(
        b"\x1b[31mwarpwright: k: 1 of 2 blocks, 5 s\nnote: the program failed.\n\x1b[31mno kernel image\x1b[0m\r\n"
    )
    assert copy.error() == "line 4\nline 5\nline 6\nline 7\nno kernel image"


def test_an_error_of_several_lines_is_shown_from_its_first_one() -> None:
    message = "".join(["deadlock in kernel k, block (0, 0, 0)\n", *(f"  warp {n}: waits\n" for n in range(9))])
    launch, own = Copy(), Copy()
    launch.add(b"begin\nwarpwright: k: 1 of 2 blocks, 5 s, 1 min 5 s left\nwarpwright: " + message.encode())
    launch.add(b"main.cu:13 cudaDeviceSynchronize(): the launch timed out\n")
    own.add(b"begin\nkernel.py:3: " + message.encode())
    assert launch.error().splitlines()[0] == "warpwright: deadlock in kernel k, block (0, 0, 0)"
    assert own.error().splitlines()[0] == "kernel.py:3: deadlock in kernel k, block (0, 0, 0)"
    assert own.error().splitlines()[-1] == "  warp 6: waits"


def test_a_page_without_a_launch_says_why() -> None:
    page = chips_page([], {"v100": "k ended with exit code 1\nno <kernel> image"}, "k")
    assert "<h1>k: no launches</h1>" in page
    assert "k ended with exit code 1<pre>no &lt;kernel&gt; image</pre>" in page
    assert "The program launched no kernel." in chips_page([], {}, "k")


@pytest.mark.ci
def test_a_command_that_fails_on_every_chip_is_reported_for_each(tmp_path: Path) -> None:
    """By its name and arguments rather than the interpreter's path."""
    program = "import sys; sys.exit(3)"
    page = tmp_path / "page.html"
    words = ["--timing", "full", "--report", str(page), "v100", "a100", "--", sys.executable, "-c", program]
    code, output = command("compare", *words)
    assert code == 3
    assert f"wrote {page}" in output
    assert page.read_text(encoding="utf-8").count("ended with exit code 3") == 2
    name = Path(sys.executable).name
    for chip in ("v100", "a100"):
        assert f"{chip} does not run it: {name} -c '{program}' ended with exit code 3; see its output above" in output

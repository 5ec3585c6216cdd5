"""Mesa's ``r600`` driver on the simulated Cypress and Cayman: its machine code decodes as its own disassembly has it, and compute shaders run."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.glsl_programs import GROUPS
from tests.glsl_shaders import COMPUTE, DRAWN
from tests.mesa_drivers import complaints, needs_mesa, run, saved_by
from tests.mesa_r600 import Dump, differences, dumps
from warpwright.isa.r600.decode import decode_program
from warpwright.isa.r600.layouts import CAYMAN

pytestmark = needs_mesa("r600")
CHIPS = ("hd5870", "hd6970")
PROGRAM = Path(__file__).with_name("glsl_programs.py")
PIGLIT = next(iter(Path("/usr/lib").glob("*/piglit")), Path("/usr/lib/piglit"))
needs_piglit = pytest.mark.skipif(not (PIGLIT / "bin/shader_runner").is_file(), reason="needs piglit")


@cache
def own_programs(chip: str) -> list[Dump]:
    """What Mesa makes of ``glsl_shaders.py`` and of its own blits."""
    done = run(chip, str(PROGRAM), R600_DEBUG="cs,vs,ps")
    assert done.returncode == 0, done.stderr
    assert not complaints(done.stderr), done.stderr
    return list(dumps(done.stderr))


@pytest.mark.parametrize("chip", CHIPS)
def test_every_word_of_mesa_decodes_as_mesa_prints_it(chip: str) -> None:
    programs = own_programs(chip)
    assert len(programs) >= len(COMPUTE) + 2
    wrong = [line for program in programs for line in differences(program)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_programs_hold_what_they_are_for(chip: str) -> None:
    """Fetches, samples, local and global data share, random access targets, barriers, loops, interpolation, exports."""
    programs = own_programs(chip)
    text = " ".join(line for program in programs for line in program.lines.values())
    operations = {
        word.rat_operation
        for p in programs
        for word in decode_program(p.code, p.generation).control
        if word.rat_operation
    }
    wanted = {name for _, names in COMPUTE.values() for name in names} | set(DRAWN)
    assert not [name for name in wanted if name not in operations and not re.search(rf"\b{name}", text)]


def results(chip: str, timing: str) -> tuple[dict[str, Any], str]:
    found, printed = saved_by(PROGRAM, chip, timing)
    name = "CAYMAN" if chip == "hd6970" else "CYPRESS"
    assert f"renderer: AMD {name}" in printed
    return found, printed


def collatz(v: int, table: Any, limit: int) -> int:
    steps = 0
    for n in range(limit):
        if v == 1:
            break
        if v % 7 == 3:
            v += int(table[n % 20][2])
            continue
        v = 3 * v + 1 if v & 1 else v // 2
        steps += 1
    return (v * 1000 + steps) % 2**32


@pytest.mark.parametrize("chip", CHIPS)
def test_compute_shaders_give_their_results(chip: str) -> None:
    found, _ = results(chip, "off")
    floats, words, table = found["floats"], found["words"], found["table"]
    scaled = np.float32(2.5) * floats + (np.arange(768) // 64).astype(np.float32)
    assert (found["scale"].view(np.float32) == scaled).all()
    reverse = words.reshape(12, 128)[:, ::-1].ravel() + 1536 + 10000 * GROUPS[1]
    assert (found["reverse"] == reverse).all()
    assert found["collatz"].tolist() == [collatz(int(v), table, 25) for v in words]


@pytest.mark.parametrize("chip", CHIPS)
def test_atomics_on_buffers_local_data_share_and_counters(chip: str) -> None:
    found, _ = results(chip, "off")
    words, bins = found["words"], found["histogram"]
    assert (bins[:16] == np.bincount(words & 15, minlength=16)).all()
    assert bins[16] == words.max()
    assert bins[18] == words.min()
    assert (bins[19:27] == 7 + np.arange(8)).all()
    # The counter begins at 5.
    assert found["counter"][0] == 5 + (words < 100).sum()


@pytest.mark.parametrize("chip", CHIPS)
def test_float_and_bit_functions(chip: str) -> None:
    found, _ = results(chip, "off")
    x, got = found["floats"].astype(float), found["arithmetic"].view(np.float32).reshape(-1, 4)
    number = np.arange(768)
    assert np.allclose(got[:, 0], np.sqrt(abs(x)), rtol=2e-7)
    assert (got[:, 2] == np.clip(found["floats"], 0, 1)).all()
    power = np.where(x > 3, np.exp2(x), 1 / np.sqrt(1 + x * x))
    assert np.allclose(got[:, 3], power, rtol=1e-6)
    assert (got[number % 3 == 0, 1] == np.floor(x[number % 3 == 0])).all()
    bits = got.view(np.uint32)[:, 1]
    for i in number[number % 3 == 1]:
        assert bits[i] == int(f"{i:032b}"[::-1], 2)
    for i in number[number % 3 == 2]:
        assert bits[i] == int(i).bit_count() | int(i).bit_length() - 1 << 8


@pytest.mark.parametrize("chip", CHIPS)
def test_cycles_do_not_change_the_results(chip: str) -> None:
    plain, _ = results(chip, "off")
    timed, shown = results(chip, "full")
    for name in ("scale", "reverse", "collatz", "histogram", "counter", "arithmetic"):
        assert (plain[name] == timed[name]).all(), name
    assert "cycles" in shown
    assert "compute_shader_0" in shown


@pytest.mark.parametrize("chip", CHIPS)
def test_the_page_s_example(chip: str) -> None:
    done = run(chip, str(Path(__file__).parents[1] / "examples/compute_shader.py"))
    assert "[126. 124. 122. 120.]" in done.stdout, done.stderr


def test_draws_are_refused_by_name(tmp_path: Path) -> None:
    code = (
        "import moderngl\n"
        "c = moderngl.create_context(standalone=True, backend='egl')\n"
        "p = c.program(vertex_shader='#version 330\\nvoid main() { gl_Position = vec4(0.0); }',"
        " fragment_shader='#version 330\\nout vec4 o; void main() { o = vec4(1.0); }')\n"
        "f = c.framebuffer([c.renderbuffer((8, 8))]); f.use()\n"
        "c.vertex_array(p, []).render(vertices=3); f.read()\n"
    )
    place = tmp_path / "draws.py"
    place.write_text(code)
    done = run("hd6970", str(place))
    assert "the graphics pipeline of Cypress and Cayman is not modelled" in done.stderr


@pytest.mark.slow
@needs_piglit
@pytest.mark.parametrize("chip", CHIPS)
def test_what_mesa_makes_of_piglits_programs_decodes(chip: str) -> None:
    """Every 150th program of piglit, and all of its compute programs: what Mesa compiles of each."""
    files = sorted((PIGLIT / "tests/spec").rglob("*.shader_test"))
    compute = [f for f in files if "arb_compute_shader/execution" in str(f)]
    seen: dict[bytes, list[str]] = {}
    # A compute program on images ends its process.
    for chosen in (files[::150], *([f] for f in compute)):
        done = run(
            *(chip, "--timing", "off"),
            *map(str, [PIGLIT / "bin/shader_runner", *chosen, "-auto", "-fbo"]),
            R600_DEBUG="cs,vs,ps,gs,tcs,tes",
            PIGLIT_PLATFORM="surfaceless_egl",
        )
        for program in dumps(done.stderr + done.stdout):
            if program.code not in seen:
                seen[program.code] = differences(program)
    wrong = [line for lines in seen.values() for line in lines]
    assert not wrong, "\n".join(wrong)
    assert len(seen) > 55, len(seen)


BUFFER_TESTS = (
    *(
        "atomic-counter",
        "basic-global-id",
        "basic-group-id",
        "basic-local-id-atomic",
        "basic-local-index",
        "basic-ssbo",
    ),
    *("basic-uniform-access-atomic", "separate-global-id", "shared-atomicAdd-int", "shared-atomicCompSwap-int"),
    *("shared-atomicExchange-int", "shared-atomicMax-int", "shared-atomicMin-uint", "shared-atomics"),
    "simple-barrier-atomics",
)
"""Piglit's compute tests that need neither images nor draws."""


@pytest.mark.slow
@needs_piglit
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", BUFFER_TESTS)
def test_piglits_compute_tests_pass(name: str, chip: str) -> None:
    test = PIGLIT / f"tests/spec/arb_compute_shader/execution/{name}.shader_test"
    runner = str(PIGLIT / "bin/shader_runner")
    done = run(chip, "--timing", "off", runner, str(test), "-auto", "-fbo", PIGLIT_PLATFORM="surfaceless_egl")
    assert 'PIGLIT: {"result": "pass" }' in done.stdout, done.stdout + done.stderr


def test_generations_are_those_of_the_chips() -> None:
    assert {p.generation for p in own_programs("hd6970")} == {CAYMAN}

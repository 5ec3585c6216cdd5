"""Graphics programs of NV50: what Mesa's compiler makes prints as envydis prints it, and runs alike in both engines and as NumPy says."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.nv50_shaders import code_of, recorded
from warpwright.errors import UnsupportedError
from warpwright.graphics.shader_programs import BadProgram, Engine, Pixels, ShaderProgram, load_program
from warpwright.isa.nv50.decode import context_of, encode, rows_called
from warpwright.isa.nv50.fields import DoesNotFit
from warpwright.isa.nv50.lower_graphics import reachable
from warpwright.isa.nv50.stage_words import STAGES
from warpwright.isa.nv50.text import text_of
from warpwright.isa.program import Kind, Operand

ENGINES: tuple[Engine, ...] = ("compiled", "interpreter")
WITHOUT_TEXTURES = [n for n in recorded() if "tex" not in " ".join(recorded()[n]["text"].values())]
RESULTS = {"pixel_targets": 8, "pixel_position": 5}


@pytest.mark.parametrize("name", recorded())
def test_words_of_mesas_compiler_print_as_envydis_prints_them(name: str) -> None:
    entry = recorded()[name]
    found = reachable(code_of(name), 0, STAGES[entry["stage"]])
    assert {str(i.address): text_of(i.encoding, 10, STAGES[entry["stage"]]) for i in found} == entry["text"]


def test_the_recorded_programs_use_every_graphics_instruction() -> None:
    texts = " ".join(text for entry in recorded().values() for text in entry["text"].values())
    for word in (
        *(
            "texauto",
            "texbias",
            "texlod",
            "texfetch",
            "texsize",
            "cube",
            "interp",
            "flat",
            "cent",
            "quadop",
            "quadon",
            "quadpop",
        ),
        *("discard", "emit", "restart", "p[$a1", "a[0x4]", "ld b32", "o[0x", "c1[", "l[", "joinat", "(l3)", "deriv"),
    ):
        assert word in texts, word


def load(name: str) -> ShaderProgram:
    stage = recorded()[name]["stage"]
    return load_program(code_of(name), 0, stage, results=RESULTS.get(name, 4), local_bytes=256, name=name)


CONSTANTS = {n: np.random.default_rng(n).uniform(0.5, 2, 64).astype(np.float32).tobytes() for n in range(16)}


def pixels(quads: int = 24, seed: int = 3) -> Pixels:
    """Quads of three primitives, whose planes are not zero at any pixel; the last warp is not full."""
    chance = np.random.default_rng(seed)
    corner = chance.integers(0, 64, (quads, 2)).repeat(4, axis=0).astype(np.float32)
    place = corner + np.tile([(0.5, 0.5), (1.5, 0.5), (0.5, 1.5), (1.5, 1.5)], (quads, 1)).astype(np.float32)
    planes = chance.uniform(0.5, 2, (3, 12, 4)).astype(np.float32)
    planes[:, :, 1:3] *= chance.choice([-0.004, 0.03], (3, 12, 2)).astype(np.float32)
    facing = np.array([True, False, True])
    inner = place + np.float32(0.125)
    primitive = np.repeat(np.arange(quads) % 3, 4).astype(np.int32)
    x, y, cx, cy = (np.ascontiguousarray(v) for v in (place[:, 0], place[:, 1], inner[:, 0], inner[:, 1]))
    return Pixels(primitive, x, y, planes, facing, cx, cy)


def run(name: str, engine: Engine) -> list[Any]:
    """Everything that a program gives for fixed inputs."""
    program, chance = load(name), np.random.default_rng(7)
    if program.stage == "pixel":
        return list(program.run_pixels(pixels(), CONSTANTS, engine=engine))
    if program.stage == "vertex":
        inputs = chance.uniform(0, 4, (75, 8)).astype(np.float32)
        return [program.run_vertices(inputs.view(np.uint32), CONSTANTS, engine=engine)]
    vertices = chance.uniform(1, 6, (40, 3, 8)).astype(np.float32)
    emitted = program.run_primitives(
        vertices.view(np.uint32), np.arange(40, dtype=np.uint32), 4, CONSTANTS, engine=engine
    )
    return [emitted.words, emitted.counts, emitted.cuts]


@pytest.mark.ci
@pytest.mark.parametrize("name", WITHOUT_TEXTURES)
def test_both_engines_give_the_same_bits(name: str) -> None:
    for compiled, interpreted in zip(run(name, "compiled"), run(name, "interpreter"), strict=True):
        assert np.array_equal(compiled, interpreted)


# --- values that NumPy gives ------------------------------------------------------------------------
def at_pixels(p: Pixels, slot: int, centroid: bool = False) -> np.ndarray:
    """An attribute's plane at the pixels, in double precision."""
    plane = p.planes[p.primitive, slot].astype(np.float64)
    x, y = (p.centroid_x, p.centroid_y) if centroid else (p.x, p.y)
    assert x is not None
    assert y is not None
    return np.asarray(plane[:, 0] + plane[:, 1] * x + plane[:, 2] * y)


def floats(name: str, p: Pixels, engine: Engine = "compiled") -> np.ndarray:
    return load(name).run_pixels(p, CONSTANTS, engine=engine)[0].view(np.float32)


def test_perspective_divides_by_the_plane_of_1_over_w() -> None:
    """The standalone compiler puts 1/W into slot 0, where the first attribute is as well."""
    p = pixels()
    constant = np.frombuffer(CONSTANTS[0], np.float32)[:4]
    wanted = np.stack([at_pixels(p, s) / at_pixels(p, 0) * constant[s] for s in range(4)], axis=1)
    np.testing.assert_allclose(floats("pixel_perspective", p), wanted, rtol=1e-6)


def test_linear_attributes_are_planes() -> None:
    p = pixels()
    wanted = np.stack([at_pixels(p, s) + at_pixels(p, s + 4) for s in range(4)], axis=1)
    np.testing.assert_allclose(floats("pixel_linear", p), wanted, rtol=3e-7)


def test_flat_attributes_are_the_provoking_vertex_s_words() -> None:
    p = pixels()
    p.planes.view(np.uint32)[:, :, 3] = np.random.default_rng(1).integers(0, 1 << 31, (3, 12))
    words = p.planes.view(np.uint32)[p.primitive, :, 3]
    found, _ = load("pixel_flat").run_pixels(p, CONSTANTS)
    assert np.array_equal(found, words[:, :4] + words[:, 4:8])


def test_centroids_have_places_of_their_own() -> None:
    p = pixels()
    one_over_w = at_pixels(p, 0), at_pixels(p, 0, True)
    wanted = at_pixels(p, 1, True) * at_pixels(p, 5)
    found = floats("pixel_centroid", p)[:, 1]
    best = min(np.abs(found * a * b - wanted).max() for a in one_over_w for b in one_over_w)
    assert best < 1e-5


def test_derivatives_are_differences_within_the_quad() -> None:
    p = pixels()
    value = [at_pixels(p, s) / at_pixels(p, 0) for s in range(8)]
    lane = np.arange(len(p.x))
    for s in range(4):
        right, left = value[s][lane | 1], value[s][lane & ~1]
        below, above = value[s][lane | 2], value[s][lane & ~2]
        wanted = (right - left) * value[s + 4] + (below - above)
        np.testing.assert_allclose(floats("pixel_derivatives", p)[:, s], wanted, atol=3e-6)


def test_discarded_pixels_are_told_and_go_on_for_derivatives() -> None:
    p = pixels()
    ratio = at_pixels(p, 4) / at_pixels(p, 0)
    first = at_pixels(p, 0) / at_pixels(p, 0)
    found, discarded = load("pixel_discard_in_branch").run_pixels(p, CONSTANTS)
    clear = np.abs(ratio - first) > 1e-5
    assert np.array_equal(discarded[clear], (first < ratio)[clear])
    assert discarded.any()
    assert not discarded.all()
    value, lane = at_pixels(p, 1) / at_pixels(p, 0), np.arange(len(p.x))
    wanted = value[lane | 1] - value[lane & ~1]
    alive = ~discarded.reshape(-1, 4).all(axis=1).repeat(4)
    np.testing.assert_allclose(found.view(np.float32)[alive, 1], wanted[alive], atol=2e-6)


def test_loops_with_branches_divide_and_join() -> None:
    p = pixels()
    w = (1 / at_pixels(p, 0)).astype(np.float32)
    value = [(at_pixels(p, s).astype(np.float32) * w).astype(np.float64) for s in range(8)]
    x = np.stack(value[:4], axis=1)
    clear = np.ones(len(x), np.bool_)
    for _ in range(5):
        product = (value[4] < x[:, 0])[:, None]
        clear &= np.abs(value[4] - x[:, 0]) > 1e-5
        x = np.where(product, x * np.stack(value[4:], axis=1), x + np.stack(value[4:], axis=1))
    assert clear.sum() > 50
    np.testing.assert_allclose(floats("pixel_loop", p)[clear], x[clear], rtol=1e-5)


def test_vertices_are_transformed() -> None:
    chance = np.random.default_rng(2)
    inputs = chance.uniform(-2, 2, (101, 8)).astype(np.float32)
    found = load("vertex_transform").run_vertices(inputs.view(np.uint32), CONSTANTS).view(np.float32)
    matrix = np.frombuffer(CONSTANTS[0], np.float32)[:16].reshape(4, 4).astype(np.float64)
    np.testing.assert_allclose(found[:, :4], inputs[:, :4].astype(np.float64) @ matrix, atol=1e-5)
    assert np.array_equal(found[:, 4:8], inputs[:, 4:])


def test_constants_and_attributes_that_are_absent_are_zero() -> None:
    inputs = np.ones((3, 4), np.float32)
    found = load("vertex_transform").run_vertices(inputs.view(np.uint32), {}).view(np.float32)
    assert found.shape == (3, 8)
    assert not found.any()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_geometry_program_emits_as_many_vertices_as_it_wants(engine: Engine) -> None:
    vertices = np.zeros((70, 2, 4), np.float32)
    vertices[:, 0, 0] = np.arange(70) % 13
    vertices[:, 1] = np.arange(280).reshape(70, 4)
    program = load("geometry_loop")
    emitted = program.run_primitives(vertices.view(np.uint32), np.zeros(70, np.uint32), 10, {}, engine=engine)
    assert np.array_equal(emitted.counts, np.minimum(np.arange(70) % 13, 10))
    found = emitted.words.view(np.float32)
    for n in range(70):
        for k in range(emitted.counts[n]):
            assert np.array_equal(found[n, k], vertices[n, 1] + k)
    assert not emitted.cuts.any()


def test_groups_of_primitives_are_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("geometry_pass", "compiled")
    monkeypatch.setattr("warpwright.graphics.shader_programs.RUN_BYTES", 1)
    for a, b in zip(whole, run("geometry_pass", "compiled"), strict=True):
        assert np.array_equal(a, b)


def test_restart_begins_a_strip() -> None:
    vertices = np.random.default_rng(5).uniform(0, 1, (9, 3, 4)).astype(np.float32)
    emitted = load("geometry_indexed").run_primitives(vertices.view(np.uint32), np.zeros(9, np.uint32), 4, {})
    assert (emitted.counts == 3).all()
    assert np.array_equal(emitted.cuts, np.tile([False, True, True, True, False], (9, 1)))
    wanted = vertices + np.arange(3, dtype=np.uint32).view(np.uint32)[None, :, None].astype(np.float32)
    np.testing.assert_allclose(emitted.words[:, :3].view(np.float32), wanted, rtol=1e-6)


def assembled(stage: str, *instructions: tuple[str, tuple[Any, ...], str]) -> bytes:
    """Long words of instructions: opcode, tokens, tail."""
    context, code = context_of(10, STAGES[stage]), b""
    for opcode, tokens, tail in instructions:
        for row in rows_called(opcode):
            if not row.is_wide or not row.fits(context):
                continue
            try:
                code += encode(row, tokens, context, None, tail).to_bytes(8, "little")
                break
            except DoesNotFit:
                continue
        else:
            raise AssertionError(f"{opcode} {tokens}")
    return code


@pytest.mark.parametrize("engine", ENGINES)
def test_geometry_programs_read_the_primitive_s_number(engine: Engine) -> None:
    number = Operand(Kind.MEMORY, value=0x18, name="a")
    to = Operand(Kind.MEMORY, value=0, name="o")
    code = assembled("geometry", ("mov", ("mov", "b32", to, number), ""), ("emit", ("emit",), "exit"))
    program = load_program(code, 0, "geometry")
    ids = np.array([7, 0, 12345], np.uint32)
    emitted = program.run_primitives(np.zeros((3, 1, 2), np.uint32), ids, 1, {}, engine=engine)
    assert np.array_equal(emitted.words[:, 0, 0], ids)


def test_a_program_needs_not_begin_at_its_lowest_address() -> None:
    """The entry is code that jumps back."""
    code = code_of("vertex_clip")
    jump = len(code) + len(code) % 8
    back = assembled("vertex", ("bra", ("bra", Operand(Kind.LABEL, value=0)), ""))
    moved = load_program(code + bytes(jump - len(code)) + back, jump, "vertex")
    inputs = np.random.default_rng(3).uniform(-1, 1, (40, 4)).astype(np.float32).view(np.uint32)
    assert np.array_equal(moved.run_vertices(inputs, {}), load("vertex_clip").run_vertices(inputs, {}))


def test_local_memory_reaches_as_far_as_the_program_writes() -> None:
    """Although the driver's register says less."""
    p, whole = pixels(), load("pixel_array")
    short = load_program(code_of("pixel_array"), 0, "pixel", results=4, local_bytes=16)
    assert whole.program.local_bytes_per_thread == 256
    assert short.program.local_bytes_per_thread == 64
    p.planes[:, 4] = p.planes[:, 0] * 2.25  # the index of the array is 2
    found = [program.run_pixels(p, CONSTANTS)[0] for program in (whole, short)]
    assert np.array_equal(*found)


# --- what is wrong ----------------------------------------------------------------------------------
def test_code_that_leaves_its_segment_is_refused() -> None:
    code = code_of("vertex_transform")
    with pytest.raises(
        BadProgram, match=r"vertex program at 0x0: the program continues at 0x[0-9a-f]+, outside of its code of"
    ):
        load_program(code[:-8], 0, "vertex")


def test_a_texture_instruction_without_textures_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="pixel_offset has texture instructions and was given no textures"):
        load("pixel_offset").run_pixels(pixels(), CONSTANTS)


def test_a_quad_has_four_pixels() -> None:
    p = pixels()
    p.primitive = p.primitive[:-1]
    with pytest.raises(ValueError, match="not a multiple of 4"):
        load("pixel_linear").run_pixels(p, CONSTANTS)


@pytest.mark.parametrize("stage", STAGES)
def test_random_code_is_a_program_or_refused(stage: Any) -> None:
    chance, programs = random.Random(stage), 0
    for _ in range(3000):
        words = [chance.getrandbits(32) for _ in range(6)]
        code = b"".join(w.to_bytes(4, "little") for w in (*words, 0xF0000001, 0xE0000001))
        try:
            program = load_program(code, 0, stage, results=4)
            programs += 1
            _ = program.lowered
        except (BadProgram, UnsupportedError):
            continue
    assert programs > 3

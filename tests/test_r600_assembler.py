"""The assembler of clauses, and what only it can make: global data share and image reads."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.r600_machine import Run
from warpwright.errors import UnsupportedError
from warpwright.isa.r600.assemble import AssemblyError, assemble
from warpwright.isa.r600.decode import decode_program
from warpwright.isa.r600.layouts import GENERATIONS
from warpwright.isa.r600.text import format_program

ENGINES = ("compiled", "interpreter")
CHIPS = ("hd5870", "hd6970")
LOOP = """
alu
  LSHL_INT T2.x, T0.x, 2
  ADD_INT T3.x, PV.x, KC0[2].y; MOV T4.y, -5.5
  MOV T4.x, 0
  LDS_WRITE T2.x, T0.x
  LDS_READ_RET T2.x
  MOV T5.x, OQAP
loop
  alu break
    PRED_SETGT_INT _, T4.x, T0.x
  alu
    ADD_INT T4.x, T4.x, 1
end
fetch
  VFETCH T6.x, T3.x
alu
  ADD_INT T4.x, T4.x, T6.x
  LSHR_INT T3.x, T3.x, 2
  ADD_INT T4.x, T4.x, T5.x
store T4.x, T3.x
"""


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_is_assembled_decodes_and_prints(generation: str) -> None:
    lines = format_program(decode_program(assemble(LOOP, generation), generation))
    assert "  ADD_INT   T3.X, PV.X, KC0[2].Y" in lines
    assert "  MOV * T4.Y, literal.x" in lines
    assert "-1062207488(-5.500000e+00), 0(0.000000e+00)" in lines
    assert "  LDS_READ_RET * OQAP, T2.X" in lines
    assert "LOOP_START_DX10 @8" in lines


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("engine", ["compiled", "interpreted"])
def test_lanes_leave_a_loop_one_after_the_other(generation: str, engine: str) -> None:
    words = np.arange(64, dtype=np.uint32) * 100
    run = Run(assemble(LOOP, generation), generation, words)
    lane = np.arange(64)
    np.testing.assert_array_equal(getattr(run, engine)(), words + (lane + 1) + lane)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("alu\nFROB T1.x, T2.x", "cayman has no operation FROB"),
        ("alu\nMOV T1.x", "MOV has 1 sources, not 0"),
        ("alu\nMOV T128.x, T1.x", "'T128.x' is not a register"),
        ("alu\nMOV T1.x, banana", "'banana' is not a source"),
        ("MOV T1.x, T2.x", "no clause has begun"),
        ("loop", "the last loop has no end"),
        ("share\nGDS_FROB T1.x, T2.x", "global data share has no operation GDS_FROB"),
    ],
)
def test_an_error_names_its_line(line: str, why: str) -> None:
    with pytest.raises(AssemblyError) as told:
        assemble(line, "cayman")
    assert why in str(told.value)
    assert line == "loop" or f"line {len(line.splitlines())}: " in str(told.value)


def launch(chip: str, engine: str, text: str, blocks: int, *arguments: object) -> None:
    ww.GPU(chip, timing="off", engine=engine).compile(text)["k"][blocks, 64](*arguments)


PLACE = """
alu
  MULLO_INT T2.x, T1.x, 64
  ADD_INT T2.x, T2.x, T0.x
  LSHL_INT T3.x, T2.x, 2
  ADD_INT T3.x, PV.x, KC0[2].y
  LSHR_INT T3.x, PV.x, 2
"""
"""T2.x: the thread's number in the grid; T3.x: its word of the first parameter's buffer."""


def place(chip: str) -> str:
    """Cayman multiplies in four slots."""
    if chip == "hd5870":
        return PLACE
    return PLACE.replace("MULLO_INT T2.x, T1.x, 64", "MUL_UINT24 T2.x, T1.x, 64")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.ci
def test_all_threads_of_a_grid_share_the_counters_of_global_data_share(chip: str, engine: str) -> None:
    text = f".kernel k(u64 out)\n{place(chip)}  MOV T4.x, 40\n  MOV T4.y, 3\nshare\n  GDS_ADD_RET T5.x, T4.xy\nstore T5.x, T3.x\n"
    out = np.zeros(256, np.int32)
    launch(chip, engine, text, 4, out)
    assert sorted(out.tolist()) == list(range(0, 768, 3))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.ci
def test_global_data_share_reads_writes_reduces_and_compares(engine: str) -> None:
    text = f"""
    .kernel k(u64 out)
    {place("hd6970")}
      LSHL_INT T4.x, T0.x, 2
      MUL_UINT24 T4.y, T0.x, 7
      MOV T6.x, 1024
      MOV T6.y, T0.x
      MOV T7.x, 0
      MOV T7.y, 0
      MOV T7.z, 99
    share
      GDS_WRITE _, T4.xy
      GDS_MAX_UINT _, T6.xy
      GDS_CMP_XCHG_RET T8.x, T7.xyz
      GDS_READ_RET T5.x, T4.x
      GDS_READ_RET T6.x, T6.x
    alu
      ADD_INT T5.x, T5.x, T6.x
    store T5.x, T3.x
    """
    out = np.zeros(64, np.int32)
    launch("hd6970", engine, text, 1, out)
    expected = np.arange(64) * 7 + 63
    expected[0] = 99 + 63
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", [1, 2, 4])
def test_cayman_fetches_into_local_data_share(words: int, engine: str) -> None:
    """No register gets the words; the bundles after the clause find them in local data share."""
    text = f"""
    .kernel k(u64 out, u64 data)
    .shared 1024
    alu
      MUL_UINT24 T3.x, T0.x, {4 * words}
      MOV T3.y, PV.x
      ADD_INT T3.x, T3.y, KC0[2].w
      MOV T4.x, 0
    fetch
      VFETCH LDS.{"xyzw"[:words]}, T3.xy
    alu
      LSHL_INT T5.x, T0.x, 2
      LDS_READ_RET T5.x
      MOV T6.x, OQAP
      ADD_INT T6.x, T6.x, T4.x
      ADD_INT T5.x, T5.x, KC0[2].y
      LSHR_INT T5.x, PV.x, 2
    store T6.x, T5.x
    """
    out, data = np.zeros(64, np.int32), np.random.default_rng(words).integers(0, 1 << 30, 64 * words).astype(np.int32)
    launch("hd6970", engine, text, 1, out, data)
    np.testing.assert_array_equal(out, data[:64])


def test_a_fetch_into_local_data_share_prints_and_cypress_has_none() -> None:
    line = "fetch\n  VFETCH LDS.xy, T3.zw, 16"
    assert "  VTX_READ_64 LDS.XY, T3.ZW, 16, #1" in format_program(decode_program(assemble(line, "cayman"), "cayman"))
    with pytest.raises(AssemblyError, match="evergreen has no fetch into local data share: fetch into a register"):
        assemble(line, "evergreen")
    with pytest.raises(AssemblyError, match="VFETCH has 2 source channels, not 1"):
        assemble("fetch\n  VFETCH LDS.x, T3.x", "cayman")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.ci
def test_an_image_read_gives_the_texel_and_zero_outside(chip: str, engine: str) -> None:
    text = f"""
    .kernel k(u64 out, u64 image)
    .image 3 image 8 4 1
    {place(chip)}
      AND_INT T4.x, T0.x, 15
      LSHR_INT T4.y, T0.x, 4
    fetch
      LD T5.x, T4.xy, 3
    store T5.x, T3.x
    """
    out, image = np.full(64, -1, np.int32), np.arange(1, 33, dtype=np.int32)
    launch(chip, engine, text, 1, out, image)
    expected = np.zeros((4, 16), np.int32)
    expected[:, :8] = image.reshape(4, 8)
    np.testing.assert_array_equal(out.reshape(4, 16), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.ci
def test_a_sample_is_the_mean_of_four_texels_by_distance(chip: str, engine: str) -> None:
    text = f"""
    .kernel k(u64 out, u64 image)
    .image 1 image 4 4 1
    {place(chip)}
      INT_TO_FLT T4.x, T0.x
      MUL_IEEE T4.x, T4.x, 0.015625
      MOV T4.y, 0.40625
    fetch
      SAMPLE_LZ T5.x, T4.xy, 1
    store T5.x, T3.x
    """
    if chip == "hd6970":
        text = text.replace(
            "INT_TO_FLT T4.x, T0.x", "INT_TO_FLT T4.x, T0.x; INT_TO_FLT T4.y, T0.x; INT_TO_FLT T4.z, T0.x"
        )
    out, image = np.zeros(64, np.float32), np.random.default_rng(1).random((4, 4), np.float32)
    launch(chip, engine, text, 1, out, image)
    x = np.clip(np.arange(64) / 16 - 0.5, 0, 3)
    first, y = np.minimum(x.astype(int), 2), 0.40625 * 4 - 0.5
    row = image[1] + (image[2] - image[1]) * (y - 1)
    np.testing.assert_allclose(out, row[first] + (row[first + 1] - row[first]) * (x - first), rtol=1e-5)


def levels_of(image: np.ndarray, count: int) -> list[np.ndarray]:
    """An image and its halves, each texel the mean of four."""
    found = [image]
    for _ in range(count - 1):
        one = found[-1]
        found.append(one.reshape(one.shape[0] // 2, 2, one.shape[1] // 2, 2).mean((1, 3), dtype=np.float32))
    return found


def sampled(level: np.ndarray, u: np.ndarray, v: float) -> np.ndarray:
    """The mean of the four nearest texels by distance."""
    height, width = level.shape
    x, y = u * width - 0.5, v * height - 0.5
    columns, rows = (
        np.clip([np.floor(p), np.floor(p) + 1], 0, n - 1).astype(int) for p, n in ((x, width), (y, height))
    )
    across, down = x - np.floor(x), y - np.floor(y)
    upper, lower = (level[row, columns[0]] * (1 - across) + level[row, columns[1]] * across for row in rows)
    return np.asarray(upper * (1 - down) + lower * down)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.ci
def test_a_sample_of_a_level_of_detail_is_between_two_levels(engine: str) -> None:
    """From a level finer than the first to one coarser than the last, in steps of a sixteenth."""
    text = f"""
    .kernel k(u64 out, u64 image)
    .image 1 image 16 8 1 4
    {place("hd5870")}
      INT_TO_FLT T4.x, T0.x
      MUL_IEEE T4.w, T4.x, 0.0625
      MUL_IEEE T4.x, T4.x, 0.015625
      ADD T4.w, T4.w, -0.25
      MOV T4.y, 0.40625
      MOV T4.z, 0
    fetch
      SAMPLE_L T5.x, T4.xyzw, 1
    store T5.x, T3.x
    """
    levels = levels_of(np.random.default_rng(1).random((8, 16), np.float32), 4)
    out = np.zeros(64, np.float32)
    launch("hd5870", engine, text, 1, out, np.concatenate([level.ravel() for level in levels]))
    u, detail = np.arange(64) / 64, np.clip(np.arange(64) / 16 - 0.25, 0, 3)
    each = np.stack([sampled(level, u, 0.40625) for level in levels])
    first = np.floor(detail).astype(int)
    fine, coarse = each[first, np.arange(64)], each[np.minimum(first + 1, 3), np.arange(64)]
    np.testing.assert_allclose(out, fine + (coarse - fine) * (detail - first), rtol=1e-5)


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.ci
def test_an_anisotropic_sample_is_the_mean_of_places_along_the_longer_gradient(most: int) -> None:
    """Four texels by one: four places in the first level, or one between the second and the third one's texels."""
    text = f"""
    .kernel k(u64 out, u64 image)
    .image 1 image 16 8 1 3
    .anisotropy 1 {most}
    {place("hd5870")}
      INT_TO_FLT T4.x, T0.x
      MUL_IEEE T4.x, T4.x, 0.015625
      MOV T4.y, 0.40625
      MOV T6.x, 0.25
      MOV T6.y, 0
      MOV T7.x, 0
      MOV T7.y, 0.125
    fetch
      SET_GRADIENTS_H T5.x, T6.xy, 1
      SET_GRADIENTS_V T5.x, T7.xy, 1
      SAMPLE_G T5.x, T4.xy, 1
    store T5.x, T3.x
    """
    levels = levels_of(np.random.default_rng(1).random((8, 16), np.float32), 3)
    out = np.zeros(64, np.float32)
    launch("hd5870", "compiled", text, 1, out, np.concatenate([level.ravel() for level in levels]))
    u = np.arange(64) / 64
    steps = [-0.09375, -0.03125, 0.03125, 0.09375] if most == 4 else [0.0]
    wanted = np.mean([sampled(levels[0 if most == 4 else 2], u + step, 0.40625) for step in steps], axis=0)
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


def test_messages_name_kernel_and_line() -> None:
    gpu = ww.GPU("hd6970", timing="off")
    with pytest.raises(UnsupportedError, match=r"kernel k \(cayman\): line 3: FROB T1.x: cayman has no operation FROB"):
        gpu.compile(".kernel k(u64 out)\nalu\nFROB T1.x\n")["k"]
    with pytest.raises(UnsupportedError, match=r"line 2: \.frob 3: no directive"):
        gpu.compile(".kernel k(u64 out)\n.frob 3\n")

"""The command stream as Python: the same bits as OpenGL through Mesa gives, recordings that replay, cycles, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.graphics_streams import crossing_triangles
from warpwright.errors import ArgumentError, MemoryFaultError, UnsupportedError
from warpwright.graphics.context import Context, Program
from warpwright.graphics.pushbuffer import CommandError
from warpwright.graphics.recording import Replay, last_image
from warpwright.graphics.surface_layout import read_elements
from warpwright.graphics.targets import DepthTarget, colour_target, depth_target
from warpwright.graphics.timed.frame import frame_of
from warpwright.isa.nv50.assembler.from_text import AssemblyError

pytestmark = pytest.mark.ci
RECORDED = Path(__file__).parent / "data" / "crossing_triangles.wwcs"
"""The scene ``crossing`` of ``graphics_scenes.py``: ``warpwright run --gpu g80 --record FILE tests/graphics_scenes.py FOLDER crossing``."""
SIZE = 96, 80
THROUGH = "\n".join(f"{'exit ' if n == 7 else ''}mov b32 o[{4 * n:#x}] a[{4 * n:#x}]" for n in range(8))
SHADED = """
    interp $r0 v[0x0]          // 1/w
    rcp f32 $r3 $r0
    interp $r0 v[0x4] $r3
    interp $r1 v[0x8] $r3
    interp $r2 v[0xc] $r3
    exit interp $r3 v[0x10] $r3
"""


def scene(
    context: Context, pixel: Program | None = None, indices: Any = None, shades: Any = (1, 1, 1, 1)
) -> tuple[Any, Any]:
    """Draw the triangles, their colours multiplied by shades; returns colours and depths."""
    places, colours = crossing_triangles()
    target, depth = context.image(*SIZE), context.image(*SIZE, "Z24_X8_UNORM")
    context.target(target, depth)
    context.clear((0.125, 0.25, 0.5, 1.0), depth=1.0)
    context.depth_test("less")
    context.blend("src_alpha", "one_minus_src_alpha")
    attributes = [context.vertices(places), context.vertices(colours * np.float32(shades))]
    drawn = context.program("pixel", SHADED) if pixel is None else pixel
    context.draw("triangles", context.program("vertex", THROUGH), drawn, attributes, indices)
    return context.read(target), context.read(depth)


def elements_of(device: Any, target: Any) -> Any:
    """The elements of a target, in rows as memory has them."""
    surface, form = target.surface, target.form
    layout, z = surface.layer(0)
    offsets = layout.offsets(np.arange(surface.width) * form.size, np.arange(surface.height)[:, None], z)
    return read_elements(device.memory, device.memory.place(layout.address, layout.size, "a test"), offsets, form.size)


def test_triangles_are_those_of_opengl_bit_by_bit() -> None:
    """Perspective, a depth test and blending, beside the recorded stream of Mesa's driver with its own machine code."""
    replay = Replay(RECORDED)
    replay.run()
    assert replay.is_same
    assert replay.device is not None
    gl = replay.device.three_d
    context = Context(ww.GPU("g80", timing="off"))
    colours, depths = scene(context)
    assert colours.std() > 0.1
    assert len(np.unique(depths)) > 1000
    ours = context.device.three_d
    assert np.array_equal(
        elements_of(context.device, colour_target(ours, 0)), elements_of(replay.device, colour_target(gl, 0))
    )
    found: list[DepthTarget | None] = [depth_target(ours), depth_target(gl)]
    assert np.array_equal(elements_of(context.device, found[0]), elements_of(replay.device, found[1]))
    assert np.array_equal((colours * 255 + 0.5).astype(np.uint8), last_image(replay.device))


def test_indices_name_the_vertices() -> None:
    whole = scene(Context(ww.GPU("g80", timing="off")))
    chosen = scene(Context(ww.GPU("g80", timing="off")), indices=np.arange(180))
    part = scene(Context(ww.GPU("g80", timing="off")), indices=np.arange(90))
    assert np.array_equal(whole[0], chosen[0])
    assert not np.array_equal(whole[0], part[0])


def test_a_recording_of_a_context_replays_with_the_same_bits_and_cycles(tmp_path: Path) -> None:
    gpu, file = ww.GPU("g80", timing="full"), tmp_path / "frame.wwcs"
    with Context(gpu, record=file) as context:
        colours, _ = scene(context)
        frame = context.frame()
    replay = Replay(file, gpu.chip)
    replay.run()
    assert replay.is_same
    assert replay.device is not None
    assert np.array_equal((colours * 255 + 0.5).astype(np.uint8), last_image(replay.device))
    assert [draw.label for draw in frame.draws] == ["clear", "draw 1: 60 triangles"]
    assert frame.draws[1].cycles > 300
    assert frame_of(replay.device.timer).cycles == frame.cycles
    assert sum(frame.draws[1].warps.values()) > 20
    assert frame.bottleneck
    assert np.array_equal(scene(Context(ww.GPU("g80", timing="off")))[0], colours)


def test_a_recorded_program_is_used_as_bytes() -> None:
    """Machine code that Mesa's compiler made, taken from the recording."""
    replay = Replay(RECORDED)
    replay.run()
    assert replay.device is not None
    gl, memory = replay.device.three_d, replay.device.memory
    code = memory.view(gl.address("FP_ADDRESS_HIGH") + gl["FP_START_ID"], 64, "a test").tobytes()
    context = Context(ww.GPU("g80", timing="off"))
    colours, _ = scene(context, context.program("pixel", bytes(16) + code, entry=16))
    assert np.array_equal((colours * 255 + 0.5).astype(np.uint8), last_image(replay.device))


def test_programs_read_constants() -> None:
    """Half of the red, which is exact, from a constant or from the vertices."""
    context = Context(ww.GPU("g80", timing="off"))
    context.constants("pixel", np.array([0.0, 0.5], np.float32), space=2)
    halved = SHADED.replace("exit interp $r3 v[0x10] $r3", "interp $r3 v[0x10] $r3\nexit mul rn f32 $r0 $r0 c2[0x4]")
    colours, _ = scene(context, context.program("pixel", halved))
    wanted, _ = scene(Context(ww.GPU("g80", timing="off")), shades=(0.5, 1, 1, 1))
    assert np.array_equal(colours, wanted)
    assert not np.array_equal(colours, scene(Context(ww.GPU("g80", timing="off")))[0])


def test_a_context_is_used_without_opengl_for_any_format() -> None:
    context = Context(ww.GPU("g80", timing="off"))
    image = context.image(5, 3, "RGBA32_FLOAT")
    context.target(image)
    context.clear((0.1, -2.0, 3.0, 4.0))
    assert np.array_equal(context.read(image), np.broadcast_to(np.float32([0.1, -2, 3, 4]), (3, 5, 4)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.method("RT_COLOUR", 1), r"the 3D class \(0x8297\) has no method RT_COLOUR"),
        (lambda c: c.image(4, 4, "RGB8"), "there is no format 'RGB8': use RGBA32_FLOAT"),
        (lambda c: c.image(0, 4), "1 to 8192 pixels along each side, not 0 x 4"),
        (lambda c: c.depth_test("smaller"), "there is no comparison 'smaller': use never, less"),
        (lambda c: c.vertices([1.0, 2.0]), r"an attribute is an array \(n, 1 to 4\), not \(2,\)"),
        (lambda c: c.program("compute", ""), "a program is for vertex or pixel, not 'compute'"),
        (lambda c: c.clear((0, 0, 0, 1)), r"there is nothing to clear to: call target\(image\) first"),
        (
            lambda c: c.draw("lines", c.program("vertex", THROUGH), c.program("pixel", SHADED), []),
            r"there is nothing to draw to: call target\(image\) first",
        ),
    ],
)
def test_wrong_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(Context(ww.GPU("g80", timing="off")))


def test_what_is_wrong_in_a_stream_or_a_program_is_an_error() -> None:
    context = Context(ww.GPU("g80", timing="off"))
    with pytest.raises(AssemblyError, match=r"line 2: mvo b32 \$r0 \$r1: no instruction of this chip has this form"):
        context.program("vertex", "mov b32 $r0 $r1\nmvo b32 $r0 $r1")
    context.method("VERTEX_END_GL", 0)
    with pytest.raises(CommandError, match="VERTEX_END_GL without VERTEX_BEGIN_GL"):
        context.submit()
    image = context.image(8, 8)
    context.target(image)
    context.method("RT_ADDRESS_HIGH", 0, 0x1000)
    context.clear((1, 1, 1, 1))
    with pytest.raises(MemoryFaultError, match="GPU fault: a clear"):
        context.submit()
    assert not context.read(image).any()


def test_other_chips_and_gpus_without_time_say_so() -> None:
    with pytest.raises(UnsupportedError, match=r"the graphics pipeline of .* is not modelled: use g80"):
        ww.graphics.Context(ww.GPU("v100", timing="off"))
    with pytest.raises(UnsupportedError, match='make the GPU with timing="full"'):
        Context(ww.GPU("g80", timing="off")).frame()
    with pytest.raises(ArgumentError, match="no time to report: nothing was drawn or cleared"):
        Context(ww.GPU("g80")).frame()


@pytest.mark.parametrize("width", [np.inf, -np.inf, np.nan, 1e30, -4.0])
@pytest.mark.parametrize("smooth", [0, 1])
def test_widths_that_no_line_can_have_draw_lines_all_the_same(width: float, smooth: int) -> None:
    context = Context(ww.GPU("g80", timing="off"))
    image = context.image(16, 16)
    context.target(image)
    context.method("LINE_WIDTH", float(width))
    context.method("LINE_SMOOTH_ENABLE", smooth)
    ends, white = context.vertices([(-2, 0.1, 0, 1), (2, 0.1, 0, 1)]), context.vertices(np.ones((2, 4)))
    context.draw("lines", context.program("vertex", THROUGH), context.program("pixel", SHADED), [ends, white])
    covered = (context.read(image)[..., 0] > 0).sum()
    assert covered == 256 if width > 1e6 else covered <= 16

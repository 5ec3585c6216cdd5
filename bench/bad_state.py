"""Draws with state and vertices that no program should have, on the simulated GeForce 8800: each case must end in a picture or in an error of this package.

``python -m bench.bad_state [--cases N] [--first N] [--processes N] [--seconds S] [--output FILE]``: a case draws primitives of one kind through a context
(``warpwright.graphics.Context``). Coordinates, colours, widths, sizes, offsets, viewports and depth ranges may be infinite, huge or NaN; antialiasing of
primitives, stipples, polygon modes, samples, culling, stencil, alpha test, logic operations and scissors are random. A case fails if its process dies, if it takes
longer than ``SECONDS_PER_CASE``, if any exception but an error of this package is raised, or if a buffer that is not a render target changes. ``bench.bad_streams`` spoils the
words of a command stream instead.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np

import warpwright as ww
from warpwright.errors import WarpwrightError
from warpwright.graphics.context import Context, Program

SECONDS_PER_CASE = 30
CASES_PER_DEVICE = 50
WIDTH, HEIGHT, MOST_VERTICES = 32, 24, 40
KINDS = (
    "points",
    "lines",
    "line_loop",
    "line_strip",
    "triangles",
    "triangle_strip",
    "triangle_fan",
    "quads",
    "polygon",
)
COLOURS = ("RGBA8_UNORM", "RGBA16_FLOAT", "RGBA32_FLOAT", "BGRA8_SRGB", "RGBA8_UINT", "R11G11B10_FLOAT")
DEPTHS = ("Z24_X8_UNORM", "Z24_S8_UNORM", "Z16_UNORM", "Z32_FLOAT", "Z32_S8_X24_FLOAT")
SPECIAL = np.array([np.nan, np.inf, -np.inf, 1e30, -3e38, 0.0, -0.0, 1e-40, 16777216.0], np.float32)
THROUGH = "\n".join(f"{'exit ' if n == 7 else ''}mov b32 o[{4 * n:#x}] a[{4 * n:#x}]" for n in range(8))
SHADED = """
    interp $r0 v[0x0]
    rcp f32 $r3 $r0
    interp $r0 v[0x4] $r3
    interp $r1 v[0x8] $r3
    interp $r2 v[0xc] $r3
    exit interp $r3 v[0x10] $r3
"""
CHOICES: dict[str, tuple[int, ...]] = {
    **{f"{name}_SMOOTH_ENABLE": (0, 1) for name in ("POINT", "LINE", "POLYGON")},
    **{f"POLYGON_OFFSET_{name}_ENABLE": (0, 1) for name in ("POINT", "LINE", "FILL")},
    **{f"POLYGON_MODE_{side}": (0x1B00, 0x1B01, 0x1B02) for side in ("FRONT", "BACK")},
    "LINE_STIPPLE_ENABLE": (0, 1),
    "POLYGON_STIPPLE_ENABLE": (0, 0, 1),
    "POINT_SPRITE_ENABLE": (0, 1),
    "MULTISAMPLE_ENABLE": (0, 1),
    "MULTISAMPLE_CTRL": (0, 1, 16, 17),
    "CULL_FACE_ENABLE": (0, 0, 1),
    "CULL_FACE": (0x404, 0x405, 0x408),
    "STENCIL_ENABLE": (0, 1),
    "STENCIL_FRONT_FUNC_FUNC": (0x200, 0x201, 0x207),
    **{f"STENCIL_FRONT_OP_{name}": (0, 0x150A, 0x1E00, 0x1E01, 0x8507) for name in ("FAIL", "ZFAIL", "ZPASS")},
    "ALPHA_TEST_ENABLE": (0, 0, 1),
    "ALPHA_TEST_FUNC": (0x201, 0x204),
    "LOGIC_OP_ENABLE": (0, 0, 1),
    "LOGIC_OP": (0x1500, 0x1506, 0x150F),
    "SHADE_MODEL": (0x1D00, 0x1D01),
    "VIEW_VOLUME_CLIP_CTRL": (0, 0x18),
    "PIXEL_CENTER_INTEGER": (0, 1),
    "DEPTH_BOUNDS_EN": (0, 0, 1),
}
NUMBERS = (
    *("LINE_WIDTH", "POINT_SIZE", "POLYGON_OFFSET_UNITS", "POLYGON_OFFSET_FACTOR", "POLYGON_OFFSET_CLAMP"),
    *("ALPHA_TEST_REF", "DEPTH_RANGE_NEAR", "DEPTH_RANGE_FAR", "CLEAR_DEPTH"),
)


def odd(rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Any:
    """Return float32 numbers of various magnitudes; about 8 % are special values (NaN, infinities, extremes)."""
    usual = rng.normal(0, 1, shape) * 10.0 ** rng.integers(-2, 2)
    return np.where(rng.random(shape) < 0.08, rng.choice(SPECIAL, shape), usual).astype(np.float32)


def draw_oddly(context: Context, programs: tuple[Program, Program], rng: np.random.Generator) -> None:
    """Draw one case: random state, a render target, a depth surface and up to ``MOST_VERTICES`` vertices."""
    samples = int(rng.choice([0, 0, 1, 2, 3]))
    across, down = ((1, 1), (2, 1), (2, 2), (4, 2))[samples]
    target = context.image(WIDTH * across, HEIGHT * down, str(rng.choice(COLOURS)))
    depth = context.image(WIDTH * across, HEIGHT * down, str(rng.choice(DEPTHS)))
    context.target(target, depth)
    context.method("SCREEN_SCISSOR_HORIZ", WIDTH << 16, HEIGHT << 16)
    context.method("MULTISAMPLE_MODE", samples)
    for name, values in CHOICES.items():
        context.method(name, int(rng.choice(values)))
    for name in NUMBERS:
        context.method(name, float(odd(rng)))
    context.method("LINE_STIPPLE", int(rng.integers(1 << 24)))
    context.method(
        "VIEWPORT_SCALE_X",
        *(np.float32([16, 12, 0.5, 16, 12, 0.5]) * (1 if rng.random() < 0.7 else odd(rng, (6,)))).tolist(),
    )
    context.clear((0.5, 0.5, 0.5, 0.5), 1.0)
    context.depth_test(str(rng.choice(["less", "always", "greater"])) if rng.random() < 0.7 else None)
    context.blend("src_alpha" if rng.random() < 0.7 else None, "one_minus_src_alpha")
    count = int(rng.integers(1, MOST_VERTICES))
    attributes = [context.vertices(odd(rng, (count, 4))) for _ in range(2)]
    try:
        context.draw(str(rng.choice(KINDS)), *programs, attributes)
        context.submit()
    finally:
        for buffer in (target.buffer, depth.buffer, *(a.buffer for a in attributes)):
            context.device.free(buffer)


def run_cases(numbers: range) -> list[tuple[int, str]]:
    """The outcomes of cases on one device: ``picture``, an error's beginning, or ``failure: …``."""
    warnings.simplefilter("ignore")
    context = Context(ww.GPU("g80", timing="off"))
    programs = context.program("vertex", THROUGH), context.program("pixel", SHADED)
    guard = context.buffer(np.full(1 << 16, 7, np.uint8))
    found = []

    def late(*_: Any) -> None:
        raise TimeoutError(f"no end after {SECONDS_PER_CASE} s")

    signal.signal(signal.SIGALRM, late)
    for number in numbers:
        signal.alarm(SECONDS_PER_CASE)
        # Compiled code does not see the alarm: a process that still runs much later ends.
        faulthandler.dump_traceback_later(2 * SECONDS_PER_CASE, exit=True)
        try:
            draw_oddly(context, programs, np.random.default_rng(number))
            said = "picture"
        except WarpwrightError as error:
            said = str(error)[:60]
        except Exception as error:
            said = f"failure: {type(error).__name__}: {error}"[:200]
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        if not (context.device.memory.view(guard.address, 1 << 16, "a test") == 7).all():
            said = "failure: another buffer has changed"
        found.append((number, said))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no further cases after so many seconds"
    )
    parser.add_argument("--output", type=Path, help="also write counts and failures as JSON")
    arguments = parser.parse_args()
    started, last = time.monotonic(), arguments.first + arguments.cases
    parts = [range(n, min(n + CASES_PER_DEVICE, last)) for n in range(arguments.first, last, CASES_PER_DEVICE)]
    found: list[tuple[int, str]] = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for first in range(0, len(parts), 4 * arguments.processes):
            if time.monotonic() - started > arguments.seconds:
                break
            for part, future in [
                (p, pool.submit(run_cases, p)) for p in parts[first : first + 4 * arguments.processes]
            ]:
                try:
                    found += future.result(SECONDS_PER_CASE * CASES_PER_DEVICE)
                except (BrokenProcessPool, TimeoutError) as error:
                    raise SystemExit(
                        f"a process died or hangs in cases {part.start} to {part.stop - 1}: {error}"
                    ) from None
    counts = Counter(said for _, said in found)
    failures = [case for case in found if case[1].startswith("failure")]
    print(f"{len(found):,} cases in {time.monotonic() - started:.0f} s: {len(failures)} failures")
    for said, count in counts.most_common(20):
        print(f"  {count:8,} {said}")
    for number, said in failures[:20]:
        print(f"case {number}: {said}")
    if arguments.output is not None:
        arguments.output.write_text(
            json.dumps({"cases": len(found), "counts": counts, "failures": failures[:300]}, indent=1)
        )


if __name__ == "__main__":
    main()

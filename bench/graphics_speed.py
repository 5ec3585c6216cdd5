"""Frames per second of a textured and lit scene of 640 by 480 pixels: the simulated GeForce 8800 without and with full timing, llvmpipe and softpipe.

``python -m bench.graphics_speed [--frames N]`` draws a floor of bricks and four crates, trilinear, with three lamps and Blinn and Phong's light for each pixel, on
one core of this machine, the same frames on each renderer in one run.  Frames are counted by the CPU time that they take, so that other processes do
not matter; the first frame, which compiles programs, is not counted.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

WIDTH, HEIGHT = 640, 480
EXAMPLE = Path(__file__).parents[1] / "examples" / "opengl_scenes.py"
PIXEL = """#version 330
uniform sampler2D image; uniform vec3 eye; in vec3 p, n; in vec2 uv; out vec4 colour;
void main() {
  vec3 u = normalize(n), v = normalize(eye - p), tint = texture(image, uv).rgb, sum = tint * 0.1;
  for (int i = 0; i < 3; i++) {
    vec3 lamp = vec3(2.5 * sin(2.1 * float(i)), 2.5, 2.5 * cos(2.1 * float(i))), l = lamp - p;
    float near = 6.0 / (1.0 + dot(l, l)); l = normalize(l);
    sum += near * (tint * max(dot(u, l), 0.0) + 0.5 * pow(max(dot(u, normalize(l + v)), 0.0), 32.0));
  }
  colour = vec4(sum, 1.0);
}"""
SIMULATED = [sys.executable, "-m", "warpwright", "run", "--gpu", "g80", "--timing"]
RENDERERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "g80, functional": ([*SIMULATED, "off"], {}),
    "g80, full timing": ([*SIMULATED, "full"], {}),
    "llvmpipe": ([sys.executable], {"LIBGL_ALWAYS_SOFTWARE": "1", "GALLIUM_DRIVER": "llvmpipe", "LP_NUM_THREADS": "0"}),
    "softpipe": ([sys.executable], {"LIBGL_ALWAYS_SOFTWARE": "1", "GALLIUM_DRIVER": "softpipe"}),
}


def draw(frames: int) -> list[tuple[float, float]]:
    """Draw frames on whatever device there is; CPU and wall seconds of each."""
    import moderngl

    from warpwright.driver.drm.objects import used_device

    scenes: Any = SimpleNamespace(**runpy.run_path(str(EXAMPLE)))
    gl = moderngl.create_context(standalone=True, backend="egl")
    print(f"renderer {gl.info['GL_RENDERER']}")
    program = gl.program(vertex_shader=scenes.OBJECT, fragment_shader=PIXEL)
    target = gl.simple_framebuffer((WIDTH, HEIGHT))
    target.use()
    gl.enable(gl.DEPTH_TEST)
    scenes.texture(gl, scenes.bricks())
    scenes.camera(program)
    ground, crate = (scenes.drawn(gl, program, mesh) for mesh in (scenes.floor(12.0, 12.0), scenes.box()))
    taken = []
    for frame in range(frames + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        target.clear(0.35, 0.5, 0.7, 1.0)
        program["model"].write(scenes.moved(0, 0, 0).tobytes())
        ground.render()
        for x, z, turn in ((0, 0, 0.3), (-2.2, -1.5, 0.9), (1.8, -2.6, 0.1), (-0.5, -5.0, 0.6)):
            program["model"].write(scenes.moved(x, 0.6, z, 0.6, turn + 0.1 * frame).tobytes())
            crate.render()
        pixels = target.read()
        device = used_device()
        if device is not None and device.timer is not None:
            # Draws are timed together where a batch ends.
            device.timer.flush()
        taken.append((time.process_time() - cpu, time.perf_counter() - wall))
        assert len(set(pixels)) > 50
    return taken[1:]


def measured(name: str, frames: int) -> str:
    """One line about a renderer."""
    command, variables = RENDERERS[name]
    done = subprocess.run(
        [*command, str(Path(__file__).resolve()), "--draw", str(frames)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("renderer", "taken")))
    if "taken" not in lines:
        return f"{name}: failed: {done.stderr.strip()[-300:]}"
    cpu, wall = (float(number) for number in lines["taken"].split())
    return f"{name:18} {frames / cpu:8.2f} frames per second of CPU time, {frames / wall:8.2f} of wall time ({lines['renderer']})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=3, help="frames to count for each renderer")
    parser.add_argument("--draw", type=int, help=argparse.SUPPRESS)
    parser.add_argument("renderers", nargs="*", help=f"some of {', '.join(RENDERERS)}")
    arguments = parser.parse_args()
    if arguments.draw:
        cpu, wall = (sum(column) for column in zip(*draw(arguments.draw), strict=True))
        print(f"taken {cpu} {wall}")
        return
    for name in arguments.renderers or RENDERERS:
        print(measured(name, arguments.frames), flush=True)


if __name__ == "__main__":
    main()

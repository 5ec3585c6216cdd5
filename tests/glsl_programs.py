"""An OpenGL program: compiles the programs of ``glsl_shaders.py``, or runs its compute programs and saves what they wrote."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.glsl_shaders import COMPUTE, FRAGMENT, HEAD, VERTEX

NUMBERS = np.random.default_rng(7)
GROUPS = (6, 2)
COUNTER_BUFFER = 0x92C0


def bind_counter(buffer: Any) -> None:
    """Bind an atomic counter, for which moderngl has no call."""
    library = ctypes.CDLL("libEGL.so.1")
    library.eglGetProcAddress.restype = ctypes.c_void_p
    library.eglGetProcAddress.argtypes = [ctypes.c_char_p]
    bind = ctypes.CFUNCTYPE(None, *[ctypes.c_uint] * 3)(library.eglGetProcAddress(b"glBindBufferBase"))
    bind(COUNTER_BUFFER, 0, buffer.glo)


def inputs() -> dict[str, Any]:
    """What the programs read."""
    return {
        "floats": NUMBERS.uniform(-10, 10, 768).astype(np.float32),
        "words": NUMBERS.integers(1, 5000, 1536).astype(np.uint32),
        "table": NUMBERS.integers(0, 90, (20, 4)).astype(np.float32),
    }


def run_all(context: Any, place: str) -> None:
    """Run the compute programs on buffers, and save inputs and results."""
    given = inputs()
    found: dict[str, Any] = dict(given)

    def run(name: str, source: str, size: int, groups: tuple[int, int], **uniforms: Any) -> None:
        program = context.compute_shader(HEAD + COMPUTE[name][0])
        read, written = context.buffer(given[source].tobytes()), context.buffer(bytes(size))
        table = context.buffer(given["table"].tobytes())
        counter = context.buffer(np.array([5], dtype=np.uint32).tobytes())
        read.bind_to_storage_buffer(0)
        written.bind_to_storage_buffer(1)
        table.bind_to_uniform_block(2)
        bind_counter(counter)
        for uniform, value in uniforms.items():
            program[uniform] = value
        if name == "histogram":
            first = np.zeros(40, dtype=np.uint32)
            first[18] = 9999
            written.write(first.tobytes())
        program.run(*groups)
        found[name] = np.frombuffer(written.read(), dtype=np.uint32)
        if name == "histogram":
            found["counter"] = np.frombuffer(counter.read(), dtype=np.uint32)

    run("scale", "floats", 4 * 768, (12, 1), k=2.5)
    run("reverse", "words", 4 * 1536, GROUPS)
    run("collatz", "words", 4 * 1536, (24, 1), limit=25)
    run("histogram", "words", 160, (48, 1))
    run("arithmetic", "floats", 16 * 768, (12, 1))
    np.savez(place, **found)


def main() -> None:
    import moderngl

    context = moderngl.create_context(standalone=True, backend="egl", require=430)
    print("renderer:", context.info["GL_RENDERER"])
    if len(sys.argv) > 1:
        run_all(context, sys.argv[1])
        return
    for text, _ in COMPUTE.values():
        context.compute_shader(HEAD + text)
    context.program(vertex_shader=VERTEX, fragment_shader=FRAGMENT)


if __name__ == "__main__":
    main()

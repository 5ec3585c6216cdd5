"""Runs unmodified examples of moderngl on the simulated GeForce 8800 and on Mesa's software driver, and compares their pictures.

``python -m bench.moderngl_examples FILE … [--output FOLDER]`` prints, for each example, the share of pixels whose channels differ by at most one and the largest
difference. FILEs are programs of moderngl's folder ``examples/old``, which describe a window to ``moderngl_window`` (3.1; some need ``pyrr`` and
``pywavefront``). The window has no screen, ``SIZE`` pixels and the program's own shape; the picture is its contents after ``FRAMES`` frames, a tenth of a second apart.
"""

from __future__ import annotations

import random
import runpy
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from bench.example_pictures import run

FRAMES, SECONDS_PER_FRAME = 3, 0.1
SIZE = 512
"""Width of the window."""


def draw(example: Path, image: Path) -> None:
    """Run an example in this process, and save what it has drawn after its frames."""
    import moderngl_window
    from PIL import Image

    def few_frames(program: Any, *_: Any, **__: Any) -> None:
        size = (SIZE, round(SIZE * program.window_size[1] / program.window_size[0]))
        kind = moderngl_window.get_local_window_cls("headless")
        window = kind(title="", size=size, gl_version=program.gl_version, samples=0, backend="egl")
        moderngl_window.activate_context(window=window)
        config = program(ctx=window.ctx, wnd=window, timer=None)
        window._config = weakref.ref(config)
        for frame in range(FRAMES):
            window.clear()
            window.use()
            window.render(frame * SECONDS_PER_FRAME, SECONDS_PER_FRAME)
            window.swap_buffers()
        rows = np.frombuffer(window.fbo.read(components=3, alignment=1), np.uint8).reshape(size[1], size[0], 3)
        Image.fromarray(rows[::-1]).save(image)
        window.destroy()

    moderngl_window.run_window_config = few_frames
    random.seed(0)
    np.random.seed(0)
    sys.path.insert(0, str(example.parent))
    sys.argv = [str(example)]
    runpy.run_path(str(example), run_name="__main__")


if __name__ == "__main__":
    run(draw, Path(__file__).resolve(), __doc__, {})

"""Runs unmodified examples of VTK and PyVista on the simulated GeForce 8800 and on Mesa's software driver, and compares their last pictures.

``python -m bench.vtk_examples FILE … [--output FOLDER]`` prints, for each example, the share of pixels whose channels differ by at most one and the largest
difference. It needs VTK 9.4 or later (PyVista for its examples), Pillow, EGL and Mesa. FILEs are examples of a checkout, such as
``Examples/Rendering/Python/Cylinder.py`` of VTK or ``examples/00-load/create-geometric-objects.py`` of PyVista. Windows are off screen and
without multisampling, and event loops return at once.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

VARIABLES = {"VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow", "PYVISTA_OFF_SCREEN": "true"}
SECONDS = 600


def draw(example: Path, image: Path) -> None:
    """Run an example in this process, and save the last picture of the window that it drew to last."""
    import vtk

    windows: list[Any] = []

    def picture(window: Any) -> None:
        taken = vtk.vtkWindowToImageFilter()
        taken.SetInput(window)
        taken.ReadFrontBufferOff()
        writer = vtk.vtkPNGWriter()
        writer.SetFileName(str(image))
        writer.SetInputConnection(taken.GetOutputPort())
        writer.Write()

    class Interactor(vtk.vtkGenericRenderWindowInteractor):  # type: ignore[misc]
        def SetRenderWindow(self, window: Any) -> None:
            windows.append(window)
            super().SetRenderWindow(window)

        def Start(self) -> None:
            """There is no one to interact with."""

    vtk.vtkRenderWindowInteractor = Interactor
    # Drivers choose the positions of samples, so that pictures with several samples per pixel differ along edges.
    vtk.vtkOpenGLRenderWindow.SetGlobalMaximumNumberOfMultiSamples(0)
    try:
        import pyvista
    except ImportError:
        pass
    else:
        show = pyvista.Plotter.show

        def shown(plotter: Any, *given: Any, **named: Any) -> Any:
            return show(plotter, *given, **{**named, "screenshot": str(image)})

        pyvista.Plotter.show = shown  # type: ignore[assignment]
        pyvista.global_theme.anti_aliasing = None
        pyvista.global_theme.multi_samples = 1
    runpy.run_path(str(example), run_name="__main__")
    if windows:
        picture(windows[-1])


def picture_of(command: list[str], example: Path, image: Path, **variables: str) -> tuple[Any, int]:
    """The picture, and the exit code of the process that drew it."""
    from PIL import Image

    done = subprocess.run(
        [*command, str(Path(__file__).resolve()), "--draw", str(example), str(image)],
        env={**os.environ, **VARIABLES, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if not image.exists():
        raise RuntimeError((done.stderr.strip().splitlines() or [f"no picture, exit code {done.returncode}"])[-1])
    with Image.open(image) as found:
        return np.asarray(found.convert("RGB")).astype(int), done.returncode


def compare(example: Path, folder: Path) -> str:
    """One line about an example."""
    try:
        ours, code = picture_of(
            [sys.executable, "-m", "warpwright", "run", "--gpu", "g80", "--timing", "off"],
            example,
            folder / f"{example.stem}-g80.png",
        )
        theirs, _ = picture_of(
            [sys.executable], example, folder / f"{example.stem}-llvmpipe.png", LIBGL_ALWAYS_SOFTWARE="1"
        )
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return f"failed: {error}"
    differs = abs(ours - theirs).max(axis=2)
    size = f"{ours.shape[1]} x {ours.shape[0]}"
    return f"{100 * (differs <= 1).mean():.3f}% of {size} pixels within 1/255, largest difference {differs.max()}{f'; exit code {code} after the picture' if code else ''}"


def main() -> None:
    if sys.argv[1:2] == ["--draw"]:
        draw(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, help="keep the pictures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.output or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for example in arguments.files:
            print(f"{example.name}: {compare(example.resolve(), folder)}", flush=True)


if __name__ == "__main__":
    main()

"""Runs unmodified examples of VTK and PyVista on the simulated GeForce 8800 and on Mesa's software driver, and compares their last pictures.

``python -m bench.vtk_examples FILE … [--output FOLDER]`` prints, for each example, the share of pixels whose channels differ by at most one and the largest
difference. It needs VTK 9.4 or later (PyVista for its examples), Pillow, EGL and Mesa. FILEs are examples of a checkout, such as
``Examples/Rendering/Python/Cylinder.py`` of VTK or ``examples/00-load/create-geometric-objects.py`` of PyVista. Windows are off screen and
without multisampling, and event loops return at once.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from bench.example_pictures import run

VARIABLES = {"VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow", "PYVISTA_OFF_SCREEN": "true"}


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


if __name__ == "__main__":
    run(draw, Path(__file__).resolve(), __doc__, VARIABLES)

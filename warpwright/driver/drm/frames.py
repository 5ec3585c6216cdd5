"""Results of a process's graphics for the command line: lines of text, and the report page of its draws.

The command's own process is queried directly; a process that it started writes a file to the results folder when it
ends.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpwright.driver.process_end import at_end
from warpwright.graphics.device import GraphicsDevice
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.tools.report.frame_page import FramePictures

PAGE_WANTED = "WARPWRIGHT_FRAME_PAGE"
"""``1``: the page is requested, too."""
_RESULTS = "WARPWRIGHT_RESULTS"
_pictures: list[FramePictures] = []
_left: list[Frames] = []
_ends: list[Callable[[], None]] = []


@dataclass(frozen=True, slots=True)
class Frames:
    """Attributes:
    lines: what to print.
    page: HTML, where it was asked for and draws have cycles; else empty.
    """

    lines: list[str]
    page: str


def page_wanted() -> bool:
    """Whether ``warpwright run --report`` asks for a page of this process's draws."""
    return session.wants_frame_page or os.environ.get(PAGE_WANTED) == "1"


def watch(device: GraphicsDevice) -> None:
    """Collect pictures, if a page will be requested."""
    if device.timer is not None and page_wanted():
        from warpwright.tools.report.frame_page import FramePictures

        _pictures.append(FramePictures(device))


def after_submission(device: GraphicsDevice) -> None:
    """In a process that the command started: register an exit handler that writes the results.

    Not before the first draw, so that the compiler's threads started by then still exist when the handler runs.
    """
    if not _ends and device.three_d.draws and os.environ.get(_RESULTS) and not session.in_command:
        _ends.append(lambda: _leave(device))
        at_end(_ends[0])


def frames_of(device: GraphicsDevice, title: str) -> Frames:
    """The result of a device so far."""
    draws = device.three_d.draws
    said = f"{device.submissions} submissions with {draws} {'draw' if draws == 1 else 'draws'}"
    if device.timer is None:
        return Frames([f"{said}, without cycles: --timing full gives them"], "")
    from warpwright.graphics.timed.frame import described, frame_of

    lines = [said, *described(frame_of(device.timer))]
    if not _pictures:
        return Frames(lines, "")
    from warpwright.tools.report.frame_page import frame_page

    return Frames(lines, frame_page(device, _pictures[0].finish(), title))


def _leave(device: GraphicsDevice) -> None:
    """Write the results for the command."""
    folder = os.environ.get(_RESULTS, "")
    if not os.path.isdir(folder):
        return
    name = os.path.basename(os.readlink("/proc/self/exe")) if os.path.islink("/proc/self/exe") else "program"
    found = frames_of(device, name)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False, encoding="utf-8") as file:
        json.dump({"lines": found.lines, "page": found.page}, file)
    os.replace(file.name, f"{file.name.removesuffix('.part')}.frames")


def collect(folder: Path) -> None:
    """Collect the files that processes wrote, in the order in which they ended, for :func:`drawn`, and remove them."""
    for path in sorted(folder.glob("*.frames"), key=lambda p: p.stat().st_mtime_ns):
        _left.append(Frames(**json.loads(path.read_text(encoding="utf-8"))))
        path.unlink()


def drawn(own: GraphicsDevice | None, title: str) -> list[Frames]:
    """Results of this process's device, if a program used it, and of the processes that it started; each is returned
    once."""
    found = [frames_of(own, title)] if own is not None else []
    found += _left
    _left.clear()
    return found

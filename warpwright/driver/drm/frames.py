"""What the graphics of a process did, for the command line: lines of text, and the page of its draws.

The process that the command itself runs in is asked directly; one that it started leaves a file when it ends, in the folder for results.
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
"""``1``: the page is wanted, too."""
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
    """Collect pictures, where a page will be asked for."""
    if device.timer is not None and page_wanted():
        from warpwright.tools.report.frame_page import FramePictures

        _pictures.append(FramePictures(device))


def after_submission(device: GraphicsDevice) -> None:
    """In a process that the command started: see to it that its end leaves what it drew.

    Not before the first draw: what the compiler has begun by then is still there when the process ends.
    """
    if not _ends and device.three_d.draws and os.environ.get(_RESULTS) and not session.in_command:
        _ends.append(lambda: _leave(device))
        at_end(_ends[0])


def frames_of(device: GraphicsDevice, title: str) -> Frames:
    """The result of a device so far."""
    draws = device.three_d.draws
    said = f"{device.submissions} submissions with {draws} {'draw' if draws == 1 else 'draws'}"
    if device.timer is None:
        return Frames([f"{said}, without cycles: --timing full gives them (docs/model/graphics.md)"], "")
    from warpwright.graphics.timed.frame import described, frame_of

    lines = [said, *described(frame_of(device.timer))]
    if not _pictures:
        return Frames(lines, "")
    from warpwright.tools.report.frame_page import frame_page

    return Frames(lines, frame_page(device, _pictures[0].finish(), title))


def _leave(device: GraphicsDevice) -> None:
    """Write what the command is to print."""
    folder = os.environ.get(_RESULTS, "")
    if not os.path.isdir(folder):
        return
    name = os.path.basename(os.readlink("/proc/self/exe")) if os.path.islink("/proc/self/exe") else "program"
    found = frames_of(device, name)
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False, encoding="utf-8") as file:
        json.dump({"lines": found.lines, "page": found.page}, file)
    os.replace(file.name, f"{file.name.removesuffix('.part')}.frames")


def collect(folder: Path) -> None:
    """Take over what processes left, in the order of their ends, for :func:`drawn`; the files are removed."""
    for path in sorted(folder.glob("*.frames"), key=lambda p: p.stat().st_mtime_ns):
        _left.append(Frames(**json.loads(path.read_text(encoding="utf-8"))))
        path.unlink()


def drawn(own: GraphicsDevice | None, title: str) -> list[Frames]:
    """What the device of this process did, if a program used it, and those of the processes that it started; each is given once."""
    found = [frames_of(own, title)] if own is not None else []
    found += _left
    _left.clear()
    return found

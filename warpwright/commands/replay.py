"""``warpwright replay``: executes a recorded command stream of the graphics device again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpwright.commands.options import TimingOption
from warpwright.commands.output import FAILED, MISUSED, check_folder, console, fail

if TYPE_CHECKING:
    from warpwright.graphics.recording import Replay
    from warpwright.tools.report.frame_page import FramePictures


def replay(
    recording: Annotated[Path, typer.Argument(help="File written by warpwright run --record.")],
    image: Annotated[Path | None, typer.Option(metavar="PNG", help="Write the last rendered image.")] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="CHIP", help="Chip whose cycles --timing full gives; g80 by default.")
    ] = None,
    timing: TimingOption = None,
    report: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Also write a page of the frame, draw by draw, with cycles.")
    ] = None,
) -> None:
    """Execute a recorded command stream again, without the program and its driver; --timing full gives its cycles."""
    from warpwright.errors import WarpwrightError
    from warpwright.graphics.device import graphics_chip
    from warpwright.graphics.recording import Replay, last_image, png
    from warpwright.graphics.timed.frame import described, frame_of

    if image is not None:
        check_folder("--image", image)
    try:
        chip = graphics_chip(gpu or "g80")
    except WarpwrightError as error:
        raise fail(str(error), MISUSED) from None
    try:
        done = Replay(recording, chip if timing == "full" or report else None)
        pictures = _pictures_of(done) if report else None
        done.run()
    except WarpwrightError as error:
        raise fail(str(error)) from None
    device = done.device
    if device is None:
        raise fail(f"{recording} is empty")
    same = {
        None: "its end was not recorded",
        True: "memory is as recorded",
        False: "memory differs from the recording at the end",
    }
    draws = device.three_d.draws
    cycles = "" if device.timer is not None else "; without cycles: --timing full gives them"
    console().print(
        f"{done.submissions} submissions with {draws} {'draw' if draws == 1 else 'draws'}; {same[done.is_same]}{cycles}",
        markup=False,
        soft_wrap=True,
    )
    if device.timer is not None:
        for line in described(frame_of(device.timer)):
            console().print(line, markup=False, soft_wrap=True)
    if report is not None and pictures is not None:
        from warpwright.tools.report.frame_page import write_frame_page

        write_frame_page(report, device, pictures[0].finish(), recording.name)
        console().print(f"wrote {report}", markup=False, soft_wrap=True)
    if image is not None:
        pixels = last_image(device)
        if pixels is None:
            raise fail("nothing was drawn, so there is no image to write")
        image.write_bytes(png(pixels))
        console().print(f"wrote {image}", markup=False, soft_wrap=True)
    if done.is_same is False:
        raise typer.Exit(FAILED)


def _pictures_of(replay: Replay) -> list[FramePictures]:
    """A list that receives the pictures of a replay's device when the device is created."""
    from warpwright.tools.report.frame_page import FramePictures

    found: list[FramePictures] = []
    replay.on_device = lambda device: found.append(FramePictures(device))
    return found

"""Pictures that unmodified programs draw on the simulated GeForce 8800 and on Mesa's software driver, and how far they differ."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 600
SIMULATED = (sys.executable, "-m", "warpwright", "run", "--gpu", "g80", "--timing", "off")


def _picture_of(
    command: tuple[str, ...], drawer: Path, example: Path, image: Path, variables: Mapping[str, str]
) -> tuple[Any, int]:
    """The picture that a drawer saves of an example, and the exit code of the process."""
    from PIL import Image

    done = subprocess.run(
        [*command, str(drawer), "--draw", str(example), str(image)],
        env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    refused = [line for line in done.stderr.splitlines() if line.startswith("warpwright: ")]
    if refused or not image.exists():
        said = refused or done.stderr.strip().splitlines()[-1:] or [f"no picture, exit code {done.returncode}"]
        raise RuntimeError(said[0])
    with Image.open(image) as found:
        return np.asarray(found.convert("RGB")).astype(int), done.returncode


def compare(drawer: Path, example: Path, folder: Path, variables: Mapping[str, str]) -> str:
    """One line about an example: the share of pixels whose channels differ by at most one, and the largest difference."""
    try:
        place = folder / f"{example.stem}-g80.png"
        ours, code = _picture_of(SIMULATED, drawer, example, place, variables)
        software = {**variables, "LIBGL_ALWAYS_SOFTWARE": "1"}
        place = folder / f"{example.stem}-llvmpipe.png"
        theirs, _ = _picture_of((sys.executable,), drawer, example, place, software)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return f"failed: {error}"
    from PIL import Image

    differs = abs(ours - theirs).max(axis=2)
    # Differences are enlarged so that they can be seen.
    Image.fromarray(np.minimum(32 * differs, 255).astype(np.uint8)).save(folder / f"{example.stem}-difference.png")
    size = f"{ours.shape[1]} x {ours.shape[0]}"
    ended = f"; exit code {code} after the picture" if code else ""
    within = f"{100 * (differs <= 1).mean():.3f}% of {size} pixels within 1/255"
    colours = len(np.unique(ours.reshape(-1, 3), axis=0))
    return f"{within}, largest difference {differs.max()}, {colours} colours{ended}"


def run(
    draw: Callable[[Path, Path], None], drawer: Path, description: str | None, variables: Mapping[str, str]
) -> None:
    """The command line of a module that draws examples with ``draw(example, image)`` in a process of its own."""
    if sys.argv[1:2] == ["--draw"]:
        draw(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, help="keep the pictures and their differences, 32 times enlarged")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.output or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for example in arguments.files:
            print(f"{example.name}: {compare(drawer, example.resolve(), folder, variables)}", flush=True)

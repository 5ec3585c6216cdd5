"""Input files of the shapes that the publications name, where a suite's own data are not in its repository.

Values are drawn with a seed: these programs' times depend on shapes, or on a graph's degrees, not on the values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np


def hotspot(side: int) -> Callable[[Path], None]:
    """Temperatures and powers of a square grid, one a line."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(1)
        for name, low, high in (("temp", 320, 340), ("power", 0, 0.01)):
            (folder / f"{name}_{side}").write_text(
                "\n".join(f"{v:.6f}" for v in rng.uniform(low, high, side * side)) + "\n"
            )

    return write


def records(folder: Path) -> None:
    """Rodinia nn's 42,764 records of hurricanes in four files: latitude and longitude at places 28 and 33."""
    rng = np.random.default_rng(2)
    for number in range(4):
        lines = (
            f"1978  3 14  6 {index:6d}  STORM  ".ljust(28)[:28] + f"{lat:5.1f}{lng:5.1f}".ljust(20)[:20]
            for index, (lat, lng) in enumerate(rng.uniform(1, 99, (10691, 2)))
        )
        (folder / f"cane4_{number}.db").write_text("\n".join(lines) + "\n")
    (folder / "filelist_4").write_text("".join(f"{folder}/cane4_{n}.db\n" for n in range(4)))


def graph(name: str, nodes: int) -> Callable[[Path], None]:
    """Rodinia's generator: each node draws two to four neighbours, and each edge goes both ways."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(3)
        counts = rng.integers(2, 5, nodes)
        begin = np.repeat(np.arange(nodes), counts)
        end = rng.integers(0, nodes, len(begin))
        source, target = np.concatenate((begin, end)), np.concatenate((end, begin))
        order = np.argsort(source, kind="stable")
        degrees = np.bincount(source, minlength=nodes)
        starts = np.concatenate(([0], np.cumsum(degrees)[:-1]))
        with (folder / name).open("w") as file:
            file.write(f"{nodes}\n")
            file.write("".join(f"{a} {b}\n" for a, b in zip(starts, degrees, strict=True)))
            file.write(f"\n0\n\n{len(target)}\n")
            file.write("".join(f"{t} 1\n" for t in target[order]))

    return write


def matrix(folder: Path) -> None:
    """Rodinia lud's 512.dat: a matrix whose diagonal dominates."""
    values = np.random.default_rng(4).uniform(0, 1, (512, 512)) + 512 * np.eye(512)
    rows = "\n".join(" ".join(f"{v:.4f}" for v in row) for row in values)
    (folder / "512.dat").write_text(f"512\n{rows}\n")


def pixels(side: int) -> Callable[[Path], None]:
    """Rodinia dwt2d reads a file of raw RGB bytes."""

    def write(folder: Path) -> None:
        name = "rgb.bmp" if side == 1024 else f"{side}.bmp"
        (folder / name).write_bytes(np.random.default_rng(5).bytes(3 * side * side + 64))

    return write


def tree(folder: Path) -> None:
    """Rodinia b+tree's million keys and its two commands."""
    keys = np.random.default_rng(6).permutation(1_000_000)
    (folder / "mil.txt").write_text("1000000\n" + "\n".join(map(str, keys)) + "\n")
    (folder / "command.txt").write_text("j 6000 3000\nk 10000\n")


def graymap(folder: Path) -> None:
    """Rodinia srad_v1's image of 502 x 458 points, where the program looks for it."""
    place = folder / "data" / "srad"
    place.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(7).integers(1, 255, 502 * 458)
    (place / "image.pgm").write_text("P2\n502 458\n255\n" + "\n".join(map(str, values)) + "\n")


def trajectory(points: int, voxels: int) -> Callable[[Path], None]:
    """Parboil mri-q: k-space points and voxels."""

    def write(folder: Path) -> None:
        rng = np.random.default_rng(9)
        with (folder / "dataset.bin").open("wb") as file:
            file.write(np.array([points, voxels], np.int32).tobytes())
            for count in (points, points, points, voxels, voxels, voxels, points, points):
                file.write(rng.uniform(-1, 1, count).astype(np.float32).tobytes())

    return write


def block(folder: Path) -> None:
    """Parboil stencil, small: 128 x 128 x 32 numbers."""
    (folder / "128x128x32.bin").write_bytes(np.random.default_rng(10).random(128 * 128 * 32, np.float32).tobytes())

"""Gains from access-policy windows: the model beside a card's record, for histograms in global memory.

``python -m bench.machine.l2_gains [--jobs N]`` repeats on the model what the part ``histograms`` of ``python -m bench.machine.l2_policies`` measured on an H200
(`bench/data/h200/l2_policies.json`): the same kernel adds the same 16 Mi integers to 5 and 7.5 million bins, twice, and the second launch is timed.  Eight settings of the set-aside,
the hit ratio and the property of lines beyond it are compared with the launch without any: the gain is that launch's time divided by the setting's, minus one.
A setting takes about a minute of a core.  The exit code is 1 if fewer than 12 of the 16 gains are within 5 points of the card's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.machine.l2_policies import MIB, STREAMING

KERNELS = Path(__file__).with_name("l2_policies.cu")
RECORD = Path(__file__).parents[1] / "data" / "h200" / "l2_policies.json"
BINS = (5_000_000, 7_500_000)
ELEMENTS = 16 * MIB
BLOCKS, THREADS, LAUNCHES = 1056, 512, 2
SECTOR_BYTES = 32
TOLERANCE_POINTS, LEAST_WITHIN = 5.0, 12


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the record."""

    bins: int
    set_aside_bytes: int
    hit_ratio: float
    """Zero: no window."""
    streaming: bool
    """Whether lines beyond the hit ratio are streaming; otherwise they are normal."""
    card_us: float = field(compare=False)

    @property
    def plain(self) -> bool:
        """Whether this is the launch that the others' gains refer to."""
        return not self.set_aside_bytes

    def __str__(self) -> str:
        window = "no window"
        if self.hit_ratio:
            window = f"ratio {self.hit_ratio:.2f}, {'streaming' if self.streaming else 'normal'} beyond"
        return f"{self.bins / 1e6:.1f} million bins, {self.set_aside_bytes / MIB:5.2f} MiB set aside, {window}"


def settings(record: Path = RECORD) -> list[Setting]:
    """The settings of the record whose bins and number of integers are those compared here."""
    rows = json.loads(record.read_text())["histograms"]
    return [
        Setting(row["bins"], row["set_aside"], row["ratio"], row["miss"] == STREAMING, statistics.median(row["us"]))
        for row in rows
        if row["bins"] in BINS and row["elements"] == ELEMENTS
    ]


def random_bins(bins: int, count: int = ELEMENTS) -> npt.NDArray[np.uint32]:
    """The integers that the record's kernel of this name writes."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    return ((x.astype(np.uint64) * np.uint64(bins)) >> np.uint64(32)).astype(np.uint32)


def on_model(chip: str, setting: Setting) -> dict[str, Any]:
    """Microseconds of the second launch, and the sectors of bins per integer that DRAM reads and writes in it."""
    import warpwright as ww

    began = time.monotonic()
    gpu = ww.GPU(chip, timing="full", caches="kept")
    kernel = gpu.compile(KERNELS, options=["-std=c++17"])["histogram"]
    data, bins = gpu.array(random_bins(setting.bins)), gpu.zeros(setting.bins, np.uint32)
    gpu.set_aside(setting.set_aside_bytes)
    window = None
    if setting.hit_ratio:
        miss = ww.AccessProperty.STREAMING if setting.streaming else ww.AccessProperty.NORMAL
        window = ww.AccessWindow(bins.device_address(), bins.nbytes, setting.hit_ratio, miss=miss)
    launch = kernel[BLOCKS, THREADS].with_window(window)
    for _ in range(LAUNCHES):
        run = launch(data, np.uint32(ELEMENTS // 4), bins)
    assert int(bins.numpy().sum()) == LAUNCHES * ELEMENTS
    read, written = (run.metrics[f"dram__bytes_{way}.sum"] for way in ("read", "write"))
    return {
        "us": round(run.seconds * 1e6, 2),
        "sectors_read_again": round((read - data.nbytes) / SECTOR_BYTES / ELEMENTS, 4),
        "sectors_written": round(written / SECTOR_BYTES / ELEMENTS, 4),
        "seconds_of_simulation": round(time.monotonic() - began),
    }


def compared(chip: str, jobs: int, out: Path | None) -> int:
    """Print each gain beside the card's, store the rows, and return how many are within the tolerance."""
    plain: dict[int, tuple[Setting, dict[str, Any]]] = {}
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(jobs) as pool:
        asked = [
            (setting, pool.submit(on_model, chip, setting)) for setting in sorted(settings(), key=lambda s: not s.plain)
        ]
        for setting, answer in asked:
            found = answer.result()
            row = {"bins": setting.bins, "set_aside": setting.set_aside_bytes, "ratio": setting.hit_ratio,
                   "streaming": setting.streaming, "card_us": setting.card_us, **found}  # fmt: skip
            text = f"{setting}: {found['us']:.1f} us (card {setting.card_us:.1f})"
            if setting.plain:
                plain[setting.bins] = setting, found
            else:
                base, base_found = plain[setting.bins]
                row["gain"] = round(100 * (base_found["us"] / found["us"] - 1), 2)
                row["card_gain"] = round(100 * (base.card_us / setting.card_us - 1), 2)
                text += f", gain {row['gain']:+.1f} % (card {row['card_gain']:+.1f}), off by {row['gain'] - row['card_gain']:+.1f} points"
            print(text, found, flush=True)
            rows.append(row)
            if out:
                out.write_text(
                    json.dumps({"chip": chip, "command": "python -m bench.machine.l2_gains", "rows": rows}) + "\n"
                )
    gains = [row["gain"] - row["card_gain"] for row in rows if "gain" in row]
    within = sum(abs(gain) <= TOLERANCE_POINTS for gain in gains)
    print(f"{within} of {len(gains)} gains are within {TOLERANCE_POINTS:g} points of the card's")
    return within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200", help="the chip whose model is compared")
    parser.add_argument("--jobs", type=int, default=1, help="settings that are simulated at once")
    parser.add_argument("--out", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    sys.exit(compared(options.gpu, options.jobs, options.out) < LEAST_WITHIN)


if __name__ == "__main__":
    main()

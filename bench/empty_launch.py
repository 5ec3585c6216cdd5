"""Measures the host overhead of a launch: microseconds of wall-clock time for an empty kernel, with warm caches.

``python -m bench.empty_launch [--turns N] [--against CHECKOUT]`` prints the median of a process's launches, the lowest of the turns, without and with
timing, without arguments and with three; with another checkout of Warpwright both run in turns, and the last column is their ratio.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.checkouts import HERE, turns_and_checkouts

MEASURE = """
import json, statistics, time
import warpwright as ww

def median_us(launch, gpu, count):
    for _ in range(count // 20):
        launch()
    times = []
    for _ in range(count):
        began = time.perf_counter()
        launch()
        times.append(time.perf_counter() - began)
    gpu.launches.clear()
    return statistics.median(times) * 1e6

found = {}
for timing, count in (("off", 4000), ("full", 200)):
    gpu = ww.GPU("a100", timing=timing)
    empty = gpu.compile('extern "C" __global__ void empty() {}')["empty"]
    three = gpu.compile('extern "C" __global__ void three(int n, float a, float *x) {}')["three"]
    x = gpu.zeros(32)
    found[f"timing={timing}, no arguments"] = median_us(lambda: empty[1, 32](), gpu, count)
    found[f"timing={timing}, 3 arguments"] = median_us(lambda: three[1, 32](32, 2.0, x), gpu, count)
print(json.dumps(found))
"""


def measure(checkout: Path) -> dict[str, float]:
    """Microseconds of each kind of launch, in a process of its own."""
    paths = [str(checkout), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    output = subprocess.run(
        [sys.executable, "-c", MEASURE], cwd=checkout, env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(output.stdout)
    return found


def main() -> None:
    turns, checkouts = turns_and_checkouts(__doc__)
    best: dict[Path, dict[str, float]] = {checkout: {} for checkout in checkouts}
    for _ in range(turns):
        for checkout, lowest in best.items():
            for kind, microseconds in measure(checkout).items():
                lowest[kind] = min(microseconds, lowest.get(kind, microseconds))
    print(f"{'µs per launch':28s}" + "".join(f" {checkout.name[:16]:>16s}" for checkout in checkouts))
    for kind, here in best[HERE].items():
        others = [best[checkout][kind] for checkout in checkouts[1:]]
        print(f"{kind:28s} {here:16.1f}" + "".join(f" {other:16.1f} {here / other:6.2f}" for other in others))


if __name__ == "__main__":
    main()

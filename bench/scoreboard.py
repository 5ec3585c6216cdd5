"""PTX timed by the scoreboard against its machine code timed by its control bits, on the kernels of the corpus.

    python -m bench.scoreboard [--chips p100 v100 a100 h200] [NAMES]

Prints cycles of both and their ratio for each kernel, then the distribution of the ratios for each chip, of whole launches and of what they take
longer than an empty kernel.  Both come from the cycle model; no card runs PTX as it is.
"""

from __future__ import annotations

import argparse
import statistics

import warpwright as ww
from tests.kernels import case, names
from warpwright.toolchain import CompileError

CHIPS = ("p100", "v100", "a100", "h200")


def cycles(gpu: ww.GPU, name: str) -> int | None:
    """Cycles of a kernel of the corpus, whose results are checked; None where the chip cannot run it."""
    one = case(name, "small")
    try:
        run, arrays = one.run(gpu.compile(one.source, options=one.options))
    except CompileError:
        return None
    one.verify(arrays)
    return run.cycles


def empty_cycles(chip: str) -> int:
    """Cycles of a launch that does nothing."""
    return ww.GPU(chip, timing="full").compile('extern "C" __global__ void k() {}')["k"][1, 32]().cycles


def summary(ratios: list[float]) -> str:
    """Median, tenths and how many are within a tenth of one."""
    ratios = sorted(ratios)
    tenths = statistics.quantiles(ratios, n=10) if len(ratios) > 1 else ratios * 9
    near = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    return f"{statistics.median(ratios):.2f} | {tenths[0]:.2f} | {tenths[8]:.2f} | {near}"


def compare(chip: str, chosen: list[str]) -> dict[str, tuple[int, int]]:
    """Cycles of machine code and of PTX by kernel."""
    found = {}
    for name in chosen:
        both = [cycles(ww.GPU(chip, timing="full", front_end=front_end), name) for front_end in ("sass", "ptx")]
        if both[0] is not None and both[1] is not None:
            found[name] = (both[0], both[1])
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", nargs="+", default=list(CHIPS))
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    chosen = arguments.names or names()
    tables = {chip: compare(chip, chosen) for chip in arguments.chips}
    print("| kernel | " + " | ".join(f"{chip}: control bits, scoreboard, ratio" for chip in tables) + " |")
    print("|---|" + "---|" * len(tables))
    for name in chosen:
        cells = [
            f"{table[name][0]:,} {table[name][1]:,} {table[name][1] / table[name][0]:.2f}" if name in table else "-"
            for table in tables.values()
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    columns = ("median", "10th percentile", "90th", "within 10%")
    print(f"\n| chip | kernels | {' | '.join((*columns, *(f'beyond an empty launch: {name}' for name in columns)))} |")
    print("|---" * 10 + "|")
    for chip, table in tables.items():
        least = empty_cycles(chip)
        beyond = [(ptx - least) / (sass - least) for sass, ptx in table.values() if sass > least]
        whole = [ptx / sass for sass, ptx in table.values()]
        if whole and beyond:
            print(f"| {chip} | {len(table)} | {summary(whole)} | {summary(beyond)} |")


if __name__ == "__main__":
    main()

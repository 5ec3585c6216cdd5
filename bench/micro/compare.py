"""Microbenchmarks on the model beside a real card's, row by row.

``python -m bench.micro.compare [--gpu h200] [--over 10] [NAME …]`` runs the named benchmarks (all that the model is quick
at when none is named) on the model and prints each row with the value recorded in ``bench/data/<chip>/micro.json`` and the
error; then, by benchmark, how many rows there are, the mean absolute error and how many lie beyond 10%.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.device import open_device
from bench.micro.__main__ import ON_MODEL, SUITES
from bench.micro.build import build
from bench.micro.context import Context, Row

DATA = Path(__file__).parents[1] / "data"
_NOT_PLACE = {"value", "unit", "warp0", "last", "smids", "groups", "first_wave", "smi", "total_gb_per_s"}


def key(row: Row) -> tuple[tuple[str, str], ...]:
    """What names a row: every field but its results."""
    return tuple(sorted((name, str(value)) for name, value in row.items() if name not in _NOT_PLACE))


def join(ours: Iterable[Row], theirs: Iterable[Row]) -> list[tuple[Row, float, float]]:
    """(row, model's value, card's value) of every row that both have."""
    known = {key(row): float(row["value"]) for row in theirs}
    return [(row, float(row["value"]), known[key(row)]) for row in ours if key(row) in known]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--arch", default="90")
    parser.add_argument("--cubins", type=Path, help="folder of cubins built before")
    parser.add_argument("--over", type=float, default=0.0, help="print only rows whose error exceeds so many percent")
    options = parser.parse_args()
    recorded = json.loads((DATA / options.gpu / "micro.json").read_text())["results"]
    ctx = Context(open_device("model", options.gpu), options.cubins or build(options.arch), options.arch)
    lines = []
    for name in options.names or ON_MODEL:
        rows = join(SUITES[name](ctx), recorded.get(name, []))
        errors = []
        for row, ours, theirs in rows:
            if theirs == 0:
                continue
            error = ours / theirs - 1
            errors.append(abs(error))
            if 100 * abs(error) >= options.over:
                where = " ".join(
                    f"{k}={v}" for k, v in row.items() if k not in _NOT_PLACE and k not in ("name", "metric")
                )
                print(f"{row['name']:20} {row['metric']:28} {where:44} {ours:11.2f} {theirs:11.2f} {100 * error:+7.1f}%",
                      flush=True)  # fmt: skip
        if errors:
            beyond = sum(error > 0.10 for error in errors)
            lines.append(
                f"{name:12} {len(errors):4} rows, mean {100 * float(np.mean(errors)):5.1f}%, {beyond} beyond 10%"
            )
    print("\n".join(lines))


if __name__ == "__main__":
    main()

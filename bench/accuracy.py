"""Simulated cycles beside the cycles of a real card, kernel by kernel.

``python -m bench.accuracy [--set corpus] [--gpu h200] [--seconds 60] [NAME …]`` runs each measured kernel with full timing and
prints simulated against measured ``gpc__cycles_elapsed.max``, the mean absolute error and the
correlation of log cycles.  The measurement is data: ``bench/data/<card>/<set>.json`` names the
command that made it (``bench/corpus_card.py``).  No constant of a chip file is fitted to these kernels.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Row:
    """One kernel: cycles are ``gpc__cycles_elapsed.max``."""

    name: str
    measured_cycles: float
    simulated_cycles: float
    measured_instructions: float
    simulated_instructions: float
    seconds: float

    @property
    def error(self) -> float:
        """Signed relative error of the simulated cycles."""
        return self.simulated_cycles / self.measured_cycles - 1


def measured(card: str, which: str) -> dict[str, dict[str, float]]:
    """Metrics by case name, as recorded on a real card.

    Raises:
        FileNotFoundError: when nothing was recorded for this card and set.
    """
    return dict(json.loads((DATA / card / f"{which}.json").read_text())["kernels"])


def simulate_one(card: str, name: str, which: str = "corpus") -> Row:
    """Run one measured case of a set on the simulated card with full timing."""
    import warpwright as ww
    from tests.kernels import case as corpus_case

    case = corpus_case(name, "large")
    record = measured(card, which)[name]
    gpu = ww.GPU(card)
    kernel = gpu.compile(case.source, options=case.options)[case.kernel]
    start = time.perf_counter()
    run = kernel[case.grid, case.block, case.shared_bytes](*case.args)
    return Row(
        name,
        record["gpc__cycles_elapsed.max"],
        float(run.cycles),
        record.get("smsp__inst_executed.sum", float("nan")),
        float(run.metrics["smsp__inst_executed.sum"]),
        time.perf_counter() - start,
    )


def _serve(pipe: Connection, card: str, which: str) -> None:
    """Another process: say that it is ready, then answer each name with its row or the text of what went wrong."""
    import warpwright as ww
    from tests.kernels import case

    first = case("stream_copy", "small")  # compiles or loads the cycle model, which no kernel's time should hold
    kernel = ww.GPU(card).compile(first.source, options=first.options)[first.kernel]
    kernel[first.grid, first.block, first.shared_bytes](*first.args)
    pipe.send("ready")
    for name in iter(pipe.recv, None):
        try:
            pipe.send(simulate_one(card, name, which))
        except Exception as problem:  # one kernel's failure is a line of the table, the others still run
            pipe.send(f"{type(problem).__name__}: {str(problem).strip()[:200]}")


def simulate(card: str, names: list[str] | None = None, which: str = "corpus", seconds: float = 60.0) -> list[Row]:
    """Run every measured case of a set, each for at most ``seconds``; prints each row when it is there."""
    from tests.kernels import names as corpus_names

    recorded = measured(card, which)
    wanted = [name for name in corpus_names() if name in recorded and (not names or name in names)]
    rows: list[Row] = []
    context = multiprocessing.get_context("spawn")
    worker: BaseProcess | None = None
    for name in wanted:
        if worker is None:
            pipe, far = context.Pipe()
            worker = context.Process(target=_serve, args=(far, card, which), daemon=True)
            worker.start()
            far.close()
            pipe.recv()
        pipe.send(name)
        try:
            answer = pipe.recv() if pipe.poll(seconds) else f"stopped after {seconds:g} s"
        except EOFError:
            answer = "its process died"
        if isinstance(answer, Row):
            rows.append(answer)
            show(answer)
            continue
        print(f"{name:28s} {recorded[name]['gpc__cycles_elapsed.max']:12.0f}  {answer}", flush=True)
        if "stopped" in answer or "died" in answer:
            worker.kill()
            worker.join()
            worker = None
    if worker is not None:
        pipe.send(None)
        worker.join()
    return rows


def show(row: Row) -> None:
    """Print one line of the table."""
    same = "" if row.measured_instructions == row.simulated_instructions else "  instructions differ"
    print(
        f"{row.name:28s} {row.measured_cycles:12.0f} {row.simulated_cycles:12.0f} {100 * row.error:+8.1f}%"
        f" {row.simulated_instructions:12.0f} {row.seconds:7.2f} s{same}",
        flush=True,
    )


def summary(rows: list[Row]) -> dict[str, float]:
    """Mean absolute error, 90th percentile, worst (all fractions) and correlation of log cycles."""
    errors = np.abs([row.error for row in rows])
    logs = np.log([[row.measured_cycles, row.simulated_cycles] for row in rows])
    correlation = float(np.corrcoef(logs.T)[0, 1]) if len(rows) > 2 else math.nan
    return {
        "kernels": len(rows),
        "mean": float(errors.mean()),
        "p90": float(np.quantile(errors, 0.9)),
        "worst": float(errors.max()),
        "correlation": correlation,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--set", default="corpus", dest="which")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each kernel (default 60)")
    parser.add_argument("--over", type=float, default=25.0, help="list kernels with a larger error (percent)")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    print(f"{'kernel':28s} {'measured':>12s} {'simulated':>12s} {'error':>9s} {'warp instr.':>12s} {'host':>9s}")
    rows = simulate(arguments.gpu, arguments.names or None, arguments.which, arguments.seconds)
    figures = summary(rows)
    print(
        f"{figures['kernels']} kernels: mean absolute error {100 * figures['mean']:.1f}%, 90th percentile"
        f" {100 * figures['p90']:.1f}%, worst {100 * figures['worst']:.1f}%, correlation of log cycles"
        f" {figures['correlation']:.4f}"
    )
    far = [f"{row.name} {100 * row.error:+.0f}%" for row in rows if 100 * abs(row.error) > arguments.over]
    print(f"{len(far)} beyond {arguments.over:g}%: {', '.join(far)}")


if __name__ == "__main__":
    main()

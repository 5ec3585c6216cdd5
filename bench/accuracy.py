"""Compares simulated cycles and counters with those of a real card, kernel by kernel.

``python -m bench.accuracy [--set corpus|validation|holdout|second|third|fourth|shapes|shapes_held] [--gpu h200] [--seconds 120] [NAME …]`` runs each measured kernel
with full timing and prints simulated against measured ``gpc__cycles_elapsed.max``, instruction counts, L1 and L2 hit rates, DRAM
bytes and the simulator's speed; then mean absolute error, 90th percentile, worst, correlation of log cycles.
The measurement is data: ``bench/data/<card>/<set>.json`` names the command that made it (``bench/corpus_card.py``).
No constant of a chip file is fitted to these kernels.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

from bench.kernel_sets import kernel_set

DATA = Path(__file__).parent / "data"
CYCLES = "gpc__cycles_elapsed.max"
INSTRUCTIONS, THREADS = "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum"
L1_HITS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"
L1_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
L2_HITS, L2_SECTORS = "lts__t_sectors_lookup_hit.sum", "lts__t_sectors.sum"
DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
COMPARED = (CYCLES, INSTRUCTIONS, THREADS, L1_HITS, L1_SECTORS, L2_HITS, L2_SECTORS, *DRAM)
DRAM_NOISE_BYTES = 256 * 1024
"""Below this, what a card moves for itself (page tables, counters) is a large part: no error is said."""


def ratio(part: float, whole: float) -> float:
    return 100 * part / whole if whole else math.nan


@dataclass(frozen=True)
class Row:
    """One kernel: the compared counters of the card and of the model, and the host's time."""

    name: str
    card: Mapping[str, float]
    ours: Mapping[str, float]
    cpu_seconds: float
    expected_error: float = field(default=math.nan)
    """Expected error of a sampled run, as reported by the run."""
    timed_instructions: float = field(default=math.nan)
    runs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """The card's counts in each of several runs, if known."""

    @property
    def measured_cycles(self) -> float:
        return self.card[CYCLES]

    @property
    def simulated_cycles(self) -> float:
        return self.ours[CYCLES]

    @property
    def error(self) -> float:
        """Signed relative error of the simulated cycles."""
        return self.simulated_cycles / self.measured_cycles - 1

    @property
    def same_instructions(self) -> bool:
        """Warp and thread instructions are the card's, or within what the card itself makes where that is not the same each time."""
        return all(self._least(k) <= self.ours[k] <= self._most(k) for k in (INSTRUCTIONS, THREADS))

    @property
    def ordered(self) -> bool:
        """Whether the card executes as many instructions in every run: else they depend on the order of its warps."""
        return all(self._least(k) == self._most(k) for k in (INSTRUCTIONS, THREADS))

    def _least(self, key: str) -> float:
        return min(self.runs.get(key, ()), default=self.card.get(key, self.ours[key]))

    def _most(self, key: str) -> float:
        return max(self.runs.get(key, ()), default=self.card.get(key, self.ours[key]))

    @property
    def l1_points(self) -> float:
        """Difference of the L1 hit rates of global loads in points; NaN without loads."""
        return ratio(self.ours[L1_HITS], self.ours[L1_SECTORS]) - ratio(self.card[L1_HITS], self.card[L1_SECTORS])

    @property
    def l2_points(self) -> float:
        """Difference of the L2 hit rates in points, from the nearest of the card's runs.

        An H200's look-ups include up to some thousands of its own, which vary from run to run, so its rates in one kernel differ by up to 25 points if few
        sectors move.
        """
        hits, sectors = (self.runs.get(key, [self.card[key]]) for key in (L2_HITS, L2_SECTORS))
        rates = [ratio(hit, all_of) for hit, all_of in zip(hits, sectors, strict=True)]
        ours = ratio(self.ours[L2_HITS], self.ours[L2_SECTORS])
        return ours - min(max(ours, min(rates)), max(rates))

    @property
    def dram_error(self) -> float:
        """Signed relative error of the DRAM bytes; NaN if they are few."""
        theirs, ours = (sum(values[k] for k in DRAM) for values in (self.card, self.ours))
        return ours / theirs - 1 if max(theirs, ours) >= DRAM_NOISE_BYTES else math.nan

    @property
    def speed(self) -> float:
        """Warp instructions in a second of one thread's CPU time."""
        return self.ours[INSTRUCTIONS] / self.cpu_seconds if self.cpu_seconds else math.nan


def measured(card: str, which: str) -> dict[str, dict[str, float]]:
    """Metrics by case name, as recorded on a real card.

    Raises:
        FileNotFoundError: when nothing was recorded for this card and set.
    """
    return dict(json.loads((DATA / card / f"{which}.json").read_text())["kernels"])


def counted(card: str, which: str) -> dict[str, dict[str, list[float]]]:
    """By case and metric what every run counted, also those of earlier recordings, the measured median as one more; empty where only that was kept."""
    recorded = json.loads((DATA / card / f"{which}.json").read_text())
    before = [recording["counts"] for recording in recorded.get("earlier", [])]
    return {
        name: {
            key: [
                *values,
                *(v for counts in before for v in counts.get(name, {}).get(key, [])),
                recorded["kernels"][name][key],
            ]
            for key, values in runs.items()
        }
        for name, runs in recorded.get("counts", {}).items()
    }


def simulate_one(card: str, name: str, which: str = "corpus", timing: str = "full", verify: bool = False) -> Row:
    """Run one measured case of a set on the simulated card.

    Raises:
        AssertionError: with ``verify``, when the results are not the reference's.
    """
    import warpwright as ww

    case = kernel_set(which).case(name)
    module = ww.GPU(card, timing=timing).compile(case.source, options=case.options)
    run, outputs = case.run(module)
    if verify:
        case.verify(outputs)
    ours = {key: float(run.metrics[key]) for key in COMPARED}
    runs = counted(card, which).get(name, {})
    return Row(name, measured(card, which)[name], ours, run.timing.cpu_seconds, runs=runs)


def _serve(pipe: Connection, card: str, which: str, timing: str, verify: bool) -> None:
    """Body of the worker process: report that it is ready, then answer each name with its row or an error text."""
    import warpwright as ww
    from tests.kernels import case

    first = case("stream_copy", "small")  # compiles or loads the cycle model, which no kernel's time should hold
    kernel = ww.GPU(card).compile(first.source, options=first.options)[first.kernel]
    kernel[first.grid, first.block, first.shared_bytes](*first.args)
    pipe.send("ready")
    for name in iter(pipe.recv, None):
        try:
            pipe.send(simulate_one(card, name, which, timing, verify))
        except Exception as problem:  # one kernel's failure is a line of the table, the others still run
            pipe.send(f"{type(problem).__name__}: {str(problem).strip()[:200]}")


def simulate(
    card: str,
    names: list[str] | None = None,
    which: str = "corpus",
    seconds: float = 120.0,
    timing: str = "full",
    verify: bool = False,
) -> list[Row]:
    """Run every measured case of a set, each for at most ``seconds``; prints each row as soon as it is available."""
    recorded = measured(card, which)
    wanted = [name for name in kernel_set(which).names() if name in recorded and (not names or name in names)]
    rows: list[Row] = []
    context = multiprocessing.get_context("spawn")
    worker: BaseProcess | None = None
    for name in wanted:
        if worker is None:
            pipe, far = context.Pipe()
            worker = context.Process(target=_serve, args=(far, card, which, timing, verify), daemon=True)
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
        print(f"{name:24s} {recorded[name][CYCLES]:11,.0f}  {answer}", flush=True)
        if "stopped" in answer or "died" in answer:
            worker.kill()
            worker.join()
            worker = None
    if worker is not None:
        pipe.send(None)
        worker.join()
    return rows


def verdict(row: Row) -> str:
    """How the instruction counts compare: ``spread`` if the card's own differ from run to run and ours are within their range."""
    return "DIFFER" if not row.same_instructions else "same" if row.ordered else "spread"


def show(row: Row) -> None:
    """Print one line of the table."""

    def cell(value: float, form: str, width: int) -> str:
        return format("" if math.isnan(value) else format(value, form), f">{width}s")

    print(
        f"{row.name:24s} {row.measured_cycles:11,.0f} {row.simulated_cycles:11,.0f} {100 * row.error:+7.1f}%"
        f" {row.ours[INSTRUCTIONS]:11,.0f} {verdict(row):>6s}"
        f" {cell(row.l1_points, '+.1f', 7)} {cell(row.l2_points, '+.1f', 7)} {cell(100 * row.dram_error, '+.1f', 7)}"
        f" {row.speed / 1e6:7.2f}",
        flush=True,
    )


HEADER = (
    f"{'kernel':24s} {'card':>11s} {'simulated':>11s} {'error':>8s} {'warp instr.':>11s} {'counts':>6s}"
    f" {'L1 pts':>7s} {'L2 pts':>7s} {'DRAM %':>7s} {'M/s':>7s}"
)


def summary(rows: list[Row]) -> dict[str, float]:
    """Mean absolute error, 90th percentile, worst (all fractions), correlation of log cycles, and of the counters:
    how many instruction counts are equal, how many hit rates are within 3 points, and how many DRAM bytes within 5 %."""
    errors = np.abs([row.error for row in rows])
    logs = np.log([[row.measured_cycles, row.simulated_cycles] for row in rows])

    def within(values: list[float], limit: float) -> float:
        known = [abs(v) for v in values if not math.isnan(v)]
        return sum(v <= limit for v in known) / len(known) if known else math.nan

    return {
        "kernels": len(rows),
        "mean": float(errors.mean()),
        "p90": float(np.quantile(errors, 0.9)),
        "worst": float(errors.max()),
        "correlation": float(np.corrcoef(logs.T)[0, 1]) if len(rows) > 2 else math.nan,
        "same_instructions": sum(row.same_instructions for row in rows),
        "spread_instructions": sum(verdict(row) == "spread" for row in rows),
        "l1_within_3": within([row.l1_points for row in rows], 3),
        "l2_within_3": within([row.l2_points for row in rows], 3),
        "dram_within_5": within([row.dram_error for row in rows], 0.05),
        "speed": math.exp(float(np.mean(np.log([row.speed for row in rows])))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--set", default="corpus", dest="which")
    parser.add_argument("--timing", default="full", choices=["full", "sampled"])
    parser.add_argument("--verify", action="store_true", help="compare the results with the references as well")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for each kernel (default 120)")
    parser.add_argument("--over", type=float, default=20.0, help="list kernels with a larger error (percent)")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    print(HEADER)
    rows = simulate(
        arguments.gpu, arguments.names or None, arguments.which, arguments.seconds, arguments.timing, arguments.verify
    )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    figures = summary(rows)
    print(
        f"{figures['kernels']} kernels: mean absolute error {100 * figures['mean']:.1f}%, 90th percentile"
        f" {100 * figures['p90']:.1f}%, worst {100 * figures['worst']:.1f}%, correlation of log cycles"
        f" {figures['correlation']:.4f}"
    )
    print(
        f"instruction counts equal {figures['same_instructions']} ({figures['spread_instructions']:.0f} of them within what differs on the"
        f" card from run to run); hit rates within 3 points: L1"
        f" {100 * figures['l1_within_3']:.0f}%, L2 {100 * figures['l2_within_3']:.0f}% of kernels; DRAM bytes within 5%:"
        f" {100 * figures['dram_within_5']:.0f}%; {figures['speed'] / 1e6:.2f} M warp instructions/s on one thread"
    )
    far = [f"{row.name} {100 * row.error:+.0f}%" for row in rows if 100 * abs(row.error) > arguments.over]
    print(f"{len(far)} beyond {arguments.over:g}%: {', '.join(far)}")


if __name__ == "__main__":
    main()

"""Run a set of kernels on a real card: check every result, record every cycle count.

On any machine with the package installed::

    python -m bench.corpus_card prepare --set validation --gpu h200 --to build/card      # cubins for the card
    python -m bench.corpus_card digest --set validation --gpu h200 --to build/card       # the model's results, for check to compare
On the machine with the card (needs NumPy, NVIDIA's driver and, for ``record``, ``ncu``)::

    python -m bench.corpus_card check --set validation --from build/card                 # results against the references
    python -m bench.corpus_card record --set validation --from build/card --repeats 5 --out validation.json

``record`` runs each case under Nsight Compute (``--clock-control none``; caches flushed before
each kernel, ncu's default), so a measured kernel starts cold, as the model's does; of several repetitions
it keeps the median of each counter, all cycle counts, and every count of instructions, which depends on the order of the
chip's warps where it is not the same each time, and of L2's look-ups and hits, among which are some of the card's own.
A recording that the output file already holds is kept in it as ``earlier``, with its cycles and counts: repetitions in one
process differ by less than recordings of two days or two cards (``bench/card_spread.py``).
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import io
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, DeviceError
from bench.kernel_sets import kernel_set
from tests.kernels.case import Case

CYCLES = "gpc__cycles_elapsed.max"
METRICS = (
    *(CYCLES, "sm__cycles_active.avg", "sm__cycles_active.max", "smsp__inst_executed.sum"),
    *("smsp__thread_inst_executed.sum", "smsp__cycles_active.avg", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors.sum", "lts__t_sectors_lookup_hit.sum"),
    *("lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"),
    *("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "gpu__time_duration.sum"),
)
"""Nsight Compute's names; the model reports the same."""
COUNTED = (
    *("smsp__inst_executed.sum", "smsp__thread_inst_executed.sum"),
    *("lts__t_sectors.sum", "lts__t_sectors_lookup_hit.sum"),
)
"""Metrics of which every repetition is kept."""


def launch_case(card: Card, case: Case, cubin: bytes, repeats: int = 1) -> dict[int, np.ndarray]:
    """Run one case, each time on fresh inputs; the contents of its array arguments afterwards, by index."""
    module = card.load(cubin)
    arrays = {i: np.ascontiguousarray(a) for i, a in enumerate(case.args) if isinstance(a, np.ndarray) and a.ndim}
    buffers = {index: card.alloc(max(array.nbytes, 16)) for index, array in arrays.items()}
    values = [buffers[i] if i in buffers else np.asarray(a)[()] for i, a in enumerate(case.args)]
    try:
        for _ in range(repeats):
            for index, array in arrays.items():
                if array.nbytes:
                    buffers[index].write(array)
            for name, data in case.device_globals.items():
                module.write_symbol(name, data)
            module.launch(case.kernel, case.grid, case.block, values, case.shared_bytes)
        return {i: buffers[i].read(array.dtype, array.size).reshape(array.shape) for i, array in arrays.items()}
    finally:
        for buffer in buffers.values():
            buffer.free()
        module.unload()


def cubin_path(folder: Path, case: Case) -> Path:
    options = "_".join(option.strip("-=").replace("=", "-") for option in case.options)
    return folder / f"{case.source.stem}{'_' + options if options else ''}.cubin"


def chosen(which: str, names: list[str], small: bool = False) -> Iterator[Case]:
    """The cases of a set, in its order: those named, or all."""
    kernels = kernel_set(which)
    make = kernels.small if small else kernels.case
    if make is None:
        return
    for name in kernels.names():
        if not names or name in names:
            yield make(name)


def prepare(which: str, folder: Path, arch: int) -> None:
    """Compile a set for a card's architecture into its own folder under ``folder``; sets have sources of the same name."""
    from warpwright.toolchain import CompilerInput, load

    (folder / which).mkdir(parents=True, exist_ok=True)
    for case in chosen(which, []):
        path = cubin_path(folder / which, case)
        if not path.exists():
            path.write_bytes(load(case.source, arch, CompilerInput(case.options)).cubin)


def digests_path(folder: Path, which: str, small: bool) -> Path:
    return folder / f"{which}{'_small' if small else ''}_digests.json"


def digests_of(case: Case, after: Mapping[int, np.ndarray]) -> dict[str, str]:
    """A digest of every array argument before the launch (``in``) and after it (``out``)."""
    before = {i: a for i, a in enumerate(case.args) if i in after}
    pairs = (("in", before), ("out", after))
    return {
        f"{when} {i}": hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:16]
        for when, arrays in pairs
        for i, a in arrays.items()
    }


def digest(which: str, folder: Path, gpu: str, names: list[str], small: bool = False) -> None:
    """Run a set on the model and keep digests of what it leaves."""
    import warpwright

    model, found = warpwright.GPU(gpu, timing="off"), {}
    for case in chosen(which, names, small):
        module = model.compile(case.source, options=case.options)
        found[case.name] = digests_of(case, case.run(module)[1])
    if found:
        digests_path(folder, which, small).write_text(json.dumps(found, indent=1) + "\n")


def check(which: str, folder: Path, names: list[str], small: bool = False) -> int:
    """Launch every case and compare with the references, and with the model bit for bit where `digest` left its results.

    Prints failures, arrays with other bits and a summary; returns the number of failures.
    """
    card, failures, done, other = Card(), 0, 0, 0
    kept = digests_path(folder, which, small)
    model: dict[str, dict[str, str]] = json.loads(kept.read_text()) if kept.exists() else {}
    for case in chosen(which, names, small):
        done += 1
        try:
            after = launch_case(card, case, cubin_path(folder / which, case).read_bytes())
            theirs = digests_of(case, after)
            differ = [key for key, digest in model.get(case.name, theirs).items() if theirs[key] != digest]
            if differ:
                other += 1
                print(f"{case.name}: not the model's bits: {', '.join(differ)}", flush=True)
            case.verify(after)
        except (AssertionError, DeviceError) as problem:
            failures += 1
            print(f"{case.name}: {str(problem).strip()[:600]}", flush=True)
    bits = f"; {len(model) - other} of {len(model)} with the model's bits" if model else ""
    print(f"{which}{' (small)' if small else ''}: {done - failures} passed, {failures} failed{bits}", flush=True)
    return failures


def launch(which: str, folder: Path, names: list[str], repeats: int) -> None:
    """Launch every case some times and look at no result: what runs under ncu."""
    card = Card()
    for case in chosen(which, names):
        launch_case(card, case, cubin_path(folder / which, case).read_bytes(), repeats)


def under_ncu(own: list[str], metrics: tuple[str, ...], more: tuple[str, ...] = ()) -> tuple[list[dict[str, str]], str]:
    """Run a Python module under ncu, clocks left alone, with ``more`` options of ncu: one row for each launch, and what it printed."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", *more]
    ran = subprocess.run(
        [*command, "--metrics", ",".join(metrics), sys.executable, "-m", *own], capture_output=True, text=True
    )
    text = ran.stdout + ran.stderr
    lines = [line for line in text.splitlines() if line.startswith('"')]
    return [row for row in csv.DictReader(io.StringIO("\n".join(lines))) if row["ID"].strip()], text


def value(row: Mapping[str, str], metric: str) -> str:
    """A metric of one launch from ncu's table, without thousands separators."""
    return row.get(metric, "").replace(",", "").strip()


def profile(
    which: str, folder: Path, names: list[str], repeats: int, metrics: tuple[str, ...]
) -> dict[str, list[dict[str, str]]]:
    """Run cases under ncu, one process for all; each repetition's metrics by case."""
    own = ["bench.corpus_card", "launch", *names, "--set", which, "--from", str(folder), "--repeats", str(repeats)]
    measured, text = under_ncu(own, metrics)
    wanted = [(case.name, case.kernel) for case in chosen(which, names)]
    found: dict[str, list[dict[str, str]]] = {}
    for number, (name, kernel) in enumerate(wanted):
        rows = measured[number * repeats : (number + 1) * repeats]
        if not rows:
            break
        if any(kernel not in row["Kernel Name"] for row in rows):
            raise SystemExit(f"ncu reported {rows[0]['Kernel Name']} where {kernel} was launched")
        found[name] = [{key: value(row, key) for key in metrics} for row in rows]
    print(f"{len(found)} of {len(wanted)} kernels measured")
    if len(found) != len(wanted):
        print(text[-1500:])
    return found


def card_line() -> str:
    """Name, driver and highest clocks of the card."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.strip()


def as_earlier(recorded: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a new recording keeps of a data file: cycles and counts of its recording and of those before it, the latest first.

    A recording of one repetition has kept its cycles and counts as its kernels' metrics only.
    """
    kernels = recorded["kernels"]
    cycles = recorded.get("cycles") or {name: [values[CYCLES]] for name, values in kernels.items()}
    counts = recorded.get("counts") or {
        name: {key: [values[key]] for key in COUNTED if key in values} for name, values in kernels.items()
    }
    kept = {key: recorded[key] for key in ("card", "date", "command", "counts_command") if key in recorded}
    return [{**kept, "cycles": cycles, "counts": counts}, *recorded.get("earlier", [])]


def record(which: str, folder: Path, out: Path, names: list[str], repeats: int) -> None:
    """Measure every case under ncu and write the data file; a recording that it holds becomes an earlier one."""
    earlier = as_earlier(json.loads(out.read_text())) if out.exists() else []
    measured = profile(which, folder, names, repeats, METRICS)
    kernels = {
        name: {k: statistics.median(float(v[k]) for v in values) for k in METRICS if values[0][k]}
        for name, values in measured.items()
    }
    cycles = {name: [float(v[CYCLES]) for v in values] for name, values in measured.items()}
    made = {
        "card": card_line(),
        "date": datetime.date.today().isoformat(),
        "command": f"python -m bench.corpus_card record --set {which} --repeats {repeats}",
        "kernels": kernels,
        "cycles": cycles,
        "counts": {name: {k: [float(v[k]) for v in values] for k in COUNTED} for name, values in measured.items()},
        "earlier": earlier,
    }
    out.write_text(json.dumps(made, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "digest", "check", "launch", "record"])
    parser.add_argument(
        "--set",
        default="corpus",
        dest="which",
        help="corpus, validation, holdout, second, third, fourth, shapes or shapes_held",
    )
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/card"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.what == "prepare":
        from warpwright.chips import load_chip

        prepare(given.which, given.folder, load_chip(given.gpu).arch)
    elif given.what == "digest":
        digest(given.which, given.folder, given.gpu, given.names)
        digest(given.which, given.folder, given.gpu, given.names, small=True)
    elif given.what == "record":
        record(given.which, given.folder, given.out or Path(f"{given.which}.json"), given.names, given.repeats)
    elif given.what == "launch":
        launch(given.which, given.folder, given.names, given.repeats)
    else:
        failures = check(given.which, given.folder, given.names)
        failures += check(given.which, given.folder, given.names, small=True) if kernel_set(given.which).small else 0
        raise SystemExit(min(failures, 1))


if __name__ == "__main__":
    main()

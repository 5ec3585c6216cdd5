"""Figure 34 of the A100 whitepaper: a histogram in global memory with and without residency control, and on V100.

Integers fall into five million bins of 20 MB by one atomic sum each.  The paper's program is not published; this one gives each thread four neighbouring
integers at a time, drawn evenly.  The study uses a sixteenth of the paper's 256 million integers, twice: the second launch finds in L2 what the first has left,
so
that its time is a sixteenth of a launch that goes on for longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpwright.api import GPU
from warpwright.engine.access_policy import AccessWindow
from warpwright.run import Run
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "NVIDIA A100 Tensor Core GPU Architecture"
SOURCE = """
extern "C" __global__ void histogram(const unsigned *words, unsigned quads, unsigned *bins)
{
    const uint4 *data = reinterpret_cast<const uint4 *>(words);
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
        uint4 v = data[i];
        atomicAdd(bins + v.x, 1);
        atomicAdd(bins + v.y, 1);
        atomicAdd(bins + v.z, 1);
        atomicAdd(bins + v.w, 1);
    }
}
"""
BINS = 5_000_000
ELEMENTS, PAPER_ELEMENTS = 16 << 20, 256 << 20
LAUNCHES = 2
THREADS, QUADS_A_THREAD = 256, 16
SPEEDUP_TOLERANCE, GAIN_TOLERANCE_POINTS = 0.3, 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """One bar of the figure."""

    chip: str
    resident: bool = False
    set_aside_bytes: int = 0
    """Of L2; zero means none, or with residency control the maximum."""


def run_case(case: Case, data: np.ndarray) -> Run:
    """The histogram of ``data`` on a chip, with persisting bins if residency control is used."""
    gpu = GPU(case.chip, timing="full", caches="kept")
    kernel = gpu.compile(SOURCE)["histogram"]
    values, bins = gpu.array(data), gpu.zeros(BINS, np.uint32)
    window = None
    if case.set_aside_bytes or case.resident:
        gpu.set_aside(case.set_aside_bytes or gpu.chip.l2.l2_set_aside_max_kib << 10)
    if case.resident:
        window = AccessWindow(bins.device_address(), bins.nbytes, 1.0)
    blocks = data.size // (4 * THREADS * QUADS_A_THREAD)
    launch = kernel[blocks, THREADS].with_window(window)
    for _ in range(LAUNCHES):
        run = launch(values, np.uint32(data.size // 4), bins)
    assert int(bins.numpy().sum()) == LAUNCHES * data.size
    return run


@study("a100-fig34", f"{PAPER}, Figure 34")
def histogram(step: Step) -> Result:
    """A histogram of five million bins: V100, A100, and A100 with its bins kept in L2."""
    data = np.random.default_rng(34).integers(0, BINS, ELEMENTS, dtype=np.uint32)
    runs: dict[Case, Run] = {}
    for case in (Case("v100"), Case("a100"), Case("a100", resident=True)):
        step(f"{case.chip}{', persisting bins' if case.resident else ''}")
        runs[case] = run_case(case, data)
    old, plain, kept = runs.values()
    cells = [
        Cell("A100 with residency control", "over V100", old.seconds / kept.seconds, 2.5, SPEEDUP_TOLERANCE, True),
    ]
    gains = [
        Cell(
            "A100 with residency control",
            "over A100 without",
            100 * (plain.seconds / kept.seconds - 1),
            43.0,
            GAIN_TOLERANCE_POINTS,
            True,
        ),
    ]
    found = Result([Table("Speedup", "times", cells), Table("Gain", "%", gains)])
    step("a100, as many bytes set aside as the bins take, and no window")
    beside = run_case(Case("a100", set_aside_bytes=4 * BINS), data)
    found.remarks.append(
        "The paper does not say what its A100 without residency control sets aside. If the program sets aside the bins' 20 MB in both cases and only the window is left out, "
        f"the gain is {100 * (beside.seconds / kept.seconds - 1):.0f} %; an H100 gains 18 and 71 % with 6.1 and 9.2 lines of bins in a set (A100: 7.6) and half of its L2 set aside."
    )
    for case, run in runs.items():
        where = f"{case.chip}{' with residency control' if case.resident else ''}"
        whole = 1e3 * run.seconds * PAPER_ELEMENTS / ELEMENTS
        found.remarks.append(
            f"{where}: {whole:.2f} ms for 256 million integers; DRAM reads {run.metrics['dram__bytes_read.sum'] / 2**20:.0f} MiB "
            f"and writes {run.metrics['dram__bytes_write.sum'] / 2**20:.0f} MiB for a sixteenth of them."
        )
    return found

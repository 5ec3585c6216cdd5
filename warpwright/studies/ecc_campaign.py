"""The effect of flipped bits on a matrix product on A100, without and with ECC, compared with the A100 whitepaper's claims on its SECDED codes.

The whitepaper states what the codes do ("ECC Memory Resiliency": single errors are corrected, double errors detected, in DRAM, L2, L1 and registers) but no
rates; the rates of masked, wrong, ended and hung runs are the model's only, so they are remarks.
"""

from __future__ import annotations

import tempfile
from importlib import resources
from pathlib import Path

from warpwright.campaigns import Campaign, CampaignSpecification, campaign
from warpwright.campaigns.injector import OUTCOMES
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "NVIDIA A100 Tensor Core GPU Architecture"
UNPROTECTED, SINGLE, DOUBLE = 5000, 1000, 1000
WORKERS = 2


def _run(step: Step, folder: Path, injections: int, *, bits: int, ecc: bool) -> Campaign:
    program = resources.files("warpwright.studies") / "matrix_product_workload.py"
    asked = CampaignSpecification(str(program), injections, bits=bits, ecc=ecc, seed=22)

    def progress(done: int, total: int) -> None:
        step(f"{bits}-bit flips, {'with' if ecc else 'without'} ECC: {done:,} of {total:,}")

    return campaign(asked, folder / f"{bits}-{ecc}", workers=WORKERS, progress=progress)


@study("ecc-campaign", f"{PAPER}, ECC Memory Resiliency")
def ecc_campaign(step: Step) -> Result:
    """Flipped bits in DRAM, L2, registers and shared memory under a matrix product: corrected, detected, wrong, ended, hung."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        single = _run(step, folder, SINGLE, bits=1, ecc=True)
        double = _run(step, folder, DOUBLE, bits=2, ecc=True)
        without = _run(step, folder, UNPROTECTED, bits=1, ecc=False)
    cells = []
    for name, found, good in (("single flips", single, "corrected"), ("double flips", double, "detected")):
        for structure in found.specification.structures:
            counts = found.counts(structure)
            read = sum(counts.values()) - counts["masked"]
            cells.append(Cell(f"{name} in {structure}", good, 100 * counts[good] / max(read, 1), 100.0, 0.0))
    remarks = [
        f"Of the flips, these were read: {sum(single.counts().values()) - single.counts()['masked']:,} of {SINGLE:,} single and "
        f"{sum(double.counts().values()) - double.counts()['masked']:,} of {DOUBLE:,} double ones; the others were written over or never read.",
        f"The {UNPROTECTED:,} runs without ECC took {without.seconds:,.0f} s with {WORKERS} processes.",
    ]
    for structure in without.specification.structures:
        shares = []
        for outcome in OUTCOMES:
            share, low, high = without.rate(outcome, structure)
            if share:
                shares.append(f"{outcome} {share:.1%} ({low:.1%} to {high:.1%})")
        remarks.append(f"Without ECC, one flip in {structure}: {', '.join(shares)}; intervals hold 95 %.")
    return Result([Table("Flips that somebody read", "%", cells)], remarks)

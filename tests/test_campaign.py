"""Fault-injection campaigns: outcomes, seeds, resuming."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from warpwright.campaigns import CampaignError, CampaignSpecification, campaign
from warpwright.campaigns.campaign import wilson
from warpwright.studies import study as _study

WORKLOAD = """
import numpy as np

SOURCE = '''
extern "C" __global__ void chase(const int *next, int *out)
{
    __shared__ int kept[32];
    kept[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int at = kept[threadIdx.x ^ 1];
    for (int i = 0; i < 4; i++) at = next[at];
    out[blockIdx.x * 32 + threadIdx.x] = at;
}
'''

def prepare(gpu):
    next_of = gpu.array(np.roll(np.arange(64, dtype=np.int32), 1), name="next")
    out = gpu.zeros(64, np.int32, name="out")
    kernel = gpu.compile(SOURCE)["chase"]

    def run():
        kernel[2, 32](next_of, out)
        return out

    return run
"""


@pytest.fixture
def workload(tmp_path: Path) -> CampaignSpecification:
    program = tmp_path / "chase.py"
    program.write_text(WORKLOAD)
    return CampaignSpecification(str(program), 40, seed=5)


@pytest.mark.ci
def test_a_flipped_index_may_be_masked_wrong_or_a_crash(workload: CampaignSpecification, tmp_path: Path) -> None:
    found = campaign(replace(workload, injections=60), tmp_path / "out")
    counts = found.counts()
    assert min(counts["masked"], counts["sdc"], counts["crash"]) > 0, counts
    assert counts["corrected"] == counts["detected"] == 0
    assert sum(counts.values()) == 60
    lines = (tmp_path / "out" / "injections.csv").read_text().splitlines()
    assert len(lines) == 61


@pytest.mark.ci
@pytest.mark.parametrize(("bits", "outcome"), [(1, "corrected"), (2, "detected")])
def test_with_ecc_no_result_is_wrong(workload: CampaignSpecification, tmp_path: Path, bits: int, outcome: str) -> None:
    counts = campaign(replace(workload, ecc=True, bits=bits), tmp_path / "out").counts()
    assert counts[outcome] > 3
    assert counts[outcome] + counts["masked"] == 40, counts


@pytest.mark.ci
def test_a_campaign_goes_on_where_it_was_stopped_with_the_same_rows(
    workload: CampaignSpecification, tmp_path: Path
) -> None:
    whole = campaign(workload, tmp_path / "whole")
    campaign(replace(workload, injections=17), tmp_path / "parts")
    journal = tmp_path / "parts" / "injections.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    # Killed in the middle of a line.
    journal.write_text("".join(lines[:11]) + lines[11][:20])
    rest = campaign(workload, tmp_path / "parts")
    assert rest.ran == 29

    def rows(found: object) -> list[dict[str, object]]:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in found.rows]  # type: ignore[attr-defined]

    assert rows(rest) == rows(whole)
    assert [json.loads(line)["number"] for line in journal.read_text().splitlines()][:11] == list(range(11))


@pytest.mark.ci
def test_processes_give_the_same_rows(workload: CampaignSpecification, tmp_path: Path) -> None:
    one = campaign(workload, tmp_path / "one")
    two = campaign(workload, tmp_path / "two", workers=2)
    assert [(row["number"], row["outcome"]) for row in one.rows] == [
        (row["number"], row["outcome"]) for row in two.rows
    ]


@pytest.mark.ci
def test_a_dask_cluster_gives_the_same_rows(workload: CampaignSpecification, tmp_path: Path) -> None:
    """Two processes, one of which is killed on the way: its part runs again, and no injection is lost or there twice."""
    distributed = pytest.importorskip("distributed")
    one = campaign(replace(workload, injections=120), tmp_path / "one")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid

        def kill(finished: int, _: int) -> None:
            if finished == 25:
                os.kill(victim, signal.SIGKILL)

        many = campaign(
            replace(workload, injections=120), tmp_path / "many", scheduler=cluster.scheduler_address, progress=kill
        )
    assert many.ran == 120
    assert [(row["number"], row["outcome"]) for row in many.rows] == [
        (row["number"], row["outcome"]) for row in one.rows
    ]
    lines = (tmp_path / "many" / "injections.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["number"] for line in lines) == list(range(120))


def test_a_folder_of_another_campaign_is_refused(workload: CampaignSpecification, tmp_path: Path) -> None:
    campaign(replace(workload, injections=1), tmp_path / "out")
    with pytest.raises(CampaignError, match="another seed"):
        campaign(replace(workload, seed=6), tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"structures": ("cache",)}, "structures cache: name some of dram, l2, registers, shared"),
        ({"injections": 0}, "at least one injection"),
        ({"program": "nowhere.py"}, "there is no file"),
    ],
)
def test_wrong_specifications_are_refused(
    workload: CampaignSpecification, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(CampaignError, match=message):
        campaign(replace(workload, **change), tmp_path / "out")  # type: ignore[arg-type]


def test_intervals_hold_the_share() -> None:
    assert wilson(0, 100) == pytest.approx((0.0, 0.0, 0.0370), abs=1e-3)
    share, low, high = wilson(50, 100)
    assert low < share < high
    assert (round(low, 3), round(high, 3)) == (0.404, 0.596)


def test_the_study_is_listed() -> None:
    from warpwright.studies.catalogue import STUDIES

    assert "ecc-campaign" in STUDIES
    assert _study.STUDIES is STUDIES

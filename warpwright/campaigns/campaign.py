"""Runs a campaign: leaves out what earlier runs have finished, spreads the rest over processes or a Dask cluster, counts outcomes."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from warpwright.campaigns.injector import OUTCOMES, Injector
from warpwright.campaigns.specification import CampaignError, CampaignSpecification, specification_of
from warpwright.campaigns.store import Store
from warpwright.sweeps.dask_cluster import Cluster

PART = 25
"""Injections that a worker does between two reports."""
CONFIDENCE_95 = 1.959964
"""Standard deviations of a normal distribution's middle 95 %."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """The rows of a campaign, counted."""

    folder: Path
    specification: CampaignSpecification
    rows: Sequence[dict[str, Any]]
    ran: int
    """Injections of this run; the others were there."""
    seconds: float

    def counts(self, structure: str | None = None) -> dict[str, int]:
        """Injections by outcome; of one structure, or of all."""
        found = dict.fromkeys(OUTCOMES, 0)
        for row in self.rows:
            if structure in (None, row["structure"]):
                found[row["outcome"]] += 1
        return found

    def rate(self, outcome: str, structure: str | None = None) -> tuple[float, float, float]:
        """Share of an outcome, and the limits of its 95 % interval (Wilson)."""
        counts = self.counts(structure)
        return wilson(counts[outcome], sum(counts.values()))


def wilson(hits: int, total: int) -> tuple[float, float, float]:
    """A share and its 95 % interval."""
    if not total:
        return 0.0, 0.0, 1.0
    share, z = hits / total, CONFIDENCE_95
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return share, max(0.0, middle - half), min(1.0, middle + half)


@lru_cache(maxsize=2)
def _injector(text: str) -> Injector:
    return Injector(specification_of(text))


def run_part(text: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Run some injections in this process; workers call it."""
    injector = _injector(text)
    return [injector.inject(number).to_dict() for number in numbers]


def _locally(text: str, parts: Sequence[Sequence[int]], workers: int) -> Iterator[list[dict[str, Any]]]:
    if workers == 1:
        for part in parts:
            yield run_part(text, part)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = [pool.submit(run_part, text, part) for part in parts]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool:
            raise CampaignError(
                "a worker was killed (out of memory?): run the same command again with fewer --workers to continue"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _on_cluster(text: str, parts: Sequence[Sequence[int]], address: str) -> Iterator[list[dict[str, Any]]]:
    cluster = Cluster(address, CampaignError)
    for _, answer in cluster.answers(
        partial(run_part, text), parts, lambda _, one: (one, isinstance(one, cluster.lost))
    ):
        if isinstance(answer, cluster.lost):
            raise CampaignError(
                f"a part's workers were killed again and again (out of memory?): run the same command again to continue: {answer}"
            )
        if isinstance(answer, Exception):
            raise answer
        yield answer


def campaign(
    specification: CampaignSpecification,
    folder: str | os.PathLike[str],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Campaign:
    """Run the injections of a campaign that its folder has no row of.

    Args:
        workers: processes of this machine.
        scheduler: address of a Dask scheduler, which replaces them.
        progress: called with how many injections are finished, and how many there are.

    Raises:
        CampaignError: a wrong specification, or a folder in use.
    """
    asked = replace(specification, program=os.path.abspath(specification.program))
    asked.check()
    # Workers run any injection of the campaign, however many it has.
    text = asked.to_json()
    began = time.monotonic()
    with Store(Path(folder), text) as store:
        left = [number for number in range(asked.injections) if number not in store.rows]
        parts = [left[n : n + PART] for n in range(0, len(left), PART)]
        found = _on_cluster(text, parts, scheduler) if scheduler is not None else _locally(text, parts, workers)
        for rows in found:
            store.add(rows)
            if progress is not None:
                progress(len(store.rows), asked.injections)
        rows = [store.rows[number] for number in sorted(store.rows) if number < asked.injections]
    return Campaign(Path(folder), asked, rows, len(left), time.monotonic() - began)

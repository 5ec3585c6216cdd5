"""What a campaign runs: a workload, how many injections, into which structures, with or without ECC."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpwright.errors import WarpwrightError
from warpwright.faults.error_counters import STRUCTURES

MOST_BITS = 4


class CampaignError(WarpwrightError, ValueError):
    """A campaign that cannot run: says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class CampaignSpecification:
    """Everything that decides the result of each injection; the seed and an injection's number choose the rest."""

    program: str
    """A Python file with ``prepare(gpu)``, which returns a function that launches and returns arrays."""
    injections: int
    chip: str = "a100"
    structures: tuple[str, ...] = STRUCTURES
    bits: int = 1
    """Flipped bits of one word, neighbours."""
    ecc: bool = False
    seed: int = 0

    def check(self) -> None:
        """Refuse a campaign that cannot run.

        Raises:
            CampaignError: says what is wrong.
        """
        unknown = [name for name in self.structures if name not in STRUCTURES]
        if unknown or not self.structures:
            raise CampaignError(f"structures {', '.join(unknown) or 'none'}: name some of {', '.join(STRUCTURES)}")
        if self.injections < 1 or not 1 <= self.bits <= MOST_BITS:
            raise CampaignError(f"a campaign has at least one injection of 1 to {MOST_BITS} bits")
        if not Path(self.program).is_file():
            raise CampaignError(f"there is no file {self.program}: give a Python file with prepare(gpu)")

    def to_json(self) -> str:
        """The specification as text, by which a folder knows its campaign and a worker its work."""
        return json.dumps(asdict(self), sort_keys=True)


def specification_of(text: str) -> CampaignSpecification:
    """What :meth:`CampaignSpecification.to_json` gave."""
    values = json.loads(text)
    return CampaignSpecification(**{**values, "structures": tuple(values["structures"])})


Job = Callable[[], Any]
"""Launches once, and returns an array or several."""


def load_program(path: str) -> Callable[[Any], Job]:
    """The function ``prepare`` of a workload.

    Raises:
        CampaignError: the file has none.
    """
    import runpy

    names = runpy.run_path(path, run_name="warpwright_campaign")
    prepare = names.get("prepare")
    if not callable(prepare):
        raise CampaignError(
            f"{path} has no function prepare(gpu): it returns a function that launches and returns arrays"
        )
    return prepare

"""How long a kernel waits for a graph that it fires, on a card with nvcc: ``python -m bench.machine.graph_waits --out FILE``.

The program of ``graph_waits.cu`` runs under ``warpwright run --gpu h200`` too, which gives the model's cycles.  Build it with ``nvcc -rdc=true -cudart shared``.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from bench.machine.card_program import main


def with_medians(found: dict[str, Any]) -> dict[str, Any]:
    """The program's rows, each with the median of its runs for its first and its second wait."""
    for row in found["rows"]:
        row["median"] = [median(waits) for waits in zip(*row["cycles"], strict=True)]
    return found


if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: with_medians(run()), options=("-rdc=true",))

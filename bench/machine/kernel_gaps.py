"""What comes between two kernels of a line, as a graph and in a stream, on a card with nvcc: ``python -m bench.machine.kernel_gaps --out FILE``.

The program of ``kernel_gaps.cu`` runs under ``warpwright run --gpu h200`` too, which gives the model's times between events.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.machine.card_program import main


def with_slopes(found: dict[str, Any]) -> dict[str, Any]:
    """The program's rows, each with ``each``: microseconds for one kernel more, from the shortest line to the longest."""
    for row in found["rows"]:
        lengths = sorted(row["us"], key=int)
        more = int(lengths[-1]) - int(lengths[0])
        row["each"] = round((row["us"][lengths[-1]] - row["us"][lengths[0]]) / more, 4)
    return found


if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: with_slopes(run()))

"""The time between the kernels of a graph's forks and joins, by the number of branches, on a card with nvcc: ``python -m bench.machine.graph_joins --out FILE``.

The kernels store the times: nanoseconds of the chip's clock, as means over the stages of a chain.
"""

from __future__ import annotations

from pathlib import Path

from bench.machine.card_program import main

if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: run())

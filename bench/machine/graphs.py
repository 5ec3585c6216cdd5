"""Task graphs and the same kernels in streams, by shape, on a card with nvcc: ``python -m bench.machine.graphs --out FILE``.

The program of ``graphs.cu`` runs under ``warpwright run --gpu h200`` too, which gives the model's times between events.
"""

from __future__ import annotations

from pathlib import Path

from bench.machine.card_program import main

if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: run())

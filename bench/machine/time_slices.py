"""Time slices of processes that share a card, and context switches between them: ``python -m bench.machine.time_slices --out FILE``, on a card with nvcc.

Each process's kernel notes when it runs, by the global timer.
"""

from __future__ import annotations

from pathlib import Path

from bench.machine.card_program import main

if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: run())

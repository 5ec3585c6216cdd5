"""Times of launches by the host's clock on a card, with nvcc: ``python -m bench.machine.host_calls --out FILE``."""

from __future__ import annotations

from pathlib import Path

from bench.machine.card_program import main

if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: {"runs": [run() for _ in range(2)]})

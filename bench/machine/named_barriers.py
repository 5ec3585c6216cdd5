"""When warps leave a named barrier at which more warps arrive than it counts, on a card with nvcc: ``python -m bench.machine.named_barriers --out FILE``.

The program of ``named_barriers.cu`` runs under ``warpwright run --gpu h200`` too, with and without checks and timing.  Each row has a name, the threads that the barrier counts, and each
warp's kind of arrival, its time and the time at which it goes on (microseconds since the block's start).
"""

from __future__ import annotations

from pathlib import Path

from bench.machine.card_program import main

if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: run())

"""When kernels of forks, joins, lines and chains of streams begin, by the global timer: ``python -m bench.machine.event_waits --out FILE``, on a card with nvcc.

Times are nanoseconds after the first kernel has read its clock for the last time; its stores to managed memory take another 100 us, so that only
differences between later kernels tell anything.
"""

from __future__ import annotations

from pathlib import Path

from bench.machine.card_program import main

if __name__ == "__main__":
    main(Path(__file__), __doc__, lambda run: run())

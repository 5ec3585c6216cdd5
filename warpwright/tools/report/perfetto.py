"""Blocks over time as a trace that Perfetto (ui.perfetto.dev) and Chrome's tracing page open.

The format is Chrome's trace event format, JSON: one process for each launch, one thread for each place on an SM where
a block can be resident, one complete event (``ph = "X"``) for each block.  Times are microseconds of simulated time;
launches follow each other without a gap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpwright.errors import UnsupportedError
from warpwright.tools.launch_tables import dims
from warpwright.tools.report.figures import lanes_of

if TYPE_CHECKING:
    from warpwright.run import Run

LANES = 64
"""Thread numbers of one SM."""


def trace_events(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Events of some launches, one after the other.

    Raises:
        UnsupportedError: a run that was made with timing="off".
    """
    events: list[dict[str, Any]] = []
    begin = 0.0
    for number, run in enumerate(runs, 1):
        timing = run.timing
        if timing is None or timing.blocks is None:
            raise UnsupportedError(f"this run of {run.kernel} has no trace: {run.why_untimed}")
        microseconds = timing.seconds * 1e6 / max(timing.cycles, 1)
        name = f"{number}. {run.kernel} {dims(run.grid)} x {dims(run.block)}"
        events.append({"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}})
        events.append(
            {
                **{"ph": "X", "name": run.kernel, "cat": "launch", "pid": number, "tid": 0},
                **{"ts": begin, "dur": timing.seconds * 1e6},
                "args": {"cycles": timing.cycles, "limited by": run.bottleneck},
            }
        )
        events.append({"ph": "M", "name": "thread_name", "pid": number, "tid": 0, "args": {"name": "launch"}})
        named: set[int] = set()
        x, y, _ = run.grid
        for block, (lane, (sm, start, end)) in enumerate(
            zip(lanes_of(timing.blocks), timing.blocks.tolist(), strict=True)
        ):
            thread = 1 + sm * LANES + lane
            if thread not in named:
                named.add(thread)
                label = {"name": f"SM {sm}, place {lane}"}
                events.append({"ph": "M", "name": "thread_name", "pid": number, "tid": thread, "args": label})
                order = {"sort_index": thread}
                events.append({"ph": "M", "name": "thread_sort_index", "pid": number, "tid": thread, "args": order})
            index = f"({block % x}, {block // x % y}, {block // (x * y)})"
            events.append(
                {
                    **{"ph": "X", "name": f"block {index}", "cat": "block", "pid": number, "tid": thread},
                    **{"ts": begin + start * microseconds, "dur": (end - start) * microseconds},
                    "args": {"first cycle": start, "last cycle": end, "SM": sm},
                }
            )
        begin += timing.seconds * 1e6
    return events


def write_trace(path: str | PathLike[str], runs: Sequence[Run]) -> Path:
    """Write :func:`trace_events` to a JSON file and give its path."""
    target = Path(path)
    content = {"traceEvents": trace_events(runs), "displayTimeUnit": "ns"}
    target.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")
    return target

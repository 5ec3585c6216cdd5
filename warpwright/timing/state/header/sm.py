"""Parts of an SM's region without a fixed place."""

from __future__ import annotations

from warpwright.native.units import Unit
from warpwright.timing.state.header.declarations import offset


class SMParts(Unit):
    """Offsets, in an SM's region, of what depends on the chip or the program."""

    requests_at = offset("requests", "requests (Request)")
    policies_at = offset("policies", "what each request asks for its line (access_policy.py), where ``policies``")
    runs_at = offset(
        "runs",
        "how many requests each one stands for and, shifted, their place in ``answers`` (runs.py), where ``keeps_runs``",
    )
    answers_at = offset("answers", "when the answers to the requests of runs are there")
    waiters_at = offset("waiters", "waiters (Waiter)")
    loads_at = offset("loads", "loads in flight (PendingLoad)")
    const_at = offset("const", "LDC's first level")
    immediate_at = offset("immediate", "operands' first level, by sub-core")
    indexed_at = offset("indexed", "that of ULDCs with an index, by sub-core")
    const_blocks_at = offset("const_blocks", "L1.5's blocks of constants")
    l0_at = offset("l0", "L0 instruction cache")
    l1i_at = offset("l1i", "L1 instruction cache")
    l1_at = offset("l1", "L1's lines (CacheLine)")
    join_at = offset("join", "the store buffer: its lines (StoreLine), and the rest of it (StoreBuffer)")

"""A processor that shares page tables and caches with the GPU, over NVLink 2: address translation and the probe filter.

Kernels may use the host's ordinary memory.  A GPU that has no translation of a page asks the host, whose answer brings those of related pages too; requests
for the page wait for it.  The host's caches may have lines of the GPU's memory.  The GPU's probe filter knows which ones may be there, so that only requests for those ask
the host first (Choquette et al.: Volta, IEEE Micro 2018, "Hardware Coherence" and "NVLink Address Translation Services").

One thread serves the requests of such a launch in the order of time, as for ``page_migration.py``.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, peek, poke
from warpwright.timing import state as s
from warpwright.timing.address_hash import known_as

TRANSLATED_BY_HOST = -1
"""In place of a page table (``EW_TABLE``): of ordinary memory of the host."""


@core
def translation_of(m: Any, page: int) -> int:
    """Host address of the place where the device keeps a page's translation."""
    return m[s.chip.translation_table] + 8 * s.TR_WORDS * (page % m[s.chip.translations])


@core
def translation_wait(m: Any, line: int, time: int) -> int:
    """How many cycles a request at ``time`` waits for the translation of its line's page."""
    page = known_as(m, line) >> m[s.chip.translation_shift]
    kept = translation_of(m, page)
    if peek(kept + 8 * s.TR_PAGE) != page + 1:
        m[s.chip.translation_requests] += 1
        group = m[s.chip.translation_group]
        first = page - page % group
        for other in range(first, first + group):
            at = translation_of(m, other)
            if peek(at + 8 * s.TR_PAGE) != other + 1:
                poke(at + 8 * s.TR_PAGE, other + 1)
                poke(at + 8 * s.TR_READY, time + m[s.chip.translation_latency])
    wait = max(peek(kept + 8 * s.TR_READY) - time, 0)
    if wait:
        m[s.chip.translation_waits] += 1
    return wait


@core
def probe_wait(m: Any, line: int) -> int:
    """How many cycles a request to the device's own memory waits for the host's caches, which then have the line no longer."""
    m[s.chip.probe_checks] += 1
    first = m[s.chip.probe_table] + 8 * m[s.chip.probe_ways] * (line % m[s.chip.probe_sets])
    for way in range(m[s.chip.probe_ways]):
        if peek(first + 8 * way) == line + 1:
            poke(first + 8 * way, 0)
            m[s.chip.probes] += 1
            return m[s.chip.probe_latency]
    return 0

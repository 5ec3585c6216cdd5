"""The checks: NVIDIA compute-sanitizer's four tools, and two more, over the engine's trace records.

``checker.py`` is the entry: which checks are on and what they found; ``findings.py`` their words.  ``events.py`` says what of a
kernel matters, ``checked_execution.py`` runs its blocks and ``block_runner.py`` their warps, in machine code, which reads their records (``accesses.py``);
``shadow.py`` keeps who wrote and read what, ``happens_before.py`` what is ordered, ``stream_races.py`` races between launches, ``known_launches.py`` what
launches showed.
May import timing, engine, isa; nothing below imports it (``api`` does so when checks are asked for).
"""

from warpwright.tools.checks.arrangement import Findings, arranged
from warpwright.tools.checks.checker import CHECKS, DEFAULT_LEVEL, MORE_CHECKS, Checker, parse, parse_level
from warpwright.tools.checks.findings import MAY_DIFFER, SEVERITIES, Finding, Place, depends_on_order, summary

__all__ = [
    "CHECKS",
    "DEFAULT_LEVEL",
    "MAY_DIFFER",
    "MORE_CHECKS",
    "SEVERITIES",
    "Checker",
    "Finding",
    "Findings",
    "Place",
    "arranged",
    "depends_on_order",
    "parse",
    "parse_level",
    "summary",
]

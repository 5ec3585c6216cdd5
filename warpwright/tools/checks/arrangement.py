"""Arranges findings for readers: one entry per probable defect, causes before consequences.

Races of one write with several reads, before and after it, form one entry, because one barrier is missing. A thread that reads too early may find undefined
contents, so an uninitialized read of shared memory at a line of such a race is part of that entry. Within a launch, barriers and races come first, then reads
of unwritten memory, then faults and deadlocks, to which all of these may lead; errors come before warnings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from warpwright.tools.checks.findings import SEVERITIES, Finding, Place, summary

_MEMORY = re.compile(r"byte [\d,]+ of (.+)$")
SHARED = "shared memory"
_HAZARDS = ("RAW", "WAR", "WAW")
"""Order in which hazards are chosen to head an entry: a read after a write shows best what is missing."""
RANKS = {"racecheck": 1, "schedcheck": 1, "initcheck": 2, "memcheck": 3, "leakcheck": 4, "perfcheck": 4}


class Findings(list[Finding]):
    """The findings in the order in which they were found; printed, on the terminal and in a notebook, as a report of their entries."""

    def __repr__(self) -> str:
        entries = arranged(self)
        return "\n".join([*map(str, entries), summary(entries)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def arranged(findings: Sequence[Finding]) -> list[Finding]:
    """The entries for these findings in reading order; the findings are not changed."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(_defect(finding) or (number,), []).append(finding)
    entries = _without_symptoms([(_entry(group), _reads_of_shared_memory(group)) for group in groups.values()])
    return sorted(entries, key=lambda f: (f.launch, _rank(f), SEVERITIES.index(f.severity)))


def _rank(finding: Finding) -> int:
    if finding.check == "synccheck":
        return 0 if finding.places else 3
    return RANKS.get(finding.check, 3)


def _line(place: Place) -> str | int:
    return place.line or place.offset


def _memory(finding: Finding) -> str:
    """The memory that a finding concerns: an allocation's name, or shared memory."""
    match = _MEMORY.search(finding.details[0]) if finding.details else None
    return match[1] if match else ""


def _hazard(finding: Finding) -> str:
    return finding.details[0][:3] if finding.details else ""


def _defect(finding: Finding) -> tuple[object, ...] | None:
    """A key that findings of the same defect share; None for a finding that forms its own entry."""
    if finding.check == "initcheck" and finding.places:
        one = finding.places[0]
        return finding.check, one.kernel, _line(one), _memory(finding)
    if finding.check != "racecheck" or _hazard(finding) not in _HAZARDS or len(finding.places) != 2:
        return None
    write = finding.places[1] if _hazard(finding) == "WAR" else finding.places[0]
    return finding.check, write.kernel, _line(write), _memory(finding)


def _entry(group: Sequence[Finding]) -> Finding:
    """One entry for the findings of one defect: the most severe one, with the others as further lines."""
    if len(group) == 1:
        return group[0]
    head, *rest = sorted(group, key=_gravity)
    told, also = {_accesses(head)}, []
    for finding in rest:
        # The same two instructions race within a warp too, which is less severe and has the same remedy.
        if len(finding.places) == 2 and _accesses(finding) not in told:
            told.add(_accesses(finding))
            also.append(_also(finding, head))
    return replace(
        head,
        details=(*head.details, *also),
        count=sum(f.count for f in group),
        launch=min(f.launch for f in group),
    )


def _gravity(finding: Finding) -> tuple[int, int]:
    hazard = _hazard(finding)
    return SEVERITIES.index(finding.severity), _HAZARDS.index(hazard) if hazard in _HAZARDS else 0


def _accesses(finding: Finding) -> tuple[object, ...]:
    """The kind of a hazard and its two instructions."""
    return _hazard(finding), *((place.kernel, place.offset) for place in finding.places)


def _also(finding: Finding, head: Finding) -> str:
    first, second = finding.places
    grade = "" if finding.severity == head.severity else f" ({finding.severity})"
    return f"also {_hazard(finding)} hazard{grade}: {first.what} at {_named(first, head)}, then {second.what} at {_named(second, head)}"


def _named(place: Place, head: Finding) -> str:
    """A place, with the text of its line unless the entry's places already show it."""
    text = place.line.removeprefix(place.file_line()).removeprefix(": ")
    return place.where() + (f" ({text})" if text and place.line not in {p.line for p in head.places} else "")


def _reads_of_shared_memory(group: Sequence[Finding]) -> set[tuple[str, str | int]]:
    """Where races that are errors read shared memory."""
    races = (f for f in group if f.check == "racecheck" and f.severity == "error" and _memory(f) == SHARED)
    return {(p.kernel, _line(p)) for f in races for p in f.places if p.what.startswith("Read")}


def _without_symptoms(entries: Sequence[tuple[Finding, set[tuple[str, str | int]]]]) -> list[Finding]:
    """Merge reads of unwritten shared memory into the races that explain them."""
    result: list[Finding] = []
    told: dict[int, list[str]] = {}
    for finding, _ in entries:
        cause = None
        if finding.check == "initcheck" and _memory(finding) == SHARED and finding.places:
            place = finding.places[0].kernel, _line(finding.places[0])
            cause = next((n for n, (_, reads) in enumerate(entries) if place in reads), None)
        if cause is None:
            result.append(finding)
            continue
        told.setdefault(cause, []).append(
            f"so that a read may find nothing written: {finding.title} at {finding.places[0].where()}"
        )
    for n, lines in told.items():
        cause_of = entries[n][0]
        at = next(k for k, finding in enumerate(result) if finding is cause_of)
        result[at] = replace(cause_of, details=(*cause_of.details, *lines))
    return result

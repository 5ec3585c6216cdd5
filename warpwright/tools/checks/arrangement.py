"""Findings as a person reads them: one entry for what is probably one defect, causes before what follows from them.

Races of one write with several reads, before and after it, are one entry: one barrier is missing.  What a thread reads too early it may find
undefined, so that an uninitialized read of shared memory at a line of such a race is part of that entry.  Of one launch, barriers and races come
first, then reads of what nothing wrote, then faults and deadlocks, to which all of these may lead; errors before warnings.
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
"""The one that heads an entry first: a read after a write tells most of what is missing."""
RANKS = {"racecheck": 1, "schedcheck": 1, "initcheck": 2, "memcheck": 3, "leakcheck": 4, "perfcheck": 4}


class Findings(list[Finding]):
    """The findings as they were found; shown, on the terminal and in a notebook, as the report of their entries."""

    def __repr__(self) -> str:
        entries = arranged(self)
        return "\n".join([*map(str, entries), summary(entries)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def arranged(findings: Sequence[Finding]) -> list[Finding]:
    """Entries for these findings, in the order in which to read them; the findings stay as they are."""
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
    """The memory that a finding is about: an allocation's name, or shared memory."""
    match = _MEMORY.search(finding.details[0]) if finding.details else None
    return match[1] if match else ""


def _hazard(finding: Finding) -> str:
    return finding.details[0][:3] if finding.details else ""


def _defect(finding: Finding) -> tuple[object, ...] | None:
    """What findings of one defect have in common; None for one that stands for itself."""
    if finding.check == "initcheck" and finding.places:
        one = finding.places[0]
        return finding.check, one.kernel, _line(one), _memory(finding)
    if finding.check != "racecheck" or _hazard(finding) not in _HAZARDS or len(finding.places) != 2:
        return None
    write = finding.places[1] if _hazard(finding) == "WAR" else finding.places[0]
    return finding.check, write.kernel, _line(write), _memory(finding)


def _entry(group: Sequence[Finding]) -> Finding:
    """One entry for findings of one defect: the gravest, with the others as further lines."""
    if len(group) == 1:
        return group[0]
    head, *rest = sorted(group, key=_gravity)
    also = dict.fromkeys(_also(f, head) for f in rest if len(f.places) == 2)
    return replace(
        head,
        details=(*head.details, *also),
        count=sum(f.count for f in group),
        launch=min(f.launch for f in group),
    )


def _gravity(finding: Finding) -> tuple[int, int]:
    hazard = _hazard(finding)
    return SEVERITIES.index(finding.severity), _HAZARDS.index(hazard) if hazard in _HAZARDS else 0


def _also(finding: Finding, head: Finding) -> str:
    first, second = finding.places
    grade = "" if finding.severity == head.severity else f" ({finding.severity})"
    return f"also {_hazard(finding)} hazard{grade}: {first.what} at {_named(first, head)}, then {second.what} at {_named(second, head)}"


def _named(place: Place, head: Finding) -> str:
    """A place, with the text of its line where the entry's own places do not show it."""
    text = place.line.removeprefix(place.file_line()).removeprefix(": ")
    return place.where() + (f" ({text})" if text and place.line not in {p.line for p in head.places} else "")


def _reads_of_shared_memory(group: Sequence[Finding]) -> set[tuple[str, str | int]]:
    """Where races that are errors read shared memory."""
    races = (f for f in group if f.check == "racecheck" and f.severity == "error" and _memory(f) == SHARED)
    return {(p.kernel, _line(p)) for f in races for p in f.places if p.what.startswith("Read")}


def _without_symptoms(entries: Sequence[tuple[Finding, set[tuple[str, str | int]]]]) -> list[Finding]:
    """Put reads of shared memory that nothing wrote into the races that explain them."""
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

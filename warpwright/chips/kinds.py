"""The kinds of evidence for a chip's numbers, from the best to none.

In a chip file the key of a number's value is its kind::

    l1_hit_latency_cycles = { measured = 32, source = "card: python -m bench.micro, LDG 32" }
"""

from __future__ import annotations

from typing import Final

KINDS: Final = {
    "measured": "isolated by a microbenchmark of this project on a card of this chip",
    "published": "printed in a document about this chip, converted to the field's unit at most",
    "derived": "computed from published or measured numbers of this chip, or without effect because the chip lacks the unit",
    "borrowed": "measured on another chip or published about one, as it is or scaled",
    "fitted": "chosen so that the model agrees with measurements that do not isolate it",
    "assumed": "a choice of the model, for which there is no measurement",
    "set": "set by the user, in a file or as an override",
}
"""The kinds and what each means."""

BASED_ON_THE_CHIP: Final = frozenset({"measured", "published", "derived"})
"""Kinds of numbers that rest on evidence about the chip itself."""

_LOST_BY_INHERITING: Final = frozenset({"measured", "published", "derived", "fitted"})


def inherited(kind: str) -> str:
    """The kind of a number that a chip takes over from its base: evidence about another chip is borrowed."""
    return "borrowed" if kind in _LOST_BY_INHERITING else kind


def read_entry(entry: object) -> tuple[object, str, str] | None:
    """Value, kind and source of ``{ KIND = value, source = "…" }``; None if an entry has another form.

    ``value`` as the key stands for ``set``.
    """
    if not isinstance(entry, dict) or len(entry) != 2 or not isinstance(entry.get("source"), str):
        return None
    key = next(name for name in entry if name != "source")
    kind = "set" if key == "value" else key
    return (entry[key], kind, entry["source"]) if kind in KINDS else None

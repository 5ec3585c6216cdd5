"""The hold-out sets: kernels that the model was never looked at with when they were measured, used to calibrate nothing.

The first set is in the manner of Rodinia, Parboil, PolyBench, SHOC, Altis and XSBench, of inference and training of language models,
of Hopper's own features; `bench.holdout.second` is what was written when the first had been looked into.  Of each set the table of its first
comparison with a card, before any change that it gave cause for, stands in ``docs/validation.md``.
Sources are ``*.cu``; the cases are tables by theme: name → a function that makes the launch and its reference, in two sizes.
"""

from __future__ import annotations

from bench.holdout import cases_hopper, cases_lookups, cases_models, cases_science
from bench.holdout.case import Case, Collection

__all__ = ["Case", "case", "names"]

FIRST = Collection(cases_models, cases_lookups, cases_science, cases_hopper)
names, case = FIRST.names, FIRST.case

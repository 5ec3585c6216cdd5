"""The fourth hold-out set: programs as people write them, after the suites, papers and libraries of their fields.

Benchmark suites, layers of neural networks, databases, graphs, simulations, signals, the chip's own features, numbers and ciphers.
"""

from __future__ import annotations

from bench.holdout.case import Case, Collection
from bench.holdout.fourth import (
    cases_learning,
    cases_machine,
    cases_signals,
    cases_simulations,
    cases_suites,
    cases_tables,
)

__all__ = ["Case", "case", "names"]

FOURTH = Collection(cases_suites, cases_learning, cases_tables, cases_simulations, cases_machine, cases_signals)
names, case = FOURTH.names, FOURTH.case

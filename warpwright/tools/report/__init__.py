"""Explains a launch's cycles, and writes a page that shows it.

``attribution.py`` turns a timed run into one record: stall reasons, cost of every instruction and source line, share of
peak of every unit, lower bounds, the limiting resource.  ``resources.py`` has what relieves each limit; ``relieved.py`` times
a program again with each relieved, and ranks them by what they save; ``whatif.py`` does so with any fields of the chip.  ``page.py`` puts the page together: ``overview.py`` has the
table of launches, ``launch_sections.py``, ``schedulers.py``, ``instruction_mix.py``, ``occupancy_curves.py`` and ``caches.py`` a launch's sections,
``markup.py`` what they share, ``figures.py`` the drawings, ``listing.py`` source beside machine code (``coloured_code.py``, ``live_registers.py``); ``origins.py`` and ``model_panel.py`` show launches by module, operator and range; ``comparison.py`` and ``side_by_side.py`` show two runs; ``perfetto.py`` writes blocks over time for Perfetto.
"""

from warpwright.tools.report.attribution import Attribution, attribute
from warpwright.tools.report.comparison import Comparison, Difference, Pair, compared_with
from warpwright.tools.report.page import report_html, write_report
from warpwright.tools.report.perfetto import trace_events, write_trace
from warpwright.tools.report.relieved import Ranking, WhatIf, ranked
from warpwright.tools.report.whatif import what_if

__all__ = [
    "Attribution",
    "Comparison",
    "Difference",
    "Pair",
    "Ranking",
    "WhatIf",
    "attribute",
    "compared_with",
    "ranked",
    "report_html",
    "trace_events",
    "what_if",
    "write_report",
    "write_trace",
]

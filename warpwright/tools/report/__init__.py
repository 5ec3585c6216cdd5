"""Explains a launch's cycles, and writes a page that shows it.

``attribution.py`` turns a timed run into one record: stall reasons, cost of every instruction and source line, share of
peak of every unit, lower bounds, the limiting resource.  ``resources.py`` says what relieves each limit; ``whatif.py`` times
a launch again with it relieved.  ``page.py`` writes the page from these records, ``figures.py`` its drawings,
``listing.py`` source beside machine code; ``perfetto.py`` writes blocks over time for Perfetto.
"""

from warpwright.tools.report.attribution import Attribution, attribute
from warpwright.tools.report.page import report_html, write_report
from warpwright.tools.report.perfetto import trace_events, write_trace
from warpwright.tools.report.relieved import WhatIf, advised
from warpwright.tools.report.whatif import what_if

__all__ = [
    "Attribution",
    "WhatIf",
    "advised",
    "attribute",
    "report_html",
    "trace_events",
    "what_if",
    "write_report",
    "write_trace",
]

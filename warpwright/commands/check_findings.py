"""Starts the checks of ``--check`` and prints what they found."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from warpwright.commands.output import FAILED, MISUSED, console, fail

if TYPE_CHECKING:
    from warpwright.tools.checks import Finding


def start_checks(check: str, level: str | None) -> None:
    """Have every GPU of this process and its children run the checks."""
    from warpwright.errors import UnsupportedError
    from warpwright.session import session
    from warpwright.tools.checks import parse, parse_level

    try:
        parse(check)
        if level is not None:
            parse_level(level)
    except UnsupportedError as refused:
        raise fail(str(refused), MISUSED) from None
    session.check, session.check_level = check, level


def show_findings(of_children: list[Finding]) -> int:
    """Print the findings of the checks, in this process and its children; return 1 if there is an error among them."""
    from warpwright.session import session
    from warpwright.tools.checks import MAY_DIFFER, arranged, depends_on_order, summary

    if sys.platform == "linux":
        from warpwright.driver import launch_records

        launch_records.report_leaks()
    found = arranged([*session.findings(), *of_children])
    out = console()
    for finding in found:
        out.print(str(finding), markup=False, soft_wrap=True)
    if depends_on_order(found):
        out.print(MAY_DIFFER, markup=False, soft_wrap=True)
    checked = not session.checkers or any(checker.launches for checker in session.checkers)
    out.print(summary(found, checked), markup=False, soft_wrap=True)
    session.check = session.check_level = None
    session.checkers.clear()
    return FAILED if any(f.severity == "error" for f in found) else 0

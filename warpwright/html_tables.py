"""HTML for notebooks: a table of plain texts, and a page in a frame.  This module imports nothing of the package."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_CELL = "padding:.15em .8em;text-align:{}"


def table(title: str, rows: Sequence[Sequence[str]], headings: Sequence[str] = ()) -> str:
    """A table whose first column names the row; the other columns are aligned to the right.

    Every text is escaped, so that a kernel's name (``sum<float>``) shows as it is.
    """
    parts = [f"<table><caption style='text-align:left;font-weight:bold'>{escape(title)}</caption>"]
    if headings:
        parts.append("<tr>" + "".join(_cell("th", n, text) for n, text in enumerate(headings)) + "</tr>")
    parts += ["<tr>" + "".join(_cell("td", n, text) for n, text in enumerate(row)) + "</tr>" for row in rows]
    return "".join([*parts, "</table>"])


def _cell(tag: str, column: int, text: str) -> str:
    align = _CELL.format("right" if column else "left")
    return f"<{tag} style='{align}'>{escape(text)}</{tag}>"


def frame(title: str, page: str) -> str:
    """A whole page within an output: its style and script stay apart from the notebook's. Viewers that drop frames lose nothing else."""
    return (
        f'<iframe title="{escape(title)}" srcdoc="{escape(page)}" loading="lazy" '
        'style="width:100%;height:640px;border:1px solid #8888;border-radius:6px;resize:vertical"></iframe>'
    )

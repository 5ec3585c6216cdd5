"""Pieces of markup that every section of the report uses: numbers, shares, bars, panels."""

from __future__ import annotations

from html import escape


def datum(name: str, value: float, shown: str, tag: str = "td", kind: str = "num") -> str:
    """A number as people read it, with its exact value beside it for programs."""
    exact = repr(int(value)) if float(value).is_integer() else repr(float(value))
    return f'<{tag} class="{kind}" data-name="{escape(name)}" data-value="{exact}">{escape(shown)}</{tag}>'


def bar(share: float, kind: str = "") -> str:
    return f'<span class="bar {kind}" aria-hidden="true"><i style="width:{100 * min(max(share, 0.0), 1.0):.2f}%"></i></span>'


def scroll(label: str, content: str, kind: str = "") -> str:
    """An area that scrolls sideways, reachable by keyboard; a table in it that has no caption gets the same name."""
    named = escape(label)
    if "<caption" not in content:
        content = content.replace("<table", f'<table aria-label="{named}"', 1)
    return f'<div class="scroll{f" {kind}" if kind else ""}" tabindex="0" role="region" aria-label="{named}">{content}</div>'


def panel(title: str, content: str, anchor: str = "", kind: str = "") -> str:
    """A titled part of a launch; the contents link to ``anchor``."""
    place = f' id="{anchor}"' if anchor else ""
    return f'<div class="panel{f" {kind}" if kind else ""}"{place}><h3>{escape(title)}</h3>{content}</div>'


def rows_table(caption: str, headings: tuple[str, ...], rows: list[str], kind: str = "") -> str:
    """A table; all columns but the first hold numbers. An empty caption is for areas that scroll, where it stands before them."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(
        f'<th scope="col"{" class=num" if n else ""}>{escape(h)}</th>' if h else "<td></td>"
        for n, h in enumerate(headings)
    )
    return (
        f"<table{f' class={kind!r}' if kind else ''}>{title}<thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )

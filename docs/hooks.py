"""MkDocs hook: the roles of docstrings (``:class:`Run` ``) become code."""

from __future__ import annotations

import re


def on_page_content(html: str, **_: object) -> str:
    return re.sub(r":(?:class|func|meth|data|mod|attr):<code>~?", "<code>", html)

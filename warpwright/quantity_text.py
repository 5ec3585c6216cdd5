"""How results are written, in tables, pages and sentences alike.

Measured quantities have three significant figures and a unit (``7.50 µs``, ``10.1 µs``, ``1.25 MiB``, ``823 GB/s``); counts are whole, with
commas; shares are percents, whole ones from 10% on and with one decimal below; ratios have three figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_TIMES = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_SIZES = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10))
_PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


def figures(value: float) -> str:
    """Three significant figures, zeros at the end included: ``7.50``, ``10.1``, ``0.0331``, ``1,230``."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    rounded = float(f"{value:.2e}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.2e}" if decimals > 8 else f"{rounded:,.{decimals}f}"


def _in_unit(value: float, units: Sequence[tuple[str, float]]) -> tuple[str, str]:
    """Figures and the largest unit of which there is at least one after rounding."""
    for unit, scale in units:
        if float(f"{value / scale:.2e}") >= 1:
            return figures(value / scale), unit
    unit, scale = units[-1]
    return figures(value / scale), unit


def time_text(seconds: float) -> str:
    """A time: ``7.50 µs``."""
    return " ".join(_in_unit(seconds, _TIMES))


def size_text(count: float) -> str:
    """Bytes with a binary prefix: ``2.25 MiB``; below 1 KiB whole."""
    return f"{count:,.0f} B" if count < 1024 else " ".join(_in_unit(count, _SIZES))


def byte_count_text(count: int) -> str:
    """``1,536 bytes``, ``12.0 MiB`` or ``3.50 GiB``: exact below 1 MiB."""
    if count < 1 << 20:
        return f"{count:,} bytes" if count != 1 else "1 byte"
    return size_text(count)


def amount_text(value: float, unit: str = "") -> str:
    """A count or rate with a decimal prefix: ``1.23 TFLOP/s``, ``2.40 M``; a whole number below 1,000 is exact."""
    if value < 1000 and float(value).is_integer():
        return f"{value:,.0f} {unit}".rstrip()
    number, prefix = _in_unit(value, _PREFIXES)
    return f"{number} {prefix}{unit}".replace("  ", " ").rstrip()


def number_text(value: float) -> str:
    """A count whole, with commas; anything else with three figures."""
    return f"{value:,.0f}" if float(value).is_integer() else figures(value)


def share_text(share: float) -> str:
    """A share of 1 in percent: ``26%``, ``1.3%``, ``<0.1%``."""
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{share:.1%}" if 0 < abs(share) < 0.0995 else f"{share:.0%}"

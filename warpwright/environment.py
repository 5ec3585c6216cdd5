"""Values of the environment variables ``WARPWRIGHT_…``: read, or refused with the variable's name and its valid values.

Variables are checked before a program starts (``driver/settings.py``) and where they are used. An empty variable counts as unset.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from warpwright.errors import WarpwrightError

Value = TypeVar("Value")


class SettingError(WarpwrightError, ValueError):
    """An environment variable has an invalid value; the message names the variable and its valid values."""


def setting(name: str, meaning: Callable[[str], Value], default: Value) -> Value:
    """The value of ``WARPWRIGHT_<name>``.

    Args:
        meaning: converts the text to the value; raises ``ValueError`` or a ``WarpwrightError`` if it is invalid.
        default: the value if the variable is unset or empty.

    Raises:
        SettingError: the value is not valid.
    """
    text = os.environ.get(f"WARPWRIGHT_{name}", "")
    if not text:
        return default
    try:
        return meaning(text)
    except (WarpwrightError, ValueError) as error:
        advice = " Correct" if str(error).endswith("?") else "; correct"
        raise SettingError(f"WARPWRIGHT_{name}={text} is not valid: {error}{advice} or unset it") from None


def whole_number(text: str) -> int:
    """A positive whole number, written in decimal digits only."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise ValueError("use a positive whole number")
    return int(text)


def positive_number(text: str, unit: str) -> float:
    """A positive, finite number, which may have a fraction.

    Args:
        unit: in the plural, for the message.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"use a positive number of {unit}")
    return number


def flag(text: str) -> bool:
    """A switch: 0 or 1."""
    return one_of(text, ("0", "1")) == "1"


def one_of(text: str, known: Sequence[str]) -> str:
    """One of the words in ``known``."""
    if text not in known:
        raise ValueError(f"use {' or '.join(known)}")
    return text


def seconds(text: str) -> float:
    """A time, in seconds."""
    return positive_number(text, "seconds")


def gb_per_s(text: str) -> float:
    """A rate, in GB/s."""
    return positive_number(text, "GB/s")


def mib(text: str) -> int:
    """A whole number of MiB, in bytes."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("use a whole number of MiB")
    return int(text) << 20

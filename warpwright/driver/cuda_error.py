"""The exception of a failed call: carries its result code and the explanation printed on standard error."""

from __future__ import annotations

import os

from warpwright.driver import results

_said: set[str] = set()


class CudaError(Exception):
    """Ends a call with this result code."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or results.sentence(code))
        self.code = code
        self.message = message


def say(message: str) -> None:
    """Print a message on standard error, once per text."""
    if message not in _said:
        _said.add(message)
        os.write(2, f"warpwright: {message}\n".encode())

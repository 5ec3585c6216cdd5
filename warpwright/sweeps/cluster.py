"""The connection to a Dask cluster, whose workers need this package and the programs at the same paths."""

from __future__ import annotations

import importlib
from typing import Any

AHEAD = 4
"""Pieces of work in a cluster's queue for each of its threads."""


def connect(address: str, error: type[Exception]) -> tuple[Any, Any]:
    """The package ``distributed``, and a client of the scheduler at an address.

    Args:
        error: raised where Dask is not installed, or nothing answers.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise error("--scheduler needs Dask: pip install 'warpwright[dask]'") from None
    try:
        return distributed, distributed.Client(address, timeout=20)
    except (OSError, ValueError, TimeoutError) as refusal:
        raise error(f"no Dask scheduler answers at {address}: {refusal}") from None

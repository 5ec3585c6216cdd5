"""The options of benchmarks that compare this checkout with another one, in turns."""

from __future__ import annotations

import argparse
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def turns_and_checkouts(description: str | None) -> tuple[int, list[Path]]:
    """Parse ``--turns N`` and ``--against CHECKOUT``: the number of turns, and the checkouts, this one first."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout")
    arguments = parser.parse_args()
    return arguments.turns, [HERE, *([arguments.against.resolve()] if arguments.against else [])]

"""Where the driver places allocations of many sizes, and the symbols of a module: their addresses.

``python -m bench.machine.allocations --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` asks a card's driver, in a process of its own for each order.
"""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

from bench.device import Card
from bench.machine.card_program import builds, cubin_parser

KIB, MIB = 1 << 10, 1 << 20
SYMBOLS = ("word_a", "word_b", "numbers", "odd", "table", "grid_points", "volume", "settings", "weights")
SIZES = (
    *(4, 4, 16, 256, 257, 512, 513, 1024, 1025, 4 * KIB, 5000, 64 * KIB, 100_000, 256 * KIB, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB),
    *(4, 16, 20 * MIB, 4),
)  # fmt: skip
FREED = (1, 3, 8, 12)
"""Which of them are freed, before the same sizes are allocated again in the reverse order."""
ORDERS = ("module, arrays", "arrays, module", "module twice, arrays")


def place_symbols(card: Card, cubin: bytes) -> list[list[Any]]:
    """Name, address and size of each symbol of a newly loaded module."""
    module = card.load(cubin)
    return [["symbol " + name, *module.symbol(name)] for name in SYMBOLS]


def place_arrays(card: Card) -> list[list[Any]]:
    """The step, address and size of each allocation."""
    arrays = [card.alloc(size) for size in SIZES]
    rows: list[list[Any]] = [["array", array.address, array.nbytes] for array in arrays]
    for number in FREED:
        arrays[number].free()
    again = [card.alloc(SIZES[number]) for number in reversed(FREED)]
    rows += [["after frees", array.address, array.nbytes] for array in again]
    return rows


def place(order: str, cubin: bytes) -> list[list[Any]]:
    """What is placed where in one order; the process has made nothing before."""
    card, rows = Card(), []
    for step in order.split(", "):
        if step == "arrays":
            rows += place_arrays(card)
        for _ in range({"module": 1, "module twice": 2}.get(step, 0)):
            rows += place_symbols(card, cubin)
    return rows


def main() -> None:
    options = cubin_parser(__doc__).parse_args()
    if builds(Path(__file__), options):
        return
    found: dict[str, Any] = {"command": "python -m bench.machine.allocations --cubin FILE --out FILE"}
    for order in ORDERS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[order] = pool.apply(place, (order, options.cubin.read_bytes()))
        print(order, *(f"{name} {size}: {address:#x}" for name, address, size in found[order]), sep="\n")
    if options.out:
        options.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()

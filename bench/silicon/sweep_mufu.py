"""Sweep the special-function unit of a card and solve for its tables (``warpwright/engine/data/mufu.npz``).

``run`` records what the instruction gives over whole binades; ``solve`` (needs SciPy) finds, for every segment, the
integers C1 and C2 and the interval of C0 with which C0 + C1 x + C2 square(x), cut, is every recorded result. A linear
program gives C1 and C2 to within their units; the intervals are then exact integer arithmetic::

    python -m bench.silicon.sweep_mufu prepare --to build/silicon
    python -m bench.silicon.sweep_mufu run --from build/silicon --out sweeps.npz     # on the machine with the card
    python -m bench.silicon.sweep_mufu solve --out sweeps.npz --tables mufu.npz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.device import Card
from bench.silicon.check_mufu import CODES, places, with_function
from warpwright.engine.silicon_mufu import TANH_BITS, TANH_FIRST, Arrays, Programs

HERE = Path(__file__).parent
BINADE = 1 << 23
SWEEPS: dict[str, tuple[tuple[int, int], ...]] = {
    "rcp": ((127, 1),),
    "rsq": ((127, 2),),
    "sqrt": ((127, 2),),
    "ex2": ((127, 1),),
    "lg2": ((127, 1),),
    "sin": ((122, 4),),
    "tanh": ((TANH_FIRST, len(TANH_BITS)),),
}
"""First biased exponent and number of binades."""
UNITS = {"rcp": (1, 1), "rsq": (1, 1), "sqrt": (1, 1), "ex2": (1, 1), "lg2": (8, 4), "sin": (16, 4), "tanh": (1, 1)}
"""What C1 and C2 are multiples of."""
Segment = tuple[np.ndarray, np.ndarray, np.ndarray]


def run(folder: Path, out: Path) -> None:
    """Record all results as uint32 arrays, one for each function."""
    card = Card()
    cubin = (folder / "mufu.cubin").read_bytes()
    found = places(cubin)
    results: dict[str, np.ndarray] = {"card": np.array(str(card.describe()))}
    for name, ((first, binades),) in SWEEPS.items():
        module = card.load(with_function(cubin, found, CODES.index(name)))
        count = BINADE * binades
        buffer = card.alloc(4 * count)
        module.launch("mufu", 132 * 8, 256, [np.uint32(first << 23), np.uint32(1), np.uint32(count), buffer])
        results[name] = buffer.read(np.uint32, count)
        buffer.free()
    np.savez_compressed(out, **results)


def interval(bits: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """[low, high) of the numbers that are cut to these, in units of 2**-24 times ``scale``."""
    values = np.abs(bits.view(np.float32).astype(np.float64)) * 2.0**24 * scale
    last = np.where(values == 0, 2.0**-36, 2.0 ** (np.frexp(values)[1] - 24))
    return values, values + last


def rows(bits: np.ndarray, count: int, scale: float, first: int = 0) -> Iterator[Segment]:
    """``count`` equal segments of a sweep; ``first`` arguments of the first one are special and left out."""
    low, high = interval(bits, scale)
    length = len(bits) // count
    for n in range(count):
        skip = first if n == 0 else 0
        part = slice(n * length + skip, (n + 1) * length)
        yield np.arange(skip, length, dtype=np.int64) * ((1 << 17) // length), low[part], high[part]


def segments(name: str, bits: np.ndarray) -> Iterator[Segment]:
    """The arguments' x and the intervals of v, segment by segment."""
    if name == "rcp":
        yield from rows(bits, 128, 1, 1)
    elif name in ("rsq", "sqrt"):
        yield from rows(bits[:BINADE], 64, 1, 1 if name == "rsq" else 0)
        yield from rows(bits[BINADE:], 64, 1)
    elif name == "ex2":
        yield from rows(bits, 64, 0.25)
    elif name == "lg2":
        yield from rows(bits, 64, 1, 1)
    elif name == "tanh":
        for n, count in enumerate(TANH_BITS):
            step = 1 << 6 - count
            for x, low, high in rows(bits[n * BINADE : (n + 1) * BINADE : step], 1 << count, 1):
                below = low < 2.0**24
                yield x[below], low[below], high[below]
    else:  # places in a quarter turn; the last binade is the second quarter, which mirrors the whole of the first
        argument = np.arange(122 << 23, 126 << 23, dtype=np.uint32).view(np.float32).astype(np.float64)
        turns = np.floor(argument * 2.0**25).astype(np.int64)
        odd = (turns >> 23) & 1 == 1
        place = np.where(odd, ~turns, turns) & (BINADE - 1)
        place, chosen = np.unique(place, return_index=True)
        low, high = interval(bits[chosen], 1)
        for n in range(64):
            here = (place >> 17 == n) & (place > 0)
            yield place[here] & 0x1FFFF, low[here], high[here]


def feasible(low: np.ndarray, high: np.ndarray, x: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """C1 and C2 (real numbers) of the widest margin, by a linear program over the tightest arguments."""
    from scipy.optimize import linprog

    basis = np.stack([x / 2.0**17, q / 2.0**15, np.ones(len(x))], axis=1)
    start = np.linalg.lstsq(basis / (high - low)[:, None], (low + high) / 2 / (high - low), rcond=None)[0]
    below, above = low - basis @ start, high - basis @ start
    chosen = np.unique(np.r_[np.linspace(0, len(x) - 1, 60).astype(int), np.argsort(np.minimum(-below, above))[:60]])
    while True:
        a, ones = basis[chosen], np.ones((len(chosen), 1))
        answer = linprog(
            [0, 0, 0, -1], A_ub=np.r_[np.c_[-a, ones], np.c_[a, ones]], b_ub=np.r_[-below[chosen], above[chosen]],
            bounds=[(None, None)] * 3 + [(None, 10)], method="highs",
        )  # fmt: skip
        v = basis @ answer.x[:3]
        margin = np.minimum(v - below, above - v)
        more = np.setdiff1d(np.argsort(margin)[:30], chosen)
        if margin.min() > answer.x[3] - 1e-7 or not len(more):
            return float(answer.x[0] + start[0]), float(answer.x[1] + start[1])
        chosen = np.r_[chosen, more]


def solve_segment(name: str, segment: Segment) -> tuple[int, int, int]:
    """C0, C1, C2 in the tables' units; raises ``ValueError`` where the model cannot give the recorded results."""
    x, low, high = segment
    q = Programs(Arrays()).square(x)
    unit1, unit2 = UNITS[name]
    real1, real2 = feasible(low, high, x, q)
    least, most = np.ceil(low * 2.0**19).astype(np.int64), np.ceil(high * 2.0**19).astype(np.int64) - 1
    best: tuple[int, int, int, int] | None = None
    for c1 in (round(real1 / unit1) + np.array([0, -1, 1, -2, 2])) * unit1:
        for c2 in (round(real2 / unit2) + np.array([0, -1, 1, -2, 2])) * unit2:
            v = (int(c1) * x << 2) + (int(c2) * q << 4)
            first, last = int((least - v).max()), int((most - v).min())
            if first <= last and (best is None or last - first > best[0]):
                best = last - first, first, int(c1), int(c2)
    if best is None:
        raise ValueError(f"{name}: no integers near C1 {real1:.3f}, C2 {real2:.3f} give a segment's results")
    return best[1:]


def solve(sweeps: Path, tables: Path) -> None:
    """Write the tables and their origin."""
    with np.load(sweeps) as stored:
        made = {
            name: np.array([solve_segment(name, s) for s in segments(name, stored[name])], np.int64) for name in SWEEPS
        }
        np.savez_compressed(tables, **made, provenance=stored["card"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run", "solve"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/silicon"))
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--out", type=Path, default=Path("sweeps.npz"))
    parser.add_argument("--tables", type=Path, default=Path("mufu.npz"))
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        from warpwright.toolchain import compile_source

        arguments.folder.mkdir(parents=True, exist_ok=True)
        cubin = compile_source((HERE / "mufu.cu").read_text(), arguments.arch).cubin
        (arguments.folder / "mufu.cubin").write_bytes(cubin)
    elif arguments.what == "run":
        run(arguments.folder, arguments.out)
    else:
        solve(arguments.out, arguments.tables)


if __name__ == "__main__":
    main()

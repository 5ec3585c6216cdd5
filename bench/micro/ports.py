"""The register-file port rule in its smallest form, beside what the card measured for each patched loop.

``python -m bench.micro.ports CUBIN [--data bench/data/h200/micro.json]``, with bank.sm_90.cubin from `build.py`.

Two banks (register number's parity), one read per bank and cycle. An instruction issues, in order and at most one each
cycle, at the first cycle t at which all its reads find a free slot of their bank in the fixed window t .. t + 2. A register
that two operands share is read once; an operand whose register the previous instruction left in that slot of the reuse
cache (its reuse flag was set) is not read. Window and cache as Huerta et al. (MICRO'25) describe them; the rest is measured.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.micro.patch import bits, loop_instructions, variants

WINDOW = 3
BANKS = 2


def cycles_per_instruction(cubin: bytes, offsets: list[int]) -> float:
    """Cycles per instruction of one warp in the loop at `offsets`, bound by register ports alone."""
    booked: tuple[set[int], ...] = tuple(set() for _ in range(BANKS))
    held: dict[int, int] = {}
    now, start, rounds = -1, 0, 4
    for turn in range(rounds):
        if turn == 1:
            start = now
        for offset in offsets:
            word = int.from_bytes(cubin[offset : offset + 16], "little")
            operands = [bits(word, low, 8) for low in (24, 32, 64)]
            flags = bits(word, 122, 3)
            reads = {r for slot, r in enumerate(operands) if held.get(slot) != r}
            need = [sum(r % BANKS == bank for r in reads) for bank in range(BANKS)]
            now += 1
            while True:
                free = [[c for c in range(now, now + WINDOW) if c not in booked[b]] for b in range(BANKS)]
                if all(len(slots) >= count for slots, count in zip(free, need, strict=True)):
                    break
                now += 1
            for bank in range(BANKS):
                booked[bank].update(free[bank][: need[bank]])
            held = {slot: r for slot, r in enumerate(operands) if flags >> slot & 1}
    return (now - start) / ((rounds - 1) * len(offsets))


def main() -> int:
    """Print each variant: the rule's cycles, the card's (one warp, less the loop's own 8 cycles in 128), the difference."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.ports", description=__doc__)
    parser.add_argument("cubin", type=Path)
    parser.add_argument("--data", type=Path, default=Path("bench/data/h200/micro.json"))
    options = parser.parse_args()
    cubin = options.cubin.read_bytes()
    rows = json.loads(options.data.read_text())["results"]["bank"]
    measured = {r["name"]: r["value"] for r in rows if r["warps"] == 1}
    offsets = loop_instructions(cubin)
    for name, code in variants(cubin):
        if name.startswith("stall") or name not in measured:
            continue
        rule, card = cycles_per_instruction(code, offsets), measured[name] - 8 / 128
        print(f"{name:26} rule {rule:6.3f}  card {card:6.3f}  {100 * (rule / card - 1):+5.1f}%")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

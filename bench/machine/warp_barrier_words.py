"""What the instructions of a coalesced group's barrier cost one by one, in the places of a kernel's NOPs, while the other lanes of the warp wait at a BSYNC.

For sm_70 to sm_89, compilers translate ``__syncwarp(mask)`` to a branch that a whole warp takes (BRA.CONV) followed by a call of a routine with WARPSYNC; for
sm_90, to one branch and NOPs.  Here these NOPs are replaced by words of the same chip's instructions, so that a card of sm_90 runs the sequence of the earlier
ones.

``python -m bench.machine.warp_barrier_words --build FOLDER`` makes the cubins; ``--cubins FOLDER --out FILE`` measures a card with one process for each (a word that the card refuses ends
its process only); ``--cubins FOLDER --model h200 [--card FILE]`` measures the model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.device import Device, open_device, smi
from bench.micro.patch import bits, field

SLOTS, PASSES, TURNS = 480, 3, 5
SIZES = (1, 16, 31, 32)
PLACES = {"1 warps": (32, 1), "8 warps": (256, 1), "32 warps": (1024, 1), "8 warps of a sub-core": (1024, 4)}
"""Threads of the block, and of how many warps one takes part."""
NO_BARRIERS = 7 << 113 | 7 << 110
ALWAYS, NEVER = 7, 15
"""Guards: PT and !PT."""
JUMP = 16
"""Bytes of an instruction."""
RETURN, ZERO, UNUSED = 8, 9, 10
"""Registers that the kernel has and does not use."""
Words = list[int]


def word(opcode: int, fields: dict[tuple[int, int], int] | None = None, stall: int = 1, yields: bool = False) -> int:
    """An instruction with its control bits; ``fields`` gives values by their lowest bit and width."""
    made = opcode | ALWAYS << 12 | NO_BARRIERS | stall << 105 | (0 if yields else 1) << 109
    for (low, width), value in (fields or {}).items():
        made = field(made, low, width, value)
    return made


def target(bytes_on: int) -> dict[tuple[int, int], int]:
    """A branch's distance from the next instruction (sm_90: in words of four bytes, the low eight bits apart)."""
    words = bytes_on // 4
    return {(16, 8): words & 0xFF, (34, 48): words >> 8}


CONDITION = {(87, 3): 7}
NOP = word(0x918)


def nop(stall: int, yields: bool = False) -> int:
    return word(0x918, stall=stall, yields=yields)


def warpsync(register: int, stall: int) -> int:
    """WARPSYNC of the lanes in a register."""
    return word(0x348, {**CONDITION, (24, 8): register}, stall)


def bra_conv(bytes_on: int, stall: int = 5) -> int:
    """BRA.CONV ~URZ, which a warp takes if all of its lanes are together, as sm_70 has it."""
    return word(0x947, {**CONDITION, **target(bytes_on), (32, 2): 3, (24, 6): 63, (30, 1): 1, (91, 1): 1}, stall)


def move(register: int, value: int, stall: int) -> int:
    return word(0x802, {(16, 8): register, (32, 32): value, (72, 4): 0xF}, stall, yields=True)


def call(bytes_on: int) -> int:
    return word(0x944, {**CONDITION, **target(bytes_on), (86, 1): 1}, 5)


def ret(register: int, bytes_on: int) -> int:
    return word(0x950, {**CONDITION, **target(bytes_on), (24, 8): register, (86, 1): 1}, 5)


def bssy(barrier: int, bytes_on: int) -> int:
    return word(0x945, {**CONDITION, (16, 4): barrier, (34, 30): bytes_on // 4}, 1)


def bsync(barrier: int) -> int:
    return word(0x941, {**CONDITION, (16, 4): barrier}, 5)


def bmov_clear(barrier: int) -> int:
    return word(0x355, {(16, 8): 255, (24, 6): barrier, (84, 1): 1}, 1)


def bra(bytes_on: int) -> int:
    return word(0x947, {**CONDITION, **target(bytes_on)}, 5)


def off(instruction: int) -> int:
    """An instruction whose guard is false."""
    return field(instruction, 12, 4, NEVER)


class Layout:
    """Where a kernel's words are in its cubin: the NOPs after the first branch, and its code that never runs."""

    def __init__(self, cubin: bytes) -> None:
        code = [int.from_bytes(cubin[at : at + 16], "little") for at in range(0, len(cubin) - 15, 16)]
        start = next(i for i, w in enumerate(code) if bits(w, 0, 12) == 0x947 and bits(w, 32, 2) == 2)
        collective = next(i for i in range(start, len(code)) if bits(code[i], 0, 12) == 0x348)
        first = next(i for i in range(start, 0, -1) if bits(code[i], 0, 12) == 0x806)  # VOTE
        self.first, self.routine = 16 * (start + 1), 16 * collective
        self.mask = bits(code[first], 16, 8)
        self.block_barrier = next(w for w in code if bits(w, 0, 12) == 0xB1D)
        self.cubin = cubin
        assert all(bits(w, 0, 12) == 0x918 for w in code[start + 1 : start + 1 + SLOTS])


def variant(layout: Layout, base: int, each: Callable[[int], Words], routine: Words) -> tuple[bytes, int]:
    """A cubin with the words of ``each`` (from their place in the kernel) as often as they fit, and how often."""
    made = bytearray(layout.cubin)
    size = len(each(layout.first - base))
    count = SLOTS // size
    for i in range(count):
        at = layout.first + i * size * JUMP
        for j, w in enumerate(each(at - base)):
            made[at + j * JUMP : at + (j + 1) * JUMP] = w.to_bytes(16, "little")
    for j, w in enumerate(routine):
        at = layout.routine + j * JUMP
        made[at : at + JUMP] = w.to_bytes(16, "little")
    return bytes(made), count


def variants(layout: Layout, base: int) -> dict[str, tuple[bytes, int]]:
    """The sequences by name."""
    routine = layout.routine - base

    def calls(at: int) -> Words:
        back = at + 2 * JUMP
        return [move(RETURN, back, 4), call(routine - back)]

    def returns(at: int, between: Words) -> Words:
        place = at + (1 + len(between) + 1) * JUMP
        return [move(ZERO, 0, 5), *between, ret(RETURN, -place)]

    def to_next(at: int, count: int) -> Words:
        return [move(ZERO, 0, 1), move(RETURN, at + count * JUMP, 5)]

    def barrier(at: int) -> Words:
        return [bra_conv(2 * JUMP), *calls(at + JUMP), nop(5, True)]

    def tile(at: int) -> Words:
        checks = [off(sync), bmov_clear(1), NOP, off(layout.block_barrier), bssy(1, 5 * JUMP), off(bra(4 * JUMP))]
        return [*checks, *barrier(at + len(checks) * JUMP), bsync(1)]

    sync, next_one = warpsync(layout.mask, 5), nop(5, True)
    plain, with_sync = returns(routine, [NOP]), returns(routine, [sync])
    whole: dict[str, tuple[Callable[[int], Words], Words]] = {
        "tile": (tile, with_sync),
        "bssy": (lambda at: [bssy(1, JUMP)], []),
        "bssy_bssy_bsync": (lambda at: [bssy(1, JUMP), bssy(1, JUMP), bsync(1)], []),
        "call_next": (lambda at: [call(0), next_one], []),
        "ret_next": (lambda at: [move(ZERO, 0, 1), move(RETURN, at + 3 * JUMP, 5), ret(RETURN, -at - 3 * JUMP), next_one], []),
        "bra_next": (lambda at: [bra(0), next_one], []),
        "bra_only": (lambda at: [bra(0)], []),
        "warpsync_off": (lambda at: [off(sync)], []),
        "bra_off": (lambda at: [off(bra(0)), next_one], []),
        "bar_off": (lambda at: [off(layout.block_barrier), next_one], []),
        "barrier": (barrier, with_sync),
        "call_warpsync": (lambda at: [*calls(at), next_one], with_sync),
        "call": (lambda at: [*calls(at), next_one], plain),
        "bra_conv_nop": (lambda at: [bra_conv(2 * JUMP), NOP, NOP, next_one], []),
        "bra_conv_next": (lambda at: [bra_conv(0), next_one], []),
        "warpsync": (lambda at: [sync], []),
        "warpsync_nop": (lambda at: [sync, next_one], []),
        "bssy_barrier_bsync": (lambda at: [bmov_clear(1), bssy(1, 5 * JUMP), *barrier(at + 2 * JUMP), bsync(1)], with_sync),
        "bmov": (lambda at: [bmov_clear(1)], []),
        "bssy_bsync": (lambda at: [bssy(1, JUMP), bsync(1)], []),
        "bmov_bssy_bsync": (lambda at: [bmov_clear(1), bssy(1, JUMP), bsync(1)], []),
        "nop": (lambda at: [NOP], []),
        "bsync": (lambda at: [bsync(1)], []),
        "bssy_bra_bsync": (lambda at: [bssy(1, 2 * JUMP), bra(0), bsync(1)], []),
        "bssy_bra": (lambda at: [bssy(1, JUMP), bra(0)], []),
        "bar_off_bssy": (lambda at: [off(layout.block_barrier), bssy(1, JUMP)], []),
        "bar_off_warpsync": (lambda at: [off(layout.block_barrier), sync], []),
        "bar_off_bra": (lambda at: [off(layout.block_barrier), bra(0)], []),
        "bssy_warpsync": (lambda at: [bssy(1, JUMP), sync], []),
        "bra_warpsync": (lambda at: [bra(0), sync], []),
        "ret": (lambda at: [*to_next(at, 3), ret(RETURN, -at - 3 * JUMP)], []),
        "ret_bssy": (lambda at: [*to_next(at, 3), ret(RETURN, -at - 3 * JUMP), bssy(1, JUMP)], []),
        "ret_bar_off": (lambda at: [*to_next(at, 3), ret(RETURN, -at - 3 * JUMP), off(layout.block_barrier)], []),
        "ret_warpsync": (lambda at: [*to_next(at, 3), ret(RETURN, -at - 3 * JUMP), sync], []),
        "ret_bra": (lambda at: [*to_next(at, 3), ret(RETURN, -at - 3 * JUMP), bra(0)], []),
    }  # fmt: skip
    return {name: variant(layout, base, *parts) for name, parts in whole.items()}


TAKING_PART = {
    "coalesced(unsigned *clocks, unsigned size, int passes)": "coalesced(unsigned *clocks, unsigned size, int passes, unsigned stride)",
    "if (threadIdx.x % 32 < size)": "if (threadIdx.x % 32 < size && threadIdx.x / 32 % stride == 0)",
}
"""How the study's kernel becomes one in which one of several warps takes part."""


def build(folder: Path) -> None:
    """Write the cubins and how many repeats each has."""
    from warpwright.studies import warp_level
    from warpwright.toolchain import compile_source

    folder.mkdir(parents=True, exist_ok=True)
    source = warp_level.GROUPS
    for before, after in TAKING_PART.items():
        assert before in source
        source = source.replace(before, after)
    compiled = compile_source(source, "sm_90")
    kernel = compiled.module.find("coalesced")
    code = bytes(kernel.code)
    base = compiled.cubin.find(code)
    section = bytearray(compiled.cubin)
    layout = Layout(code)
    counts = {}
    for name, (made, count) in variants(layout, 0).items():
        section[base : base + len(code)] = made
        (folder / f"{name}.cubin").write_bytes(section)
        counts[name] = count
    (folder / "counts.json").write_text(json.dumps(counts) + "\n")


def measure(device: Device, cubin: Path, count: int) -> dict[str, float]:
    """Cycles of a repeat, by lanes in the group and warps of the block."""
    module = device.load(cubin.read_bytes())
    clocks = device.upload(np.zeros(64, np.uint32))
    found = {}
    for size in SIZES:
        for place, (threads, stride) in PLACES.items():
            warps, spans = threads // 32, []
            for _ in range(1 if device.kind == "model" else TURNS):
                module.launch("coalesced", 1, threads, [clocks, np.uint32(size), np.int32(PASSES), np.uint32(stride)])
                read = clocks.read(np.uint32, 64).astype(np.int64)
                spans.append(float(read[32 : 32 + warps : stride].max() - read[:warps:stride].min()))
            found[f"{size} lanes, {place}"] = float(np.median(spans)) / count
    return found


def one(kind: str, chip: str, folder: Path, name: str) -> None:
    """Measure one variant and print it as JSON."""
    count = json.loads((folder / "counts.json").read_text())[name]
    print(json.dumps(measure(open_device(kind, chip), folder / f"{name}.cubin", count)))


def every(kind: str, chip: str, folder: Path, out: Path | None) -> None:
    """All variants, each in a separate process; the file is written after each."""
    rows: dict[str, dict[str, float] | str] = {}
    text = {"nvidia_smi": smi(), "command": "python -m bench.machine.warp_barrier_words --cubins FOLDER --out FILE"}
    for name in json.loads((folder / "counts.json").read_text()):
        command = [sys.executable, "-m", "bench.machine.warp_barrier_words", "--cubins", str(folder), "--one", name]
        command += ["--model", chip] if kind == "model" else []
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=8 if kind == "card" else 600)
            last = done.stdout.splitlines()[-1:] or [""]
            rows[name] = json.loads(last[0]) if done.returncode == 0 else (done.stderr.splitlines() or ["failed"])[-1]
        except subprocess.TimeoutExpired:
            rows[name] = "does not end"
        print(name, rows[name], flush=True)
        if out:
            out.write_text(json.dumps({**text, "rows": rows}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="make the cubins in this folder and end")
    parser.add_argument("--cubins", type=Path)
    parser.add_argument("--model", default="", metavar="CHIP", help="measure the model of this chip, not the card")
    parser.add_argument("--one", default="", metavar="NAME")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    kind, chip = ("model", options.model) if options.model else ("card", "h200")
    if options.build:
        build(options.build)
    elif options.one:
        one(kind, chip, options.cubins, options.one)
    else:
        every(kind, chip, options.cubins, options.out)


if __name__ == "__main__":
    main()

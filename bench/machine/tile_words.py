"""Which units the instructions of a tile's barrier share: times the code that compilers for sm_90 emit for it, with some of its instructions replaced by NOPs.

A barrier of the generic tile (``warp_level.tile_source``) is twelve instructions: BSSY, a branch that is not taken, MATCH.ANY and REDUX of the mask, VOTEU, LOP3, BRA.DIV, NOP,
BSYNC, and WARPSYNC.ALL and BAR whose guards are false.  The cycles that a kernel saves without some of them are those for which they occupied a unit.

``python -m bench.machine.tile_words --build FOLDER`` makes the cubins; ``--cubins FOLDER --out FILE`` measures a card, with ``--model h200`` the model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from bench.device import Device, open_device, smi
from bench.micro.patch import bits, field

OPCODES = {
    0x1A1: "match", 0x1C4: "redux", 0x086: "vote", 0x012: "lop", 0x145: "bssy", 0x141: "bsync", 0x11D: "bar", 0x148: "warpsync",
}  # fmt: skip
"""Names by an instruction's low nine bits; the two branches differ in their condition."""
BRANCH, CLOCK = 0x147, 0x005
CONVERGENCE = ("bssy", "bsync")
TEST = ("match", "redux", "vote", "lop", "div")
ALL = (*CONVERGENCE, *TEST, "branch", "bar", "warpsync")
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "whole": (),
    "no bar": ("bar",),
    "no warpsync": ("warpsync",),
    "no bar, warpsync": ("bar", "warpsync"),
    "no bssy, bsync": CONVERGENCE,
    "no bar, warpsync, bssy, bsync": ("bar", "warpsync", *CONVERGENCE),
    "no branch": ("branch",),
    "no div": ("div",),
    "no div, match": ("div", "match"),
    "no div, redux": ("div", "redux"),
    "no div, match, redux": ("div", "match", "redux"),
    "no div, vote": ("div", "vote"),
    "no div, lop": ("div", "lop"),
    "no test": TEST,
    "nothing": ALL,
    **{
        f"only {name}": tuple(n for n in ALL if n != name)
        for name in ("match", "redux", "vote", "lop", "branch", "bar", "warpsync")
    },
    "only bssy, bsync": tuple(n for n in ALL if n not in CONVERGENCE),
    "only match, redux": tuple(n for n in ALL if n not in ("match", "redux")),
    "only match, bar": tuple(n for n in ALL if n not in ("match", "bar")),
    "only redux, bar": tuple(n for n in ALL if n not in ("redux", "bar")),
}
SIZES = (1, 8, 32)
WARPS = (1, 4, 8, 16, 32)
PASSES, TURNS = 3, 5
NOP, NO_BARRIERS = 0x918, 7 << 113 | 7 << 110


def kind(word: int) -> str | None:
    """The barrier's instruction that a 128-bit word encodes, or None."""
    low = bits(word, 0, 9)
    if low == BRANCH:
        return "div" if bits(word, 24, 8) else "branch"
    return OPCODES.get(low)


def without(code: bytes, left_out: tuple[str, ...]) -> bytes:
    """The kernel's code with NOPs in place of the instructions left out of its barriers; the NOPs keep their stall counts and waits."""
    words = [int.from_bytes(code[at : at + 16], "little") for at in range(0, len(code), 16)]
    clocks = [i for i, word in enumerate(words) if bits(word, 0, 9) == CLOCK]
    for i in range(clocks[0] + 3, clocks[1]):
        if kind(words[i]) in left_out:
            control = bits(words[i], 105, 21) << 105
            words[i] = field(NOP | 7 << 12 | control, 110, 6, 0x3F)
    return b"".join(word.to_bytes(16, "little") for word in words)


def build(folder: Path) -> None:
    """Write a cubin for each variant."""
    from warpwright.studies import warp_level
    from warpwright.toolchain import InputKind, link

    folder.mkdir(parents=True, exist_ok=True)
    linked = link([(InputKind.PTX, warp_level.tile_source().encode(), "tile.ptx")], "sm_90")
    code = bytes(linked.module.find("tile").code)
    base = linked.cubin.find(code)
    for name, left_out in LEFT_OUT.items():
        made = bytearray(linked.cubin)
        made[base : base + len(code)] = without(code, left_out)
        (folder / f"{name}.cubin").write_bytes(made)


def measure(device: Device, cubin: bytes) -> dict[str, float]:
    """Cycles per barrier from the first warp's first clock to the last warp's second, over 64 barriers, by lanes of a tile and warps of the block."""
    from_sizes = {}
    module = device.load(cubin)
    clocks = device.upload(np.zeros(64, np.uint32))
    for size in SIZES:
        for warps in WARPS:
            lanes = np.arange(32 * warps) % 32
            mask = np.full(32 * warps, 0xFFFFFFFF) if size == 32 else ((1 << size) - 1) << (lanes & ~(size - 1))
            groups = device.upload(np.stack([np.zeros(32 * warps), mask], 1).astype(np.uint32))
            spans = []
            for _ in range(1 if device.kind == "model" else TURNS):
                module.launch("tile", 1, 32 * warps, [clocks, groups, np.uint32(PASSES)])
                read = clocks.read(np.uint32, 64).astype(np.int64)
                spans.append(float(read[32 : 32 + warps].max() - read[:warps].min()))
            groups.free()
            from_sizes[f"{size} lanes, {warps} warps"] = float(np.median(spans)) / 64
    return from_sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="make the cubins in this folder and end")
    parser.add_argument("--cubins", type=Path)
    parser.add_argument("--only", nargs="+", help="names of variants")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--model", help="measure the model of this chip")
    options = parser.parse_args()
    if options.build:
        build(options.build)
        return
    device = open_device("model", options.model) if options.model else open_device("card")
    rows: dict[str, dict[str, float]] = {}
    for name in options.only or LEFT_OUT:
        rows[name] = measure(device, (options.cubins / f"{name}.cubin").read_bytes())
        print(f"{name:30}", " ".join(f"{value:7.2f}" for value in rows[name].values()), flush=True)
    if options.out:
        command = "python -m bench.machine.tile_words --cubins FOLDER --out FILE"
        after = smi() if device.kind == "card" else {}
        options.out.write_text(
            json.dumps({**device.describe(), "command": command, "rows": rows, "after": after}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()

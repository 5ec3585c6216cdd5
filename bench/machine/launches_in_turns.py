"""Whether a kernel's code is still in an SM's instruction caches when it is launched again, and how a launch of another kernel in between changes that.

Times straight-line code of float additions, one pass per launch, by the GPU's clock: in repeated launches, and in turns with a kernel of 512 additions, as formula 1 of the
synchronisation paper takes its two readings.

``python -m bench.machine.launches_in_turns --build FOLDER`` makes the cubins; ``--cubins FOLDER --out FILE`` measures a card.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from bench.device import Card, CardModule, smi

FEW = 512
MANY = (2568, 5632, 7168, 7680, 7936, 8064, 8128, 8192, 8448, 8704, 9216, 10752, 20992)
LAUNCHES = 21
SOURCE = """
.version 6.3
.target sm_60
.address_size 64
.visible .entry adds(.param .u64 out, .param .f32 p, .param .f32 q)
{{
    .reg .f32 %p, %q;
    .reg .b32 %begin, %end;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    ld.param.f32 %p, [p];
    ld.param.f32 %q, [q];
    mov.u32 %begin, %clock;
{body}
    mov.u32 %end, %clock;
    sub.u32 %end, %end, %begin;
    st.global.u32 [%out], %end;
    st.global.f32 [%out+4], %p;
    ret;
}}
"""


def build(folder: Path, arch: str) -> None:
    """Make a cubin for each number of additions."""
    from warpwright.toolchain import InputKind, link

    folder.mkdir(parents=True, exist_ok=True)
    for count in (FEW, *MANY):
        ptx = SOURCE.format(body="    add.f32 %p, %p, %q;\n" * count)
        (folder / f"{count}.cubin").write_bytes(link([(InputKind.PTX, ptx.encode(), "adds.ptx")], arch).cubin)


def cycles(card: Card, modules: list[CardModule]) -> list[list[float]]:
    """Cycles of each launch of each module's kernel; the modules take turns, and the first turn is left out."""
    out = card.upload(np.zeros(2, np.uint32))
    found: list[list[float]] = [[] for _ in modules]
    for _ in range(LAUNCHES):
        for module, clocks in zip(modules, found, strict=True):
            module.launch("adds", 1, 32, [out, np.float32(1), np.float32(2)])
            clocks.append(float(out.read(np.uint32, 1)[0]))
    out.free()
    return [clocks[1:] for clocks in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="make the cubins in this folder and end")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--cubins", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.arch)
        return
    card = Card()
    loaded = {count: card.load((options.cubins / f"{count}.cubin").read_bytes()) for count in (FEW, *MANY)}
    rows = {}
    for count in MANY:
        alone = cycles(card, [loaded[count]])[0]
        few, many = cycles(card, [loaded[FEW], loaded[count]])
        rows[count] = {"alone": alone, "in turns": many, f"{FEW} in turns": few}
        shown = (np.median(alone) / count, np.median(many) / count, np.median(few) / FEW)
        print(f"{count:6}", " ".join(f"{value:7.3f}" for value in shown), flush=True)
    if options.out:
        command = "python -m bench.machine.launches_in_turns --cubins FOLDER --out FILE"
        options.out.write_text(json.dumps({**card.describe(), "command": command, "rows": rows, "after": smi()}) + "\n")


if __name__ == "__main__":
    main()

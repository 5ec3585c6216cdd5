"""Kernels that may never end: WARPSYNC whose mask holds lanes that wait elsewhere (`warpsync.cu`).

``python -m bench.micro.warpsync CUBIN [--json FILE]`` on a machine with a card; CUBIN is warpsync.sm_90.cubin from `build.py`.
Every case is a process of its own, which is killed when its kernel has not ended after a second: its context goes
with it.  A row says whether the kernel ended, and, by stage and clock, which lanes passed together.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card

STAGES, WORDS = 64, 4096 + 64
LIMIT_S = 1.0
ALL = 0xFFFFFFFF
CASES: tuple[tuple[str, int, int, int], ...] = (
    # kernel, lanes that go to the WARPSYNC, lanes inside the branch around it, the WARPSYNC's mask
    ("all_at_join", 0x3, ALL, ALL),
    ("all_at_join", 0xFFFFFFFC, ALL, ALL),
    ("all_at_join", 0x3, 0xFF, ALL),
    ("all_at_join", 0xFF, 0xFF, ALL),
    ("mask_at_join", 0x3, ALL, ALL),
    ("mask_at_join", 0x3, ALL, 0x7),
    ("mask_at_join", 0x3, 0xFF, ALL),
    ("mask_at_join", 0x3, 0xFF, 0x1F),
    ("mask_at_join", 0x3, 0xFF, 0x3),
    ("two_groups", 0x3, ALL, ALL),
    ("two_groups", 0xF, 0xFF, ALL),
    ("all_two_places", 0x3, ALL, ALL),
    ("all_two_places", 0xFFFF, ALL, ALL),
    ("mask_two_places", 0x3, ALL, ALL),
    ("mask_two_places", 0x3, ALL, 0x3),
    ("at_barrier", 0x3, ALL, ALL),
    ("while_spinning", 0x3, ALL, ALL),
    ("in_loop", 0xF, ALL, ALL),
    ("in_loop", 0xF, 0xFF, ALL),
    ("shuffle", 0x3, ALL, ALL),
    ("shuffle", 0x3, 0xFF, ALL),
    ("vote", 0x3, ALL, ALL),
    ("reduction", 0x3, ALL, ALL),
    ("reduce_tail", 0, 128, 0),
    ("reduce_tail", 0, 127, 0),
)


def launch(cubin: bytes, case: tuple[str, int, int, int], pipe: Any) -> None:
    """Run a case in this process and send what it wrote."""
    kernel, mask, around, members = case
    card = Card()
    out = card.upload(np.zeros(WORDS, np.uint32))
    module = card.load(cubin)
    pipe.send(None)
    threads = 128 if kernel == "reduce_tail" else 32
    module.launch(kernel, 1, threads, [out, np.uint32(mask), np.uint32(around), np.uint32(members)])
    pipe.send(out.read(np.uint32, WORDS))


def ask(cubin: bytes, case: tuple[str, int, int, int]) -> dict[str, Any]:
    """Whether a case ends, and what it passed in which order."""
    row: dict[str, Any] = {
        "kernel": case[0],
        **{k: f"{v:08x}" for k, v in zip(("mask", "around", "members"), case[1:], strict=True)},
    }
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=launch, args=(cubin, case, there))
    child.start()
    there.close()
    try:
        here.recv()
        row["ends"] = here.poll(LIMIT_S)
        if not row["ends"]:
            return row
        words = here.recv()
    except EOFError:
        return {**row, "ends": None}
    finally:
        child.kill()
        child.join()
    if case[0] == "reduce_tail":
        return {**row, "words": words[:2].tolist(), "ended": int(words[2:130].sum())}
    stamps, mates = words[:2048].reshape(STAGES, 32), words[2048:4096].reshape(STAGES, 32)
    seen = {(int(stamps[s, n]), int(s), int(mates[s, n])) for s, n in zip(*np.nonzero(stamps), strict=True)}
    origin = min(seen)[0]
    row["passed"] = [[clock - origin, stage, f"{lanes:08x}"] for clock, stage, lanes in sorted(seen)]
    if words[4096:4128].any():
        row["values"] = words[4096:4128].tolist()
    return row


def main() -> int:
    """Ask the card each case and print a line for it."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.warpsync", description=__doc__)
    parser.add_argument("cubin", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for case in CASES:
        began = time.perf_counter()
        rows.append(ask(options.cubin.read_bytes(), case))
        print(f"{time.perf_counter() - began:5.2f} s", json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

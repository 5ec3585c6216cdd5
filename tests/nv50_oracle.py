"""``envydis`` (envytools) on NV50 words, and random words of each encoding.

Set WARPWRIGHT_ENVYDIS to the program, or have it on the path.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from collections.abc import Sequence

from warpwright.isa.nv50.fields import UndefinedField
from warpwright.isa.nv50.text import text_of

VARIANTS = {10: "g80", 11: "g84", 12: "gt215", 13: "g200"}
FORMS = ("short", "immediate", "long", "control")


def find_envydis() -> str | None:
    return os.environ.get("WARPWRIGHT_ENVYDIS") or shutil.which("envydis")


def random_words(form: str, count: int, seed: int) -> list[int]:
    """Words of one encoding; most long ones have no guard, whose undefined tests would hide the rest."""
    chance = random.Random(f"{form} {seed}")
    words = []
    for _ in range(count):
        word = chance.getrandbits(64)
        if form == "short":
            word = word & 0xFFFFFFFC | chance.choice((0, 0, 0, 2))
        elif form == "control":
            word |= 3
        elif form == "immediate":
            word = word & ~3 | 1 | 3 << 32
        else:
            word = word & ~(3 << 32 | 3) | 1 | chance.randrange(3) << 32
            if chance.random() < 0.8:
                word = word & ~(31 << 39) | 15 << 39
        words.append(word)
    return words


def disassemble(tool: str, arch: int, words: Sequence[int], stage: str = "cp") -> list[str | None]:
    """envydis' text of each word; None for what it does not know."""
    lines = [f"{w & 0xFFFFFFFF:#x} {w >> 32:#x}" if w & 1 else f"{w:#x}" for w in words]
    command = [tool, "-n", "-m", "g80", "-V", VARIANTS[arch], "-O", stage, "-w"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        match = re.match(r"[0-9a-f]{8}: ([0-9a-f]{8} )+\s*(?:[BCP]+ )?\s*(.*)", line)
        if match:
            text = re.sub(r" \[unknown.*", "", match[2]).strip()
            found.append(None if "???" in text else text)
    assert len(found) == len(words)
    return found


def printed(word: int, arch: int, stage: str = "cp") -> str | None:
    """Our text; None for an unknown word."""
    try:
        return text_of(word, arch, stage)
    except UndefinedField:
        return None


def compare(tool: str, arch: int, words: Sequence[int], stage: str = "cp") -> list[str]:
    """What differs."""
    return [
        f"{word:#x}: {printed(word, arch, stage)!r}, envydis {theirs!r}"
        for word, theirs in zip(words, disassemble(tool, arch, words, stage), strict=True)
        if printed(word, arch, stage) != theirs
    ]

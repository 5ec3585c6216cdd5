"""NVIDIA's disassembler on 64-bit words of sm_60 to sm_62, three behind each control word (``tests/sass_oracle.py`` finds the tool)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from warpwright.isa.maxwell.decode import decode
from warpwright.isa.maxwell.text import format_instruction
from warpwright.isa.sass.decode import UnknownEncoding

NOP = 0x50B0000000070F00
CONTROL = 0x001F8000FC0007E0
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*/\* 0x[0-9a-f]{16} \*/")
AT_ONCE = 3000


def address(n: int) -> int:
    """Where the n-th word stands in bundles."""
    return 32 * (n // 3) + 8 * (n % 3) + 8


def disassemble(tool: str, arch: int, words: Sequence[int], folder: Path) -> list[str | None]:
    """Texts of words from address 0 on; None for what the disassembler does not know."""
    todo = [*words, *[NOP] * (-len(words) % 3)]
    bad: set[int] = set()
    while True:
        data = b""
        for n in range(0, len(todo), 3):
            data += b"".join(w.to_bytes(8, "little") for w in (CONTROL, *todo[n : n + 3]))
        binary = folder / "words.bin"
        binary.write_bytes(data)
        done = subprocess.run([tool, "-b", f"SM{arch}", "-hex", "-ndf", str(binary)], capture_output=True, text=True)
        if done.returncode == 0:
            break
        places = [int(a, 16) for a in re.findall(r"at address 0x([0-9a-f]+)", done.stderr)]
        new = {a // 32 * 3 + (a % 32 - 8) // 8 for a in places} - bad
        assert new, done.stderr
        for n in new:
            todo[n] = NOP
        bad |= new
    texts = {int(m[1], 16): m[2] for m in LINE.finditer(done.stdout)}
    return [None if n in bad else _plain(texts[address(n)]) for n in range(len(words))]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip().strip("{}").strip().rstrip(";")).rstrip()


def printed(word: int, arch: int, at: int) -> str | None:
    """Our text; None for an unknown word."""
    try:
        return re.sub(r"\s+", " ", format_instruction(decode(word, arch, at))).rstrip()
    except UnknownEncoding:
        return None


def same(ours: str | None, theirs: str | None) -> bool:
    if theirs is not None and ("INVALID" in theirs or "???" in theirs):
        theirs = None
    if ours == theirs or ours is None or theirs is None:
        return ours == theirs
    # We print where a jump to a control word lands, the disassembler the control word itself.
    mine, target = ours.rpartition(" ")[::2]
    their, other = theirs.rpartition(" ")[::2]
    return mine == their and "0x" in target and int(target, 16) - 8 == int(other, 16)


def compare(tool: str, arch: int, words: Sequence[int], folder: Path) -> list[str]:
    """A line for every word that is not printed as NVIDIA prints it."""
    wrong = []
    for start in range(0, len(words), AT_ONCE):
        part = words[start : start + AT_ONCE]
        for n, (word, text) in enumerate(zip(part, disassemble(tool, arch, part, folder), strict=True)):
            ours = printed(word, arch, address(n))
            if not same(ours, text):
                wrong.append(f"{word:016x}: {text!r}, not {ours!r}")
    return wrong

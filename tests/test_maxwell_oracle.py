"""Every instruction of the corpus for sm_60, and random fields of every row, against NVIDIA's disassembler."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sass_oracle import find_nvdisasm
from warpwright.isa.maxwell.decode import ROWS, decode, decode_section
from warpwright.isa.maxwell.text import format_instruction
from warpwright.isa.sass.decode import UnknownEncoding
from warpwright.toolchain.compile import compile_source
from warpwright.toolchain.cubin import read_cubin
from warpwright.toolchain.errors import CompileError

KERNELS = Path(__file__).parent / "kernels"
NVDISASM = find_nvdisasm()
needs_oracle = pytest.mark.skipif(NVDISASM is None, reason="nvdisasm is not installed (set WARPWRIGHT_NVDISASM)")
NOP = 0x50B0000000070F00
CONTROL = 0x001F8000FC0007E0
LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*/\* 0x[0-9a-f]{16} \*/")


def address(n: int) -> int:
    """Where the n-th word stands in bundles."""
    return 32 * (n // 3) + 8 * (n % 3) + 8


def disassemble(words: Sequence[int], folder: Path) -> list[str | None]:
    """Texts of words from address 0 on; None for what the disassembler does not know."""
    assert NVDISASM is not None
    todo = [*words, *[NOP] * (-len(words) % 3)]
    bad: set[int] = set()
    while True:
        data = b""
        for n in range(0, len(todo), 3):
            data += b"".join(w.to_bytes(8, "little") for w in (CONTROL, *todo[n : n + 3]))
        binary = folder / "words.bin"
        binary.write_bytes(data)
        done = subprocess.run([NVDISASM, "-b", "SM60", "-hex", "-ndf", str(binary)], capture_output=True, text=True)
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


def printed(word: int, at: int) -> str | None:
    try:
        return re.sub(r"\s+", " ", format_instruction(decode(word, 60, at))).rstrip()
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


@needs_oracle
def test_corpus_prints_as_nvidia_prints_it(tmp_path: Path) -> None:
    words: dict[int, str] = {}
    for path in sorted(KERNELS.glob("*.cu")):
        try:
            data = compile_source(path, 60).cubin
        except CompileError:
            continue  # uses what came with later chips
        for code in read_cubin(data, path.name).code.values():
            words.update(dict.fromkeys((i.encoding for i in decode_section(code, 60)), path.name))
    assert len(words) > 8_000
    wrong = compare(list(words), tmp_path)
    assert not wrong, f"{len(wrong)} of {len(words)} differ:\n" + "\n".join(wrong[:20])


def compare(words: Sequence[int], folder: Path) -> list[str]:
    wrong = []
    for start in range(0, len(words), 3000):
        part = words[start : start + 3000]
        for n, (word, text) in enumerate(zip(part, disassemble(part, folder), strict=True)):
            ours = printed(word, address(n))
            if not same(ours, text):
                wrong.append(f"{word:016x}: {text!r}, not {ours!r}")
    return wrong


KNOWN_DIFFERENCES = re.compile(
    # Immediates of the video instructions and targets that registers index are printed by other rules there.
    r"V(ADD|ABSDIFF|MAD|SET|SHL|SHR)|BRX|JMX|CCTL"
)


@needs_oracle
def test_random_fields_of_every_row(tmp_path: Path) -> None:
    generator = random.Random(7)
    words = []
    for row in ROWS:
        for mask, value, _ in row.encodings():
            for k in range(12):
                word = generator.getrandbits(64) & (generator.getrandbits(64) if k % 2 else (1 << 64) - 1)
                words.append(word & ~mask | value)
    wrong = [line for line in compare(words, tmp_path) if not KNOWN_DIFFERENCES.search(line)]
    assert not wrong, f"{len(wrong)} of {len(words)} differ:\n" + "\n".join(wrong[:20])

"""Every instruction of the corpus for sm_60, and random fields of every row, against NVIDIA's disassembler."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.maxwell_oracle import compare
from tests.sass_oracle import find_nvdisasm
from warpwright.isa.maxwell.decode import ROWS, decode_section
from warpwright.toolchain.compile import compile_source
from warpwright.toolchain.compile_errors import CompileError
from warpwright.toolchain.cubin import read_cubin

KERNELS = Path(__file__).parent / "kernels"
NVDISASM = find_nvdisasm()
needs_oracle = pytest.mark.skipif(NVDISASM is None, reason="nvdisasm is not installed (set WARPWRIGHT_NVDISASM)")


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
    wrong = compare(str(NVDISASM), 60, list(words), tmp_path)
    assert not wrong, f"{len(wrong)} of {len(words)} differ:\n" + "\n".join(wrong[:20])


KNOWN_DIFFERENCES = re.compile(
    # Immediates of the video instructions and targets that registers index are printed by other rules there.
    r"V(ADD|ABSDIFF|MAD|SET|SHL|SHR)|BRX|JMX|CCTL"
)


@needs_oracle
@pytest.mark.parametrize("arch", [60, 61])
def test_random_fields_of_every_row(arch: int, tmp_path: Path) -> None:
    generator = random.Random(7)
    words = []
    for row in (row for row in ROWS if row.first <= arch):
        for mask, value, _ in row.encodings():
            for k in range(12):
                word = generator.getrandbits(64) & (generator.getrandbits(64) if k % 2 else (1 << 64) - 1)
                words.append(word & ~mask | value)
    wrong = [line for line in compare(str(NVDISASM), arch, words, tmp_path) if not KNOWN_DIFFERENCES.search(line)]
    assert not wrong, f"{len(wrong)} of {len(words)} differ:\n" + "\n".join(wrong[:20])

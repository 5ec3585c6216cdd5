"""Record the words that the assembler makes of the kernel corpus for sm_10 and sm_11, with envydis' text of each.

python -m tests.record_nv50        # writes tests/data/nv50_words.json; set WARPWRIGHT_ENVYDIS
"""

from __future__ import annotations

import json
from pathlib import Path

import warpwright as ww
from tests.kernels import cases
from tests.nv50_oracle import disassemble, find_envydis
from warpwright.errors import UnsupportedError
from warpwright.isa.nv50.decode import decode_section
from warpwright.toolchain import CompileError

TO = Path(__file__).parent / "data" / "nv50_words.json"


def words() -> list[int]:
    """Every word of the corpus once."""
    found: dict[int, None] = {}
    gpu = ww.GPU("g80", timing="off")
    modules: dict[Path, ww.Module] = {}
    for case in cases("small"):
        try:
            if case.source not in modules:
                modules[case.source] = gpu.compile(case.source, options=case.options)
            code = modules[case.source].machine_code(case.kernel)
        except (UnsupportedError, CompileError):
            continue
        found.update(dict.fromkeys(i.encoding for i in decode_section(code, 10)))
    return sorted(found)


def main() -> None:
    tool = find_envydis()
    if tool is None:
        raise SystemExit("envydis is not installed: set WARPWRIGHT_ENVYDIS")
    found = words()
    texts = disassemble(tool, 10, found)
    unknown = [hex(w) for w, text in zip(found, texts, strict=True) if text is None]
    if unknown:
        raise SystemExit(f"envydis does not know {unknown}")
    lines = [f"{json.dumps(hex(w))}: {json.dumps(text)}" for w, text in zip(found, texts, strict=True)]
    TO.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} words")


if __name__ == "__main__":
    main()

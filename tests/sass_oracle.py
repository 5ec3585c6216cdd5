"""NVIDIA's disassembler as a judge of the SASS decoder: where it is and how to ask it.

It is found through ``WARPWRIGHT_NVDISASM``, on the PATH, or inside an installed triton package; tests that need it
are skipped without it.  Raw binaries (``nvdisasm -b SM80``) give the text of single words with numeric targets.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*/\* 0x[0-9a-f]{16} \*/\s*\n\s*/\* 0x[0-9a-f]{16} \*/")
LISTED = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$")
LABEL = re.compile(r"^(\.L_x_\d+):")
FUNCTION = re.compile(r"^\s*\.section\s+(\.text\.\S+?),")


def find_nvdisasm() -> str | None:
    """Path of the disassembler, or None."""
    named = os.environ.get("WARPWRIGHT_NVDISASM") or shutil.which("nvdisasm")
    if named:
        return named
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        tool = Path(folder) / "backends" / "nvidia" / "bin" / "nvdisasm"
        if tool.exists():
            return str(tool)
    return None


def disassemble_words(tool: str, arch: int, words: Sequence[int], folder: Path) -> list[str]:
    """Texts of valid words that stand one behind the other from address 0."""
    binary = folder / f"words_{arch}.bin"
    binary.write_bytes(b"".join(word.to_bytes(16, "little") for word in words))
    command = [tool, "-b", f"SM{arch}", "-hex", "-ndf", str(binary)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    texts = {int(found[1], 16): found[2].rstrip(" ;") for found in LINE.finditer(printed)}
    return [texts[16 * n] for n in range(len(words))]


def disassemble_cubin(tool: str, cubin: Path) -> dict[str, tuple[dict[int, str], dict[int, str]]]:
    """By code section: texts by offset, and label names by offset."""
    command = [tool, "-c", str(cubin)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return _sections(lines)


def _sections(lines: Iterable[str]) -> dict[str, tuple[dict[int, str], dict[int, str]]]:
    found: dict[str, tuple[dict[int, str], dict[int, str]]] = {}
    texts: dict[int, str] = {}
    labels: dict[int, str] = {}
    waiting: list[str] = []
    for line in lines:
        if match := FUNCTION.match(line):
            texts, labels, waiting = {}, {}, []
            found[match[1]] = (texts, labels)
        elif match := LABEL.match(line):
            waiting.append(match[1])
        elif match := LISTED.match(line):
            offset = int(match[1], 16)
            texts[offset] = match[2]
            for name in waiting:
                labels.setdefault(offset, name)
            waiting = []
    return found

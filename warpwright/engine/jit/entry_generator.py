"""The program of the processes that ``compiling_process.py`` starts."""

from __future__ import annotations

import sys
from pathlib import Path

from warpwright.engine.jit.compiling_process import KIND
from warpwright.engine.jit.object_code import make_target, to_object
from warpwright.toolchain.cache import DiskCache


def main() -> None:
    """Generate the code that standard input asks for; the command line has the folder, the key, the length of the header, both options and the lock."""
    folder, key = sys.argv[1:3]
    length, is_large, is_quick, handle = map(int, sys.argv[3:])
    asked = sys.stdin.buffer.read()
    header, text = asked[:length], asked[length:].decode()
    code = to_object(text, make_target(None), is_large=bool(is_large), is_quick=bool(is_quick))
    cache = DiskCache(Path(folder))
    cache.put(KIND, key, header + code)
    cache.release(KIND, key, handle)

"""What a driver answers to calls with wrong arguments: ``python -m bench.driver_codes --out FILE`` on a card.

Each row of ``wrong_calls`` is a call with its arguments; its result code and, if the row requests it, the stored value are recorded. The same rows are run on
Warpwright's driver (``tests/test_driver_codes.py``).  A process asks one row after the other; where it dies,
as a real driver does of some null pointers, the row says so and another process goes on behind it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.driver_answers import MIB
from bench.wrong_calls.memory import arrays, contexts, copies, devices, memory, pools, virtual
from bench.wrong_calls.states import captured, faulted, without_context
from bench.wrong_calls.work import graphs, launches, modules, streams
from bench.wrong_calls.world import INT, ROOM, WORD, World, words

PARTS = 8
"""Number of concurrent processes."""
SECONDS = 60
"""How long one of them may take."""
Row = tuple[str, Callable[[], Any]]


GROUPS = {
    f.__name__: f
    for f in (devices, contexts, memory, copies, streams, modules, launches, graphs, virtual, pools, arrays, without_context, captured, faulted)
}  # fmt: skip


def several(w: World, row: tuple[Any, ...]) -> Any:
    """Rows of more than one call."""
    lib, name = w.lib, row[0]
    if name == "priority":
        place, got = ctypes.c_uint64(), ctypes.c_int(77)
        code = lib("cuStreamCreateWithPriority", ctypes.byref(place), 1, row[1])
        lib("cuStreamGetPriority", place.value, ctypes.byref(got))
        return [code, got.value]
    if name == "attribute among others":
        values = (ctypes.c_uint64 * 1)(0x4D4D4D4D4D4D4D4D)
        code = lib("cuPointerGetAttributes", 1, struct.pack("<I", row[1]), words(ctypes.addressof(values)), row[2])
        known = row[1] in (2, 8, 9)
        return [code, ctypes.c_int(values[0] & 0xFFFFFFFF).value if known else values[0] in (0, row[2])]
    if name == "new event":
        return lib(row[1], lib.word("cuEventCreate", 0))
    if name == "elapsed":
        first, second, out = lib.word("cuEventCreate", 0), lib.word("cuEventCreate", 0), ctypes.c_float()
        place = ctypes.byref(out)
        codes = [lib("cuEventElapsedTime", place, first, second)]
        lib("cuEventRecord", first, w.stream)
        codes.append(lib("cuEventElapsedTime", place, first, second))
        lib("cuEventRecord", second, w.stream)
        lib("cuStreamSynchronize", w.stream)
        codes += [
            lib("cuEventElapsedTime", place, a, b)
            for a, b in ((first, second), (second, first), (0, second), (w.untimed, second))
        ]
        lib("cuEventRecord", w.untimed, w.stream)
        lib("cuStreamSynchronize", w.stream)
        return [
            *codes,
            lib("cuEventElapsedTime", place, w.untimed, second),
            lib("cuEventElapsedTime", 0, first, second),
        ]
    if name == "link":
        made, cubin, size = (ctypes.c_uint64() for _ in range(3))
        assert lib("cuLinkCreate_v2", 0, 0, 0, ctypes.byref(made)) == 0
        link = made.value
        text = row[2] + bytes(1)
        codes = [lib("cuLinkAddData_v2", link, row[1], text, len(text), b"name", 0, 0, 0)]
        return [
            *codes,
            lib("cuLinkComplete", link, ctypes.byref(cubin), ctypes.byref(size)),
            lib("cuLinkDestroy", link),
        ]
    if name == "library and its kernel":
        library, kernel, function = (ctypes.c_uint64() for _ in range(3))
        code = lib("cuLibraryLoadData", ctypes.byref(library), row[1], 0, 0, 0, 0, 0, 0)
        if code:
            return [code]
        codes = [code, lib("cuLibraryGetKernel", ctypes.byref(kernel), library.value, b"nothing")]
        return codes if codes[1] else [*codes, lib("cuKernelGetFunction", ctypes.byref(function), kernel.value)]
    if name == "asynchronous memory":
        memory = lib.word("cuMemAllocAsync", 4096, w.stream)
        if row[1] == "cuMemFree_v2":
            return lib("cuMemFree_v2", memory)
        if row[1] == "inside":
            return [lib("cuMemFreeAsync", memory + 16, w.stream), lib("cuMemFreeAsync", memory, w.stream)]
        codes = [lib("cuMemFreeAsync", memory, w.stream)]
        return [*codes, lib("cuMemFreeAsync", memory, w.stream)] if row[1] == "twice" else codes
    assert name == "captured", name
    _, mode, blocking, call, *arguments = row
    w.stream, w.event = lib.word("cuStreamCreate", blocking), lib.word("cuEventCreate", 0)
    begun = lib("cuStreamBeginCapture_v2", w.stream, mode)
    given = [getattr(w, a) if isinstance(a, str) and a not in (ROOM, WORD, INT) else a for a in arguments]
    answer = w.ask(call, *given)
    state, graph = ctypes.c_int(77), ctypes.c_uint64(77)
    queried = lib("cuStreamIsCapturing", w.stream, ctypes.byref(state))
    ended = lib("cuStreamEndCapture", w.stream, ctypes.byref(graph))
    return [begun, answer, queried, state.value, ended, graph.value == 0]


def rows(w: World, group: str) -> Iterator[Row]:
    """Each row's name, which holds no address, and how it is asked."""
    own = {v: k for k, v in vars(w).items() if isinstance(v, int) and v > 4096}
    own[w.lib.context] = "context"
    stretches = {n: getattr(w, n) for n in ("memory", "managed", "host", "plain", "reserved")}

    def shown(value: Any) -> str:
        if isinstance(value, bytes):
            return value.decode() if value.isascii() and value.isalpha() else "..."
        if not isinstance(value, int) or value in own:
            return str(own.get(value, value))
        offset, near = (
            min((value - begin, n) for n, begin in stretches.items() if value > begin) if value > 1 << 32 else (0, "")
        )
        return f"{near}+{offset}" if 0 < offset <= 8 * MIB else str(value)

    seen: Counter[str] = Counter()
    for row in GROUPS[group](w):
        if row[0] == "named":
            name, row = row[1], row[2:]
        else:
            name = f"{row[0]}({', '.join(shown(a) for a in row[1:])})"
        seen[name] += 1
        name += f" #{seen[name]}" if seen[name] > 1 else ""
        known = row[0].startswith("cu")
        yield name, partial(w.ask, *row) if known else partial(several, w, row)


def ask(group: str, dead: set[int]) -> None:
    """Run a group's rows in order, except the ones that crash, and print each name and answer."""
    world = World()
    for n, (name, answer) in enumerate(rows(world, group)):
        print(json.dumps(name), flush=True)
        print(json.dumps("dies" if n in dead else answer()), flush=True)


def answers(group: str) -> dict[str, Any]:
    """A group's answers by name; ``"dies"`` where the process did, or did not go on."""
    dead: set[int] = set()
    while True:
        command = [sys.executable, "-m", "bench.driver_codes", "--group", group, "--dead", ",".join(map(str, dead))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            ended, said = done.returncode == 0, done.stdout
        except subprocess.TimeoutExpired as error:
            ended, said = False, (error.stdout or b"").decode()
        lines = [json.loads(line) for line in said.splitlines()]
        if ended:
            return dict(zip(lines[0::2], lines[1::2], strict=True))
        if not lines or len(lines) // 2 in dead:
            return {"nothing": said[-300:]}
        dead.add(len(lines) // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--group", choices=GROUPS)
    parser.add_argument("--dead", default="", help="rows that are not asked, by number")
    given = parser.parse_args()
    if given.group and not given.out:
        ask(given.group, {int(n) for n in given.dead.split(",") if n})
        return
    groups = [given.group] if given.group else list(GROUPS)
    with ThreadPoolExecutor(PARTS) as executor:
        found = dict(zip(groups, executor.map(answers, groups), strict=True))
    given.out.write_text(json.dumps({"command": "python -m bench.driver_codes --out FILE", "rows": found}))


if __name__ == "__main__":
    main()

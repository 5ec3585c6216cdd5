"""Gives the simulated GeForce 8800 bad input: each case must end in an error of ours or in a picture, and change no buffer that nothing names.

``python -m bench.bad_streams [--cases N] [--first N] [--processes N]`` replays a recorded scene (``bench/data/small_scene.wwcs``: a texture, two programs,
depth, blending, indices, instances), and spoils one of its submissions in each case, in one of ``WAYS``.  A case runs in a process of its own, a copy of the one that
has replayed the submissions before; the submissions after the spoilt one follow, as a driver's would.  A case fails if its process dies or does not end, if anything
but an error of this package comes out, or if a buffer changes whose addresses are in no register and in no word of the stream.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.errors import WarpwrightError
from warpwright.graphics import shader_programs
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Replay
from warpwright.graphics.video_memory import FIRST_ADDRESS

SCENE = Path(__file__).parent / "data" / "small_scene.wwcs"
FIRST_SPOILT = 2
"""Submissions before this one make the channel and its objects."""
SECONDS_PER_CASE, SECONDS_PER_PROGRAM = 120, 5
PART = 250
Segments = list[tuple[int, int]]
Words = npt.NDArray[np.uint32]
Spoils = Callable[[np.random.Generator, GraphicsDevice, Segments], Segments]


def _words(device: GraphicsDevice, segment: tuple[int, int]) -> Words:
    return device.memory.words(segment[0], segment[1] // 4, "a test")


def _longest(segments: Segments) -> int:
    return max(range(len(segments)), key=lambda n: segments[n][1])


def truncated(rng: np.random.Generator, device: GraphicsDevice, segments: Segments) -> Segments:
    """A segment ends early, at any byte."""
    n = int(rng.integers(len(segments)))
    address, size = segments[n]
    return [*segments[:n], (address, int(rng.integers(1, size + 1))), *segments[n + 1 :]]


def random_words(rng: np.random.Generator, device: GraphicsDevice, segments: Segments) -> Segments:
    """One to sixteen words are random."""
    words = _words(device, segments[_longest(segments)])
    at = rng.integers(0, len(words), int(rng.integers(1, 17)))
    words[at] = rng.integers(0, 1 << 32, len(at), dtype=np.uint32) >> rng.integers(0, 32, dtype=np.uint32)
    return segments


def flipped_bits(rng: np.random.Generator, device: GraphicsDevice, segments: Segments) -> Segments:
    """One to eight bits are others."""
    words = _words(device, segments[_longest(segments)])
    for at in rng.integers(0, len(words), int(rng.integers(1, 9))).tolist():
        words[at] ^= np.uint32(1) << rng.integers(0, 32, dtype=np.uint32)
    return segments


def random_stream(rng: np.random.Generator, device: GraphicsDevice, segments: Segments) -> Segments:
    """All words are random; half of the streams are valid headers of methods of the 3D engine with random words."""
    words = _words(device, segments[_longest(segments)])
    words[:] = rng.integers(0, 1 << 32, len(words), dtype=np.uint32)
    if rng.random() < 0.5:
        offsets = np.array(list(device.three_d.table.names), np.uint32)
        words[::2] = 1 << 18 | 3 << 13 | rng.choice(offsets, len(words[::2]))
        words[1::2] >>= rng.integers(0, 32, len(words[1::2]), dtype=np.uint32)
    return segments


def wrong_offsets(rng: np.random.Generator, device: GraphicsDevice, segments: Segments) -> Segments:
    """Addresses of buffers are off, by bytes or by megabytes."""
    words = _words(device, segments[_longest(segments)])
    starts = [b.address for b in device.memory.buffers.values()]
    likely = np.flatnonzero((words >= FIRST_ADDRESS) & (words < max(starts) + (1 << 20)))
    if len(likely):
        for at in rng.choice(likely, min(len(likely), int(rng.integers(1, 4)))).tolist():
            off = int(rng.integers(-(1 << 24), 1 << 24)) >> int(rng.integers(0, 24))
            words[at] = (int(words[at]) + off) & 0xFFFF_FFFF
    return segments


def spoilt_programs(rng: np.random.Generator, device: GraphicsDevice, segments: Segments) -> Segments:
    """The code of the programs has random words, or other bits."""
    engine = device.three_d
    for stage in ("VP", "FP"):
        start = engine.address(f"{stage}_ADDRESS_HIGH") + engine[f"{stage}_START_ID"]
        buffer = device.memory.find(start)
        if buffer is None:
            continue
        room = min(buffer.address + buffer.size - start, 512) // 4
        code = device.memory.words(start, room, "a test")
        used = code[: max(int(np.flatnonzero(code)[-1]) + 1 if code.any() else 1, 1)]
        if rng.random() < 0.8:
            used[:] = rng.integers(0, 1 << 32, len(used), dtype=np.uint32)
        else:
            for at in rng.integers(0, len(used), int(rng.integers(1, 4))).tolist():
                used[at] ^= np.uint32(1) << rng.integers(0, 32, dtype=np.uint32)
    return segments


WAYS: dict[str, tuple[Spoils, float]] = {
    one.__name__: (one, share)
    for one, share in (
        (truncated, 0.2),
        (random_words, 0.2),
        (flipped_bits, 0.15),
        (random_stream, 0.15),
        (wrong_offsets, 0.2),
        (spoilt_programs, 0.1),
    )
}


def _named(device: GraphicsDevice, segments: Segments) -> npt.NDArray[np.int64]:
    """All words that may be addresses: of the stream, and of registers."""
    parts: list[Any] = [engine.registers for engine in device._engines.values() if hasattr(engine, "registers")]
    for address, size in segments:
        whole = np.zeros(-(-size // 4) * 4, np.uint8)
        whole[:size] = device.memory.view(address, size, "a test")
        parts.append(whole.view(np.uint32))
    return np.sort(np.concatenate(parts).astype(np.int64))


@dataclass
class Case:
    """What a case's process sends back."""

    way: str
    outcome: str
    said: str = ""


def _carry_out(device: GraphicsDevice, segments: Segments, number: int, way: str) -> Case:
    """Spoil a submission and execute it."""
    rng = np.random.default_rng([21, number])
    shader_programs.MOST_SECONDS = SECONDS_PER_PROGRAM
    memory = device.memory
    before_registers = _named(device, [])
    segments = WAYS[way][0](rng, device, segments)
    named = np.concatenate([before_registers, _named(device, segments)])
    kept = {
        handle: memory.view(b.address, b.size, "a test").copy()
        for handle, b in memory.buffers.items()
        if not ((named >= b.address) & (named < b.address + b.size)).any()
    }
    outcome, said = "picture", ""
    try:
        device.submit(segments)
    except WarpwrightError as error:
        outcome, said = "error", str(error)
    changed = [
        h
        for h, was in kept.items()
        if not np.array_equal(memory.view(memory.buffers[h].address, len(was), "a test"), was)
    ]
    if changed:
        return Case(way, "changed", f"buffers {changed} changed; {said}")
    return Case(way, outcome, said)


class _Spoiling(Replay):
    """A replay that starts a process for each case before the submission that the case spoils."""

    def __init__(self, cases: range, tell: Callable[[int, Case], None]) -> None:
        super().__init__(SCENE)
        self.tell = tell
        self.by_submission: dict[int, list[tuple[int, str]]] = {}
        names, shares = list(WAYS), [share for _, share in WAYS.values()]
        for number in cases:
            rng = np.random.default_rng([7, number])
            way = str(rng.choice(names, p=shares))
            # Programs are there from the first draw on.
            first = 6 if way == "spoilt_programs" else FIRST_SPOILT
            self.by_submission.setdefault(int(rng.integers(first, 12)), []).append((number, way))
        self.case: tuple[int, str] | None = None
        self.result: Case | None = None

    def _carry_out(self, device: GraphicsDevice, kind: bytes, fields: tuple[int, ...], tail: bytes) -> None:
        segments = list(np.frombuffer(tail, np.uint64).reshape(-1, 2).tolist()) if kind == b"S" else []
        segments = [(int(a), int(n)) for a, n in segments]
        if segments and self.case is None:
            for number, way in self.by_submission.get(self.submissions, ()):
                if self._fork(number, way):
                    self.result = _carry_out(device, segments, number, way)
                    self.submissions += 1
                    return
        try:
            super()._carry_out(device, kind, fields, tail)
        except WarpwrightError:
            if self.case is None:
                raise

    def _fork(self, number: int, way: str) -> bool:
        """Whether this is the case's process; the other one waits for it."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            self.case, self.pipe = (number, way), writing
            return True
        os.close(writing)
        text, late = b"", False
        until = time.monotonic() + SECONDS_PER_CASE
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                late = True
                os.kill(child, signal.SIGKILL)
                break
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            text += piece
        os.close(reading)
        _, status = os.waitpid(child, 0)
        if late:
            self.tell(number, Case(way, "did not end"))
        elif os.WIFSIGNALED(status) or not text:
            self.tell(
                number,
                Case(
                    way,
                    "died",
                    f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {status >> 8}",
                ),
            )
        else:
            self.tell(number, Case(**json.loads(text)))
        return False


def run_part(cases: range) -> list[tuple[int, Case]]:
    """Results of some cases, in processes of this one."""
    found: list[tuple[int, Case]] = []
    replay = _Spoiling(cases, lambda number, case: found.append((number, case)))
    try:
        replay.run()
    except BaseException:
        if replay.case is None:
            raise
        replay.result = Case(replay.case[1], "exception", traceback.format_exc(limit=-3))
    if replay.case is not None:
        result = replay.result or Case(replay.case[1], "exception", "nothing was carried out")
        os.write(replay.pipe, json.dumps(result.__dict__).encode()[:60_000])
        os._exit(0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="begin no part after so many seconds")
    parser.add_argument("--output", type=Path, help="also write counts and failures as JSON")
    arguments = parser.parse_args()
    end = arguments.first + arguments.cases
    parts = [range(n, min(n + PART, end)) for n in range(arguments.first, end, PART)]
    started, counts, failures, messages = time.monotonic(), Counter[tuple[str, str]](), [], Counter[str]()
    run_part(range(0))
    gc.collect()
    gc.freeze()
    with get_context("fork").Pool(arguments.processes) as pool:
        for found in pool.imap_unordered(run_part, parts):
            for number, case in found:
                counts[case.way, case.outcome] += 1
                if case.outcome == "error":
                    messages[case.said.split(":")[0][:60]] += 1
                elif case.outcome != "picture":
                    failures.append({"number": number, **case.__dict__})
            if arguments.seconds and time.monotonic() - started > arguments.seconds:
                pool.terminate()
                break
    total = sum(counts.values())
    print(f"{total:,} cases in {time.monotonic() - started:.0f} s: {len(failures)} failures")
    for (way, outcome), count in sorted(counts.items()):
        print(f"  {way:16} {outcome:12} {count:,}")
    for failure in failures[:20]:
        print(failure, file=sys.stderr)
    if arguments.output is not None:
        table = {f"{way}: {outcome}": count for (way, outcome), count in sorted(counts.items())}
        arguments.output.write_text(
            json.dumps(
                {"cases": total, "counts": table, "failures": failures[:300], "messages": messages.most_common(60)},
                indent=1,
            )
        )


if __name__ == "__main__":
    main()

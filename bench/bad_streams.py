"""Gives the simulated GeForce 8800 bad input. Each case must end in an error of this package or in a picture, and must not change a buffer to which nothing
refers.

``python -m bench.bad_streams [--cases N] [--first N] [--processes N]`` replays a recorded scene (``bench/data/small_scene.wwcs``: a texture, two programs,
depth, blending, indices, instances), and in each case spoils one of its submissions in one of ``WAYS``. After one case in eight, the original submission
follows on the state that the case has left. Cases run in forks of the process that has replayed the earlier submissions; the state is restored after each case.
A case fails if its process dies or does not end, if any exception but an error of this package is raised, or if a buffer changes whose addresses are in no
register and in no word of the stream.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.errors import WarpwrightError
from warpwright.graphics import shader_programs
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.recording import Replay
from warpwright.graphics.video_memory import FIRST_ADDRESS

SCENE = Path(__file__).parent / "data" / "small_scene.wwcs"
FIRST_SPOILT = 2
"""Submissions before this one make the channel and its objects."""
SECONDS_PER_CASE, SECONDS_PER_PROGRAM = 120, 5
SUBMISSIONS = range(FIRST_SPOILT, 12)
FIRST_WITH_PROGRAMS = 6
FOLLOWED = 8
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
    """One to eight bits are flipped."""
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
    """The code of the programs gets random words or flipped bits."""
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


class Snapshot:
    """The state of a device (contents of its buffers and state of its engines), to be restored in place."""

    def __init__(self, device: GraphicsDevice) -> None:
        self.memory = device.memory
        self.buffers = {handle: self.view(handle).copy() for handle in device.memory.buffers}
        self._arrays: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = []
        self._attributes: list[tuple[Any, str, Any]] = []
        self._containers: list[tuple[Any, Any]] = []
        self._seen: set[int] = {id(device.memory)}
        self._walk(device)

    def view(self, handle: int) -> npt.NDArray[np.uint8]:
        """The current contents of a buffer."""
        buffer = self.memory.buffers[handle]
        return self.memory.view(buffer.address, buffer.size, "a test")

    def _walk(self, value: Any) -> None:
        if id(value) in self._seen or isinstance(value, (str, bytes, int, float, type)):
            return
        self._seen.add(id(value))
        if isinstance(value, np.ndarray):
            self._arrays.append((value, value.copy()))
        elif isinstance(value, dict):
            self._containers.append((value, dict(value)))
            for one in value.values():
                self._walk(one)
        elif isinstance(value, (list, set)):
            self._containers.append((value, value.copy()))
            for one in value:
                self._walk(one)
        elif isinstance(value, tuple):
            for one in value:
                self._walk(one)
        elif type(value).__module__.startswith("warpwright.graphics"):
            slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
            for name in [*getattr(value, "__dict__", {}), *slots]:
                if hasattr(value, name):
                    self._attributes.append((value, name, getattr(value, name)))
                    self._walk(getattr(value, name))

    def restore(self) -> None:
        """Restore the device."""
        for owner, name, value in self._attributes:
            if getattr(owner, name) is not value:
                object.__setattr__(owner, name, value)
        for array, was in self._arrays:
            if array.flags.writeable:
                array[...] = was
        for container, was in self._containers:
            container.clear()
            container.extend(was) if isinstance(container, list) else container.update(was)
        for handle, contents in self.buffers.items():
            self.view(handle)[:] = contents


def _registers(device: GraphicsDevice) -> npt.NDArray[np.int64]:
    """All registers' words, which may be addresses."""
    parts = [engine.registers for engine in device._engines.values() if isinstance(engine, RegisterEngine)]
    return np.concatenate(parts).astype(np.int64)


def _words_of(device: GraphicsDevice, segments: Segments) -> npt.NDArray[np.int64]:
    """All words of a stream, which may be addresses."""
    parts = []
    for address, size in segments:
        whole = np.zeros(-(-size // 4) * 4, np.uint8)
        whole[:size] = device.memory.view(address, size, "a test")
        parts.append(whole.view(np.uint32))
    return np.concatenate(parts).astype(np.int64)


@dataclass(frozen=True)
class Case:
    """The outcome of a case."""

    number: int
    way: str
    outcome: str
    said: str = ""


def way_of(number: int) -> str:
    """The way in which a case spoils its submission."""
    return str(np.random.default_rng([7, number]).choice(list(WAYS), p=[share for _, share in WAYS.values()]))


def submission_of(number: int) -> int:
    """The submission that a case spoils; programs exist from the sixth on."""
    there = [n for n in SUBMISSIONS if n >= FIRST_WITH_PROGRAMS or way_of(number) != "spoilt_programs"]
    return there[number % len(there)]


def carry_out(device: GraphicsDevice, snapshot: Snapshot, segments: Segments, number: int) -> Case:
    """Spoil a submission and execute it; in some cases, execute the original one afterwards."""
    way = way_of(number)
    before = _registers(device)
    try:
        spoilt = WAYS[way][0](np.random.default_rng([21, number]), device, segments)
        named = np.sort(np.concatenate([before, _words_of(device, spoilt)]))
        spoilt_buffers = {
            handle: view.copy()
            for handle, was in snapshot.buffers.items()
            if not np.array_equal(view := snapshot.view(handle), was)
        }
        outcome, said = "picture", ""
        try:
            device.submit(spoilt)
        except WarpwrightError as error:
            outcome, said = "error", str(error)
        changed = []
        for handle, was in snapshot.buffers.items():
            b = device.memory.buffers[handle]
            first, last = np.searchsorted(named, (b.address, b.address + b.size))
            if first == last and not np.array_equal(snapshot.view(handle), spoilt_buffers.get(handle, was)):
                changed.append(handle)
        if changed:
            return Case(number, way, "changed", f"buffers {changed}: {said}")
        if number % FOLLOWED == 0:
            with contextlib.suppress(WarpwrightError):
                device.submit(segments)
    except Exception:
        return Case(number, way, "exception", traceback.format_exc(limit=-3))
    finally:
        snapshot.restore()
    return Case(number, way, outcome, said)


class Spoiling(Replay):
    """A replay that, before each submission, starts processes for its cases."""

    def __init__(self, cases: Iterable[int], processes: int = 1, seconds: float = float("inf")) -> None:
        super().__init__(SCENE)
        self.found: list[Case] = []
        self._by_submission: dict[int, list[int]] = {n: [] for n in SUBMISSIONS}
        for number in cases:
            self._by_submission[submission_of(number)].append(number)
        self._processes = processes
        self._until = [time.monotonic() + seconds * (n + 1) / len(SUBMISSIONS) for n in range(len(SUBMISSIONS))]

    def _carry_out(self, device: GraphicsDevice, kind: bytes, fields: tuple[int, ...], tail: bytes) -> None:
        segments = [(int(a), int(n)) for a, n in np.frombuffer(tail, np.uint64).reshape(-1, 2)] if kind == b"S" else []
        numbers = self._by_submission.get(self.submissions, []) if segments else []
        if numbers:
            self._spoil(device, segments, numbers, self._until[self.submissions - FIRST_SPOILT])
        super()._carry_out(device, kind, fields, tail)

    def _spoil(self, device: GraphicsDevice, segments: Segments, numbers: list[int], until: float) -> None:
        """Run the cases of a submission in several processes; if one dies, another one runs the rest of its share."""
        shares = [numbers[n :: self._processes] for n in range(self._processes)]
        running = dict(_started(device, segments, share) for share in shares if share)
        while running:
            ready, _, _ = select.select(list(running), [], [], 1.0)
            pieces = {reading: os.read(reading, 1 << 16) for reading in ready}
            for reading, one in list(running.items()):
                ended = reading in pieces and one.take(pieces[reading], self.found)
                late = time.monotonic() > until
                if not ended and not late and time.monotonic() - one.heard < SECONDS_PER_CASE:
                    continue
                del running[reading]
                status = one.stop(reading)
                if one.left and not late:
                    number = one.left.pop(0)
                    outcome = "died" if ended else "did not end"
                    self.found.append(Case(number, way_of(number), outcome, f"status {status:#x}"))
                    if one.left:
                        running.update([_started(device, segments, one.left)])


@dataclass
class _Process:
    """A process that runs cases, and the output received from it."""

    pid: int
    left: list[int]
    text: bytes = b""
    heard: float = dataclasses.field(default_factory=time.monotonic)

    def take(self, piece: bytes, found: list[Case]) -> bool:
        """Take complete lines; returns True if the process has ended."""
        *lines, self.text = (self.text + piece).split(b"\n")
        for line in lines:
            case = Case(**json.loads(line))
            self.left.remove(case.number)
            found.append(case)
            self.heard = time.monotonic()
        return not piece

    def stop(self, reading: int) -> int:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return os.waitpid(self.pid, 0)[1]


def _started(device: GraphicsDevice, segments: Segments, numbers: list[int]) -> tuple[int, _Process]:
    """Start a process for cases of a submission; returns the file descriptor of its results."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return reading, _Process(pid, list(numbers))
    try:
        shader_programs.MOST_SECONDS = SECONDS_PER_PROGRAM
        snapshot = Snapshot(device)
        for number in numbers:
            case = carry_out(device, snapshot, segments, number)
            os.write(writing, json.dumps(dataclasses.asdict(case)).encode() + b"\n")
    finally:
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after so many seconds")
    parser.add_argument("--output", type=Path, help="also write counts and failures as JSON")
    arguments = parser.parse_args()
    started = time.monotonic()
    # Code that is compiled now is shared by all processes.
    Replay(SCENE).run()
    left = arguments.seconds - (time.monotonic() - started)
    replay = Spoiling(range(arguments.first, arguments.first + arguments.cases), arguments.processes, left)
    replay.run()
    counts = Counter((case.way, case.outcome) for case in replay.found)
    failures = [dataclasses.asdict(case) for case in replay.found if case.outcome not in ("error", "picture")]
    print(f"{len(replay.found):,} cases in {time.monotonic() - started:.0f} s: {len(failures)} failures")
    for (way, outcome), count in sorted(counts.items()):
        print(f"  {way:16} {outcome:12} {count:,}")
    for failure in failures[:20]:
        print(failure, file=sys.stderr)
    if arguments.output is not None:
        table = {f"{way}: {outcome}": count for (way, outcome), count in sorted(counts.items())}
        messages = Counter(case.said.split(":")[0][:60] for case in replay.found if case.outcome == "error")
        whole = {
            "cases": len(replay.found),
            "counts": table,
            "failures": failures[:300],
            "messages": messages.most_common(60),
        }
        arguments.output.write_text(json.dumps(whole, indent=1))


if __name__ == "__main__":
    main()

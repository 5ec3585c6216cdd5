"""Processes that run many small cases, on a simulated device or on the machine's own, until one ends or hangs; the rest go on in a new one.

The program of such a process reads a case (a list of words, as JSON) from each line of its input and answers with a line ``@@`` and a list: ``pass``, ``skip``
or ``fail``; the reason; seconds of CPU time; and whether the process is of no more use.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

CARD = "card"
"""For ``--gpu``: the machine's own device, without simulation."""
SECONDS_BETWEEN_WRITES = 2.0
ANSWER = r"""
import json, time
import torch

def answer(result, reason, began):
    # A device on which even a wait fails makes the process of no more use.
    useless = False
    try:
        torch.cuda.synchronize()
    except Exception:
        useless = True
    print("@@" + json.dumps([result, reason, round(time.process_time() - began, 1), useless]), flush=True)
"""
"""A part of such a program: ``answer(result, reason, began)``, with the CPU time at which the case began."""


class Child:
    """A process of a Python program that answers cases."""

    def __init__(self, python: str, gpu: str, program: str) -> None:
        simulated = [python, "-m", "warpwright", "run", "--gpu", gpu, "--timing", "off"]
        command = [*([] if gpu == CARD else simulated), python, "-u", "-c", program]
        self.errors = tempfile.NamedTemporaryFile("w+", prefix="cases-", suffix=".stderr")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True
        )

    def ask(self, case: list[str], seconds: float) -> list[Any] | None:
        """The answer of a case; None: the process ended, or its time is over."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps(case).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and select.select([self.process.stdout], [], [], left)[0]:
            line = self.process.stdout.readline()
            if not line:
                return None
            if line.startswith(b"@@"):
                answer: list[Any] = json.loads(line[2:])
                return answer
        return None

    def said(self) -> str:
        """The last message on standard error."""
        lines = Path(self.errors.name).read_text(errors="replace").strip().splitlines()
        return " | ".join(line for line in lines[-3:])[:400]

    def end(self) -> None:
        """End the process and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.errors.close()


class Parts:
    """Cases divided among workers by their first word, a test file or an operator, so that each imports little; a worker without cases takes the last of the largest part."""

    def __init__(self, cases: list[list[str]], workers: int) -> None:
        ordered = sorted(cases, key=lambda case: case[0])
        self._parts = [
            deque(ordered[len(ordered) * i // workers : len(ordered) * (i + 1) // workers]) for i in range(workers)
        ]

    def take(self, worker: int) -> list[str] | None:
        """The next case of a worker; None: none is left."""
        if self._parts[worker]:
            return self._parts[worker].popleft()
        largest = max(self._parts, key=len)
        return largest.pop() if largest else None


class Sample:
    """Cases that several processes take in turn, with the answers so far."""

    def __init__(self, program: str, wanted: list[list[str]], options: argparse.Namespace) -> None:
        self.program, self.options = program, options
        self.results: dict[str, list[Any]] = {}
        if options.resume and options.json and options.json.exists():
            known = json.loads(options.json.read_text())
            self.results = {key: a for key, a in known.items() if not (options.again and a[0] == "fail")}
        left = [case for case in wanted if " ".join(case) not in self.results]
        self._left = iter(left)
        self._parts = Parts(left, options.workers) if options.by_file else None
        self._until = time.monotonic() + options.limit
        self._lock = threading.Lock()
        self._written = time.monotonic()

    def _next(self, worker: int) -> list[str] | None:
        with self._lock:
            if time.monotonic() >= self._until:
                return None
            return self._parts.take(worker) if self._parts else next(self._left, None)

    def _keep(self, key: str, answer: list[Any]) -> None:
        with self._lock:
            self.results[key] = answer
            print(answer[0], key, answer[1][:200].replace("\n", " "), f"{answer[2]} s", flush=True)
            if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
                self._write()

    def _write(self) -> None:
        if self.options.json:
            self.options.json.write_text(json.dumps(self.results, indent=0))
        self._written = time.monotonic()

    def work(self, worker: int) -> None:
        """Run cases until none is left or the limit is reached; a case that the limit cuts off has no answer."""
        child = None
        while case := self._next(worker):
            fresh = child is None
            child = child or Child(self.options.python, self.options.gpu, self.program)
            seconds = self.options.seconds + (120 if fresh else 0)
            answer = child.ask(case, min(seconds, self._until - time.monotonic()))
            if answer is None and time.monotonic() > self._until:
                break
            if answer is None or answer[3]:
                said = f"the process ended or its time was over: {child.said()}"
                answer = answer or ["fail", said, self.options.seconds, True]
                child.end()
                child = None
            self._keep(" ".join(case), answer)
        if child:
            child.end()

    def run(self) -> None:
        """Run all cases and print how many have each outcome."""
        workers = [threading.Thread(target=self.work, args=[i]) for i in range(self.options.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self._write()
        print(dict(Counter(answer[0] for answer in self.results.values())))


def passed(answers: Path) -> list[list[str]]:
    """The cases that a file of answers passed, in its order."""
    return [key.split(" ") for key, answer in json.loads(answers.read_text()).items() if answer[0] == "pass"]


def chosen(everything: list[list[str]], options: argparse.Namespace) -> list[list[str]]:
    """The part of a sample that the options ask for."""
    named = [case for case in everything if options.only in " ".join(case)]
    return named[options.first : options.first + options.cases]


def option_parser(description: str | None, cases: int) -> argparse.ArgumentParser:
    """The options that every sample has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--gpu", default="h200", help="a chip, or card: this machine's own device, for comparison")
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120, help="for one case")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds of wall time for all cases")
    parser.add_argument("--workers", type=int, default=1, help="processes that run cases at the same time")
    parser.add_argument("--by-file", action="store_true", help="each process runs cases of few files or operators")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="keep the answers in --json's file")
    parser.add_argument("--again", action="store_true", help="with --resume: run the cases that failed again")
    parser.add_argument("--passed-by", type=Path, help="only cases that this file of answers (--json) passed")
    parser.add_argument("--only", default="", help="cases whose name contains this, of all instead of the sample")
    return parser

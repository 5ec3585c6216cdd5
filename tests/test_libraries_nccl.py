"""NCCL of this package: every collective of ranks in one thread, in threads and in processes, by kernels and through the host."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.library_calls import Library, device
from warpwright.libraries.calls import LibraryError
from warpwright.libraries.nccl.moves import Kind, Request, moves_of, paired

linux = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
INVALID_USAGE, FLOAT = 5, 7
PROGRAM = Path(__file__).with_name("nccl_program.py")


@linux
def test_what_is_absent_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with device():
        nccl, version = Library("libnccl.so.2"), ctypes.c_int32()
        nccl("ncclGetVersion", ctypes.byref(version))
        assert version.value >= 22000
        assert nccl.raw("ncclCommShrink", 0, 0, 0, 0, 0, 0) == INVALID_USAGE
    assert "ncclCommShrink is not provided: the call returns ncclInvalidUsage" in capfd.readouterr().err


@linux
@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "ranks"),
    [
        # Each type's kernels are compiled anew, which takes ten seconds; the types differ in nothing else.
        pytest.param("--gpu h200,h200 --timing full", "one f4", marks=pytest.mark.long),
        pytest.param("--gpu h200,h200 --timing full", "one i8,f2", marks=pytest.mark.slow),
        ("--gpu h200,h200,h200 --timing sampled", "one"),  # through the host
        pytest.param("--gpu h200,h200 --timing off", "threads", marks=pytest.mark.long),
        ("--gpu h200,h200,h200 --timing off", "processes"),
    ],
)
def test_collectives(options: str, ranks: str) -> None:
    command = [sys.executable, "-m", "warpwright", "run", *options.split(), str(PROGRAM), *ranks.split()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-2000:] + run.stdout[-2000:]
    assert run.stdout.count("equal") == (3 if ranks == "processes" else 1)
    # Between processes, and with sampled timing, the host moves the bytes; kernels are launches like any others.
    through_host = ranks == "processes" or "sampled" in options
    assert ("collectives through the host's memory" in run.stdout) == through_host
    if through_host:
        rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in run.stdout.splitlines()]
        reduced = [row for row in rows if row[0] == "AllReduce"]
        assert {row[1] for row in reduced} == {"0", "1", "2"}
        assert {row[2] for row in reduced} == {"3"}
        assert ("time" in run.stdout) == ("off" not in options)


def _request(kind: Kind, send: int, receive: int, count: int = 64, root: int = 0) -> Request:
    return Request(kind, send, receive, count, FLOAT, root=root)


def test_shares_of_an_all_reduce_are_disjoint_and_whole() -> None:
    for count in (1, 3, 64, 1001):
        moves = moves_of([_request(Kind.ALL_REDUCE, 4096 * i, 1 << 20 | 4096 * i, count) for i in range(3)])
        begins = [(move.sources[0][1] // 4, move.count) for move in moves]
        assert sum(many for _, many in begins) == count
        assert all(begin + many == after for (begin, many), (after, _) in itertools.pairwise(begins))


def test_calls_that_differ_are_refused() -> None:
    with pytest.raises(LibraryError, match="the ranks' calls differ"):
        moves_of([_request(Kind.ALL_REDUCE, 0, 0, 8), _request(Kind.ALL_REDUCE, 0, 0, 9)])


def test_a_send_needs_its_receive() -> None:
    with pytest.raises(LibraryError, match="rank 0 sends to rank 1, which does not receive it"):
        paired([[_request(Kind.SEND, 64, 0, root=1)], []])
    with pytest.raises(LibraryError, match="rank 0 receives from rank 1, which does not send"):
        paired([[_request(Kind.RECEIVE, 0, 64, root=1)], []])
    moves, _ = paired([[_request(Kind.SEND, 64, 0, root=1)], [_request(Kind.RECEIVE, 0, 128, root=0)]])
    assert [(move.sources, move.targets, move.count) for move in moves] == [(((0, 64),), ((1, 128),), 256)]

"""Entries whose first process runs quick code until the optimised code is on disk (``native/tiered.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpwright.native import direct, tiered
from warpwright.native.direct import FULL, KIND, QUICK
from warpwright.native.intrinsics import BOUNDSCHECK, core, words
from warpwright.toolchain.cache import default_cache

pytestmark = pytest.mark.skipif(BOUNDSCHECK, reason="checked indices are compiled without a cache")
ROOT = Path(__file__).parent.parent


@core
def step(m: Any, by: int) -> int:
    m[0] = (m[0] * 31 + by) % 1_000_003
    return m[0]


def sums(state: Any, count: int) -> int:
    """A function of two, whose results depend on the state that earlier calls left."""
    m = words(state)
    found = 0
    for number in range(count):
        found += step(m, number)
    return found


sums = partial(tiered.entry, what="sums", sources=(Path(__file__),), parts=(step,))(sums)  # type: ignore[assignment]


def expected(calls: int) -> list[int]:
    """The results of some calls with a count of 10 from a state of 0."""
    state, found = 0, []
    for _ in range(calls):
        total = 0
        for number in range(10):
            state = (state * 31 + number) % 1_000_003
            total += state
        found.append(total)
    return found


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tiered.TieredEntry:
    """The entry as a new process has it, with an empty cache; no process can be started unless a test allows it."""
    monkeypatch.setenv("WARPWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(tiered, "_start", lambda entry, handles: None)
    return tiered.TieredEntry(sums.py_func, "", (Path(__file__),), (step,))


def leave(entry: tiered.TieredEntry, tier: str) -> None:
    """Put a tier's code where a process leaves it."""
    default_cache().put(KIND, entry.key(tier), direct.object_code(entry.translated(), tier))


def test_a_caller_passes_from_quick_to_optimised_code_between_two_calls(fresh: tiered.TieredEntry) -> None:
    leave(fresh, QUICK)
    state = np.zeros(1, np.int64)
    found, tiers = [], []
    for call in range(4):
        if call == 2:
            leave(fresh, FULL)
        found.append(fresh(state, 10))
        tiers.append(fresh.tier)
    assert found == expected(4)
    assert tiers == [QUICK, QUICK, FULL, FULL]


def test_the_address_of_a_part_is_of_the_present_code(fresh: tiered.TieredEntry) -> None:
    leave(fresh, QUICK)
    quick = fresh.address(step)
    assert fresh.address(step) == quick
    leave(fresh, FULL)
    assert fresh.address(step) != quick


def test_tiers_have_keys_and_code_of_their_own(fresh: tiered.TieredEntry) -> None:
    assert fresh.key(QUICK) != fresh.key(FULL) == fresh.key()
    text = fresh.translated()
    assert direct.object_code(text, QUICK) != direct.object_code(text, FULL)


def test_damaged_optimised_code_is_not_taken(fresh: tiered.TieredEntry) -> None:
    leave(fresh, QUICK)
    state = np.zeros(1, np.int64)
    assert [fresh(state, 10)] == expected(1)
    path = default_cache().path(KIND, fresh.key(FULL))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half of it")
    assert [fresh(state, 10)] == expected(2)[1:]
    assert fresh.tier == QUICK


def test_who_starts_a_process_leaves_it_the_locks(fresh: tiered.TieredEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(tiered, "_start", lambda entry, handles: kept.extend(map(os.dup, handles)))
    assert tiered.begin(fresh.named())
    assert len(kept) == 2
    assert not tiered.begin(fresh.named())  # another process is compiling
    for handle in kept:
        os.close(handle)  # it ended without a result
    leave(fresh, QUICK)
    assert tiered.begin(fresh.named())
    assert len(kept) == 3  # the optimised code only
    os.close(kept[-1])
    leave(fresh, FULL)
    assert not tiered.begin(fresh.named())


def test_a_process_that_fails_is_no_reason_to_fail(fresh: tiered.TieredEntry) -> None:
    """Here it is one that holds the locks and ends at once."""
    assert [fresh(np.zeros(1, np.int64), 10)] == expected(1)
    assert fresh.tier == FULL
    assert default_cache().get(KIND, fresh.key(FULL))


def refused(entry: tiered.Named, handles: list[int]) -> None:
    raise OSError("no processes left")


def test_without_processes_the_first_call_optimises(fresh: tiered.TieredEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered, "_start", refused)
    assert [fresh(np.zeros(1, np.int64), 10)] == expected(1)
    assert fresh.tier == FULL
    folder = default_cache().folder
    assert not list((folder / "locks").iterdir())


def test_in_a_folder_that_cannot_be_written_the_first_call_optimises(
    fresh: tiered.TieredEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", "/proc/none")
    assert [fresh(np.zeros(1, np.int64), 10)] == expected(1)
    assert fresh.tier == FULL


def test_the_user_may_forbid_the_background(fresh: tiered.TieredEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_BACKGROUND", "0")
    monkeypatch.setattr(tiered, "_start", lambda entry, handles: pytest.fail("a process was started"))
    assert [fresh(np.zeros(1, np.int64), 10)] == expected(1)
    assert fresh.tier == FULL


PROGRAM = """
import time
import numpy as np
from tests.test_native_tiered import sums

state, found = np.zeros(1, np.int64), []
until = time.monotonic() + 60
while time.monotonic() < until:
    found.append(sums(state, 10))
    if sums.tier == "full":
        break
    time.sleep(0.01)
print(len(found), sums.tier, *found[:2])
"""


@pytest.mark.ci
def test_processes_that_start_at_once_compile_once_and_end_in_optimised_code(tmp_path: Path) -> None:
    environment = {**os.environ, "WARPWRIGHT_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM]
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=100) for process in processes]
    for out, _ in outputs:
        calls, tier, *found = out.split()
        assert tier == FULL
        assert list(map(int, found)) == expected(2)[: min(int(calls), 2)]
    assert sum(err.count("compiling sums") for _, err in outputs) == 1
    assert len(list((tmp_path / KIND).glob("*/*"))) == 2


@pytest.mark.ci
def test_a_program_does_not_wait_for_the_process_that_optimises_and_leaves_no_child(tmp_path: Path) -> None:
    """Its output's pipe closes at its end, and the next process finds the optimised code."""
    waiting = PROGRAM.partition("until =")[0] + "import os\nsums(state, 1)\nprint(sums.tier, flush=True)\n"
    waiting += "time.sleep(0.5)\ntry:\n    os.waitpid(-1, os.WNOHANG)\n    print('a child')\nexcept ChildProcessError:\n    print('no child')\n"
    environment = {**os.environ, "WARPWRIGHT_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", waiting], cwd=ROOT, env=environment, text=True, capture_output=True, timeout=100
    )
    assert done.stdout.splitlines()[-1] == "no child"
    until = time.monotonic() + 60
    while len(list((tmp_path / KIND).glob("*/*"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(list((tmp_path / KIND).glob("*/*"))) == 2

"""Host threads that help with a launch: who does which piece changes nothing, late helpers take none, and they leave with the launch."""

import threading
import time

import numpy as np
import pytest

from tests.test_timing import busy_kernel
from tests.timing_synthetic import run
from warpwright.chips import load_chip
from warpwright.native import intrinsics
from warpwright.timing import host_threads, simulate, windows
from warpwright.timing import state as s
from warpwright.timing.reset import LaunchSizes, initial_state


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "warpwright helper"]


@pytest.mark.skipif(intrinsics.BOUNDSCHECK, reason="with checked indices one thread does all")
def test_more_threads_than_cores_give_the_same_cycles_and_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, trace = busy_kernel()

    def launch(threads: int) -> tuple[int, dict[str, float], dict[str, int]]:
        result = run(kernel, trace, grid=700, block=128, shared_bytes=8192, threads=threads)
        return result.cycles, result.metrics, result.stalls

    alone = launch(1)
    monkeypatch.setattr(host_threads, "cores", lambda: 8)
    assert launch(5) == alone
    assert not helpers()


@pytest.mark.skipif(intrinsics.BOUNDSCHECK, reason="with checked indices one thread does all")
def test_helpers_leave_when_a_launch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, trace = busy_kernel()
    seen: list[int] = []

    def fail(*_: object, **__: object) -> None:
        seen.append(len(helpers()))
        raise RuntimeError("on the way")

    monkeypatch.setattr(host_threads, "cores", lambda: 3)
    monkeypatch.setattr(simulate, "advance", fail)
    with pytest.raises(RuntimeError, match="on the way"):
        run(kernel, trace, grid=700, block=128, shared_bytes=8192, threads=3)
    assert seen == [2]
    assert not helpers()


@pytest.mark.skipif(intrinsics.BOUNDSCHECK, reason="with checked indices one thread does all")
def test_a_helper_of_a_launch_in_which_no_phase_is_open_takes_no_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_threads, "cores", lambda: 2)
    state = initial_state(load_chip("h200"), LaunchSizes(128, 8, 8, 8, blocks=700))
    before = state.words.copy()
    with host_threads.helpers(state, np.zeros(8, np.int64), 2):
        time.sleep(0.05)
    changed = np.flatnonzero(before != state.words)
    assert set(changed) <= {state.areas["thread_phase"] + s.PHASE_LEAVE}


def test_threads_are_no_more_than_the_process_has_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_threads, "cores", lambda: 1)
    monkeypatch.setattr(windows.run_windows, "address", lambda part: pytest.fail("no helper is needed"), raising=False)
    state = initial_state(load_chip("h200"), LaunchSizes(128, 8, 8, 8, blocks=700))
    with host_threads.helpers(state, np.zeros(8, np.int64), 4):
        assert not helpers()

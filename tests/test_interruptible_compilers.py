"""Ctrl-C and time limits interrupt compiler libraries, which are asked to stop."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from warpwright.toolchain import nvrtc
from warpwright.toolchain.compile_errors import CompileError
from warpwright.toolchain.interruptible import Interruptible

SOURCE = "__global__ void k(float *x) { x[threadIdx.x] *= 2; }"


def test_the_result_and_the_errors_of_the_call_are_its_own() -> None:
    assert Interruptible(lambda gives_up: gives_up()).run() is False

    def fails(gives_up: object) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Interruptible(fails).run()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_interrupts_a_call_that_python_cannot() -> None:
    """The call stays in the library until it is asked to stop; the main thread is interrupted before that."""
    asked = threading.Event()

    def works(gives_up: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while not gives_up():  # type: ignore[operator]
            time.sleep(0.01)
        asked.set()

    with pytest.raises(KeyboardInterrupt):
        Interruptible(works).run()
    assert asked.is_set()


@pytest.mark.usefixtures("interruptible")
def test_a_call_that_does_not_give_up_is_abandoned() -> None:
    ends = threading.Event()

    def works(gives_up: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        ends.wait()

    with pytest.raises(KeyboardInterrupt):
        Interruptible(works).run()
    ends.set()


def test_other_threads_make_the_call_themselves() -> None:
    found: list[threading.Thread] = []
    made = threading.Thread(target=lambda: Interruptible(lambda _: found.append(threading.current_thread())).run())
    made.start()
    made.join()
    assert found == [made]


def test_nvrtc_gives_up_when_it_is_asked_to() -> None:
    given = (SOURCE, "80", "k.cu", ["--gpu-architecture=sm_80"], ())
    with pytest.raises(CompileError):
        nvrtc._compile(*given, lambda: True)
    assert nvrtc._compile(*given, lambda: False).cubin

"""The cycle model is compiled in a process of its own while the first command on a machine is prepared (``timing/compile_ahead.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warpwright.native import direct
from warpwright.native.intrinsics import BOUNDSCHECK
from warpwright.timing import SOURCES, compile_ahead, windows
from warpwright.toolchain.cache import default_cache

pytestmark = pytest.mark.skipif(BOUNDSCHECK, reason="checked indices are compiled without a cache")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a process would have been started with."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(compile_ahead, "_started", [])
    monkeypatch.setattr(subprocess, "Popen", lambda words, **how: calls.append({"words": words, **how}))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    return calls


def test_nothing_is_compiled_ahead_where_the_code_is_on_disk(
    started: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The key of ``begin``, which imports no part of the model, is the entry's own."""
    windows.run_windows.prepare()
    capsys.readouterr()
    assert not compile_ahead.begin()
    assert not started
    assert capsys.readouterr().err == ""


def test_an_empty_cache_starts_one_process(
    started: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", "cache")
    monkeypatch.chdir(tmp_path)
    assert compile_ahead.begin()
    (call,) = started
    assert call["words"] == [sys.executable, "-m", "warpwright.timing.compile_ahead"]
    assert call["env"]["WARPWRIGHT_CACHE"] == str(tmp_path / "cache")  # also from another working folder
    assert (call["cwd"] / "warpwright").is_dir()
    assert capsys.readouterr().err == "warpwright: compiling the cycle model, once on this machine …\n"


def test_one_core_compiles_when_it_must(started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", os.devnull)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert not compile_ahead.begin()
    assert not started


@pytest.mark.ci
def test_the_process_leaves_the_code_that_a_launch_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", str(tmp_path))
    subprocess.run([sys.executable, "-m", "warpwright.timing.compile_ahead"], check=True, capture_output=True)
    key = direct.code_key(compile_ahead.NAME, compile_ahead.FILE, SOURCES)
    assert default_cache().get(direct.KIND, key)

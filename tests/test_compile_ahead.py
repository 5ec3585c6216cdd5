"""The cycle model is compiled in a process of its own while the first command on a machine is prepared (``timing/compile_ahead.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warpwright.native import direct, tiered
from warpwright.native.intrinsics import BOUNDSCHECK
from warpwright.timing import compile_ahead, windows

pytestmark = pytest.mark.skipif(BOUNDSCHECK, reason="checked indices are compiled without a cache")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a process would have been started with."""
    calls: list[dict[str, Any]] = []

    class Process:
        def __init__(self, words: list[str], **how: Any) -> None:
            calls.append({"words": words, **how})

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    return calls


def test_nothing_is_compiled_ahead_where_the_code_is_on_disk(
    started: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key of ``begin``, which imports no part of the model, is the entry's own."""
    monkeypatch.setenv("WARPWRIGHT_CACHE", str(tmp_path))
    direct.default_cache().put(direct.KIND, windows.run_windows.key(), b"code")
    assert not compile_ahead.begin()
    assert not started
    assert capsys.readouterr().err == ""
    assert windows.run_windows.named() == compile_ahead.MODEL


def test_an_empty_cache_starts_one_process(
    started: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", "cache")
    monkeypatch.setenv("WARPWRIGHT_HOST_CLOCK", "simulated")
    monkeypatch.chdir(tmp_path)
    assert compile_ahead.begin()
    (call,) = started
    assert call["words"][0] == sys.executable
    assert call["words"][3:5] == ["warpwright.timing.windows", "run_windows"]
    assert call["words"][5:] == [str(handle) for handle in call["pass_fds"]]
    assert len(call["pass_fds"]) == 2  # the locks of both tiers
    assert call["env"]["WARPWRIGHT_CACHE"] == str(tmp_path / "cache")  # also from another working folder
    assert "WARPWRIGHT_HOST_CLOCK" not in call["env"]
    assert (call["cwd"] / "warpwright").is_dir()
    assert capsys.readouterr().err == "warpwright: compiling the cycle model, once on this machine …\n"


def test_one_core_compiles_when_it_must(started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", os.devnull)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert not compile_ahead.begin()
    assert not started


@pytest.mark.parametrize(
    ("variable", "value"), [("WARPWRIGHT_BACKGROUND", "0"), ("WARPWRIGHT_CACHE", f"{os.devnull}/x")]
)
def test_no_process_is_started_where_none_may_be_or_none_could_leave_its_code(
    started: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", str(tmp_path))  # where a process would be started otherwise
    monkeypatch.setenv(variable, value)
    assert not compile_ahead.begin()
    assert not started


@pytest.mark.ci
def test_both_tiers_give_the_key_of_their_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a launch leaves quick code, then optimised code, under keys that the entry looks up."""
    monkeypatch.setenv("WARPWRIGHT_CACHE", str(tmp_path))
    entry = windows.run_windows
    cache = direct.default_cache()
    claims = [cache.claim(direct.KIND, entry.key(tier)) for tier in (direct.FULL, direct.QUICK)]
    assert None not in claims
    monkeypatch.setattr(os, "nice", lambda by: by)
    monkeypatch.setattr(tiered, "object_code", lambda text, tier=direct.FULL: f"{tier} {len(text)}".encode())
    entry.compile_tiers(*claims)
    full, quick = (cache.get(direct.KIND, entry.key(tier)) for tier in (direct.FULL, direct.QUICK))
    assert full is not None
    assert quick is not None
    assert full.split()[0] == b"full"
    assert quick.split()[0] == b"quick"
    assert full.split()[1] == quick.split()[1]  # of one text
    assert int(full.split()[1]) > 1_000_000
    assert not list((tmp_path / "locks").iterdir())

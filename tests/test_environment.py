"""Invalid values of the variables ``WARPWRIGHT_…`` are refused wherever they are used; ``test_mig.py`` tests unmodified programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forked_programs import run_program
from warpwright import environment
from warpwright.engine.jit.named_cpu import check_cpu
from warpwright.environment import SettingError, setting
from warpwright.toolchain.cache import DiskCache


@pytest.mark.parametrize("text", [" 8 ", "0", "-1", "1.5", "٨", "eight"])
def test_a_whole_number_is_positive_and_in_digits(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_THREADS", text)
    with pytest.raises(SettingError) as error:
        setting("THREADS", environment.whole_number, None)
    assert (
        str(error.value) == f"WARPWRIGHT_THREADS={text} is not valid: use a positive whole number; correct or unset it"
    )


@pytest.mark.parametrize("text", ["nan", "inf", "0", "-2", "fast"])
def test_a_time_is_positive_and_finite(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_DEADLINE", text)
    with pytest.raises(SettingError, match="use a positive number of seconds"):
        setting("DEADLINE", environment.seconds, None)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_STORAGE_GB_PER_S", "")
    assert setting("STORAGE_GB_PER_S", environment.gb_per_s, 7.0) == 7.0
    monkeypatch.setenv("WARPWRIGHT_STORAGE_GB_PER_S", "2.5")
    assert setting("STORAGE_GB_PER_S", environment.gb_per_s, 7.0) == 2.5


def test_the_size_of_the_cache_is_refused_where_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE_MIB", "many")
    with pytest.raises(SettingError, match="WARPWRIGHT_CACHE_MIB=many is not valid: use a whole number of MiB"):
        DiskCache(tmp_path)


def test_a_processor_that_llvm_does_not_know_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match=r"LLVM knows no such processor .*; did you mean 'x86-64-v3'"):
        check_cpu("x86-64v3")
    with pytest.raises(ValueError, match="no code of this kind"):  # a processor without 64-bit code
        check_cpu("i386")
    assert check_cpu("x86-64-v3") == "x86-64-v3"
    assert [path.parent.parent.name for path in tmp_path.rglob("*") if path.is_file() and len(path.name) == 64] == [
        "cpu"
    ]


def test_a_program_of_ones_own_is_told_which_variable_is_wrong(tmp_path: Path) -> None:
    """LLVM itself would end the process."""
    program = """
import numpy as np
import warpwright as ww
x = np.ones(32, np.float32)
kernel = ww.GPU("a100", timing="off").compile('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }')["twice"]
try:
    kernel[4096, 32](x)
except ww.WarpwrightError as error:
    print(error)
"""
    done = run_program(program, {"WARPWRIGHT_CPU": "foo", "WARPWRIGHT_CACHE": str(tmp_path)})
    assert done.stdout.startswith("WARPWRIGHT_CPU=foo is not valid: LLVM knows no such processor"), done.stderr

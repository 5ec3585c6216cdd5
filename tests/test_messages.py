"""Lines that the simulator prints beside a program's output."""

from __future__ import annotations

import io

import pytest

from warpwright.messages import OncePerKernel, report, report_compiling


def test_reports_are_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    report("12 of 64 blocks")
    report_compiling("the checks")
    report_compiling("")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "warpwright: 12 of 64 blocks\nwarpwright: compiling the checks, once on this machine …\n"


def test_reports_go_to_a_given_stream(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    report("12 of 64 blocks", stream)
    assert stream.getvalue() == "warpwright: 12 of 64 blocks\n"
    assert capsys.readouterr().err == ""


def test_a_mistake_is_reported_once_per_kernel() -> None:
    told: list[str] = []
    mistake = OncePerKernel(told.append)
    mistake("sum", "the first launch")
    mistake("sum", "the second launch")
    mistake("copy", "another kernel")
    assert told == ["the first launch", "another kernel"]

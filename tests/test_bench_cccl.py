"""What CCCL's test programs print, read by ``bench.cccl``: cases that passed, failed, were skipped or never reached."""

from __future__ import annotations

from pathlib import Path

from bench.cccl import Catch2Program, Program, ThrustProgram, program_of, spread

CATCH2 = """<TestCase name="reduces&lt;int>" tags="[small-mem]" line="9">
  <OverallResult success="true" skips="0"/></TestCase>
<TestCase name="scans" line="30"><Expression success="false" type="REQUIRE" filename="a.cu" line="33">
  <Original> a == b </Original><Expanded>
  1 == 2
  </Expanded></Expression><OverallResult success="false" skips="0"/></TestCase>
<TestCase name="clusters" line="50"><OverallResult success="true" skips="1"/></TestCase>
<TestCase name="sorts" line="60">"""

THRUST = """Running 3 unit tests.
Running TestA...\r[PASS]       1.25 ms TestA
Running TestB<int>...\r[FAILURE]            TestB<int>
Running TestC...\r[KNOWN FAILURE]      TestC
================
FAILURE: TestB<int>
2 != 3
"""


def test_cases_of_catch2_are_read_from_xml_that_may_end_early() -> None:
    program = Catch2Program(Path("p"), False)
    assert program.results(CATCH2, 1) == {"reduces<int>": "", "scans": "line 33: 1 == 2", "clusters": "skipped"}


def test_remaining_cases_of_catch2_are_named_in_a_file(tmp_path: Path) -> None:
    program = Catch2Program(Path("p"), False)
    names = program.cases('"a, b"(0) - types\nlast\n')
    assert "--input-file" not in program.arguments(names, tmp_path)
    assert "--input-file" in program.arguments(names[:1], tmp_path)
    assert (tmp_path / "cases").read_text().startswith('\\"a, b\\"(0)')


def test_cases_of_thrust_are_read_line_by_line() -> None:
    results = ThrustProgram(Path("p"), False).results(THRUST, 1)
    assert results == {"TestA": "", "TestB<int>": "FAILURE: 2 != 3", "TestC": ""}


def test_a_program_of_one_case_fails_with_its_exit_code() -> None:
    program = Program(Path("p"), False)
    assert program.results("Testing on device:\n", 0) == {"p": ""}
    assert program.results("no\n", 1) == {"p": "exit 1: no"}
    assert program.results("no\n", None) == {}


def test_programs_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    for text, kind in (
        (b"Catch2 v3", Catch2Program),
        (b"--sizes={tiny", ThrustProgram),
        (b"Testing on device", Program),
    ):
        path = tmp_path / "program"
        path.write_bytes(b"\x7fELF libcudart.so.13 " + text)
        assert type(program_of(path)) is kind
    path.write_bytes(b"\x7fELF Testing on device")
    assert program_of(path) is None


def test_some_cases_are_spread_over_the_whole_list() -> None:
    names = [f"case {i}" for i in range(10)]
    assert spread(names, 4) == ["case 0", "case 2", "case 5", "case 7"]
    assert spread(names, None) == names == spread(names, 12)

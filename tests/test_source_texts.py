"""Messages, reports and the debugger quote the text that a kernel was compiled from, whatever a file of its name holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
extern "C" __global__ void far(float *x, int n)
{
    x[n] += 1;
}
"""
OTHER = "the first line\nthe second\nthe third\nanother program\n"


def fault(gpu: ww.GPU, name: str, n: int = 1 << 24) -> str:
    with pytest.raises(ww.MemoryFaultError) as caught:
        gpu.compile(SOURCE, name=name)["far"][1, 1](np.ones(1, np.float32), n)
    return str(caught.value)


@pytest.mark.parametrize("front_end", ["sass", "ptx"])
@pytest.mark.parametrize("name", ["far.cu", "folder/far.cu", "../far.cu"])
def test_a_file_of_the_same_name_hides_no_text(
    name: str, front_end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    (here / name).write_text(OTHER)
    # Neither where it is compiled nor where it is found in the cache.
    for folder in (here, tmp_path):
        monkeypatch.chdir(folder)
        assert f"{name}:4: x[n] += 1;" in fault(ww.GPU("a100", timing="off", front_end=front_end), name)


def test_the_report_and_the_debugger_quote_the_text_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "near.cu").write_text(OTHER)
    kernel = ww.GPU("a100").compile(SOURCE, name="near.cu")["far"]
    x = np.ones(1, np.float32)
    assert "x[n] += 1;" in {line.text.strip() for line in kernel[1, 1](x, 0).attribution().lines}
    with ww.debug(kernel[1, 1], x, 0) as session:
        assert "x[n] += 1;" in session.execute("list")
        assert "another program" not in session.execute("list 1,5")


def test_lines_that_the_text_gives_to_a_file_are_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.inc").write_text(OTHER)
    text = SOURCE.replace("    x[n]", '#line 4 "other.inc"\n    x[n]')
    with pytest.raises(ww.MemoryFaultError) as caught:
        ww.GPU("a100", timing="off").compile(text, name="own.cu")["far"][1, 1](np.ones(1, np.float32), 1 << 24)
    assert "other.inc:4: another program" in str(caught.value)

"""Arguments of the wrong type are refused in a sentence that names the argument and what it takes."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import warpwright as ww
from warpwright import checkpoint
from warpwright.cli import app
from warpwright.tools.debugger.expressions import ExpressionError, well_formed

SOURCE = 'extern "C" __global__ void add(float *x) { x[threadIdx.x] += 1; }'
WRONG: dict[str, Callable[[Any, Any], object]] = {
    r"set_aside\(size_bytes\) takes a whole number, not '3'": lambda gpu, _: gpu.set_aside("3"),
    r"set_aside\(size_bytes\) takes a whole number, not 1.5": lambda gpu, _: gpu.set_aside(1.5),
    r"AccessWindow\(address\), such as array.device_address, takes a whole number": lambda *_: ww.AccessWindow("x", 4, 0.5),  # type: ignore[arg-type]
    r"AccessWindow\(size_bytes\) takes a whole number, not None": lambda *_: ww.AccessWindow(1, None, 0.5),  # type: ignore[arg-type]
    r"AccessWindow\(hit_ratio\) takes a number between 0 and 1, not 'a'": lambda *_: ww.AccessWindow(1, 2, "a"),  # type: ignore[arg-type]
    r"AccessWindow\(hit\) takes one of AccessProperty.NORMAL": lambda *_: ww.AccessWindow(1, 2, 0.5, 9),  # type: ignore[arg-type]
    r"Checkpoints\(path\) takes the path of a file, not 3": lambda *_: checkpoint.Checkpoints(3),  # type: ignore[arg-type]
    r"Checkpoints\(every_cycles\) takes a whole number, not 'a'": lambda *_: checkpoint.Checkpoints("x", every_cycles="a"),  # type: ignore[arg-type]
    r"resume\(\) takes the path of a checkpoint file, not 3": lambda *_: checkpoint.resume(3),  # type: ignore[arg-type]
    r"faults.inject\(address\) takes a whole number": lambda gpu, _: gpu.faults.inject("dram", np.zeros(2), (1,)),
    r"faults.inject\(bits\) takes the numbers of the bits, such as \(3,\), not 3": lambda gpu, _: gpu.faults.inject("dram", 0, 3),
    r"baseline takes runs, or a file of warpwright run --json, not 3": lambda _, run: run.report("page.html", baseline=3),
}  # fmt: skip


@pytest.fixture(scope="module")
def ran() -> tuple[ww.GPU, ww.Run]:
    gpu = ww.GPU("a100")
    return gpu, gpu.compile(SOURCE)["add"][1, 32](np.zeros(32, np.float32))


@pytest.mark.parametrize("message", WRONG)
def test_arguments_of_the_wrong_type_are_refused_in_words(ran: tuple[ww.GPU, ww.Run], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        WRONG[message](*ran)


def test_a_zip_file_that_is_no_checkpoint_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", "b")
    with pytest.raises(
        checkpoint.CheckpointError, match=r"is a ZIP file but no checkpoint: gpu.checkpoints or"
    ) as caught:
        checkpoint.resume(path)
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize("condition", ["(", "x >", "x)", "a[3", "(a]", ""])
def test_a_condition_that_cannot_be_one_is_refused_before_a_thread_is_there(condition: str) -> None:
    with pytest.raises(ExpressionError, match=r"ends too early|is missing|closes nothing"):
        well_formed(condition)


@pytest.mark.parametrize("condition", ["threadIdx.x == 3", "*(float *)$R2 > 0.5", "a[i + 1] && !(b)", "-1"])
def test_conditions_that_can_be_one_are_taken(condition: str) -> None:
    well_formed(condition)


def test_replay_refuses_a_chip_without_graphics(tmp_path: Path) -> None:
    recording = tmp_path / "empty"
    recording.touch()
    done = CliRunner().invoke(app, ["replay", "--gpu", "a100", str(recording)])
    assert done.exit_code == 2
    assert "is not modelled: use g80, g80-ultra, fx5600 or g92" in " ".join(done.output.split())


def test_a_configuration_that_was_launched_is_known_and_an_equal_one_of_other_types_is_checked() -> None:
    gpu = ww.GPU("a100", timing="off")
    add = gpu.compile(SOURCE)["add"]
    x = gpu.zeros(32)
    assert add[1, 32] is add[1, 32]
    assert add[1, 32](x).instructions == add[(1,), (32,), 0](x).instructions
    assert x.get().tolist() == [2.0] * 32
    with pytest.raises(ww.LaunchError, match=r"grid is one to three positive integers, not 1\.0"):
        add[1.0, 32]  # equal to 1, and as a key the same
    with pytest.raises(ww.LaunchError, match="a block of 2,048 threads"):
        add[1, 2048]
    with pytest.raises(ww.LaunchError, match="a block of 2,048 threads"):
        add[1, 2048]

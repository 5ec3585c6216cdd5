"""Kernels of the kinds of 2007: right on G80 in both engines and with full timing, and where numbers are whole, equal on every chip."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.early.cases import SOURCE, early_case, early_names


def outputs(name: str, chip: str, **how: Any) -> dict[int, np.ndarray]:
    found = early_case(name)
    run, made = found.run(ww.GPU(chip, **how).compile(found.source))
    found.verify(made)
    bounds = run.timing.bounds if run.timing else {}
    assert all(run.cycles >= bound - 1e-6 for bound in bounds.values()), (name, chip, run.cycles, bounds)
    return made


def test_every_kernel_has_a_case() -> None:
    assert re.findall(r"__global__ void (\w+)\(", SOURCE.read_text(encoding="utf-8")) == early_names()


@pytest.mark.ci
@pytest.mark.parametrize("name", early_names())
def test_results_are_right_on_every_chip_and_whole_numbers_equal(name: str) -> None:
    reference = outputs(name, "p100", timing="off")
    for chip, how in (
        *(("g80", {"timing": "off"}), ("g80", {"timing": "full"}), ("gtx480", {"timing": "full"})),
        ("g80", {"timing": "off", "engine": "interpreter"}),
    ):
        made = outputs(name, chip, **how)
        for index, values in reference.items():
            if values.dtype.kind in "iu":
                np.testing.assert_array_equal(made[index], values, err_msg=f"{name} on {chip}")

"""How the cases of the hold-out set are written: as the validation set's, each in a full and in a small size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.validation.case import Array, Case, Outputs
from bench.validation.case import launch as launch_in
from tests.kernels.case import Argument

__all__ = ["Array", "Case", "Outputs", "Sized", "launch", "near", "sized"]

SOURCES = Path(__file__).parent


@dataclass(frozen=True)
class Sized:
    """A case's function and the extents to call it with."""

    make: Callable[..., Case]
    full: Mapping[str, Any]
    small: Mapping[str, Any]


def sized(make: Callable[..., Case], small: Mapping[str, Any], **full: Any) -> Sized:
    """``full`` is what a card is measured with; ``small`` replaces what the interpreter would run too long on."""
    return Sized(make, full, {**full, **small})


def launch(
    source: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Argument],
    expected: Mapping[int, Array] | None = None,
    **more: Any,
) -> Case:
    """A case of ``bench/holdout/<source>.cu``."""
    return launch_in(source, kernel, grid, block, args, expected, folder=SOURCES, **more)


def near(index: int, dtype: Any, want: Array, rtol: float, atol: float) -> Callable[[Outputs], None]:
    """A check of one buffer whose words hold numbers of a type that NumPy has no name for (bf16, fp8)."""

    def check(outputs: Outputs) -> None:
        got = np.asarray(outputs[index]).view(dtype).astype(np.float32)
        np.testing.assert_allclose(got.ravel(), want.ravel(), rtol=rtol, atol=atol, err_msg=f"argument {index}")

    return check

"""TMA rounds floats to TF32 by maps of that type, and flushes none, as on an H200 (``python -m bench.machine.tensor_map_types``)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.device import open_device
from bench.machine import tensor_map_types
from warpwright.toolchain import compile_source

BENCH = Path(__file__).parents[1] / "bench"
CARD = json.loads((BENCH / "data" / "h200" / "tensor_map_types.json").read_text())["rows"]


@pytest.mark.ci
def test_what_maps_of_float_types_load() -> None:
    source = (BENCH / "machine" / "tensor_map_types.cu").read_text()
    found = tensor_map_types.measure(open_device("model", "h200"), compile_source(source, 90).cubin)
    for name in tensor_map_types.TYPES:
        np.testing.assert_array_equal(np.array(found[name], np.uint32), np.array(CARD[name], np.uint32), name)

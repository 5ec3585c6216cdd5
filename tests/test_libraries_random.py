"""cuRAND of this package, called as C programs call it: its numbers are those that NVIDIA's library made on an H200, bit for bit."""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.library_calls import Array, Device, Library

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
CASES = json.loads((Path(__file__).parent / "data" / "curand_h200.json").read_text())["cases"]
"""SHA-1 of the numbers of each call, of libcurand 10.4.0."""
TYPES = {"xorwow": 101, "mrg": 121, "philox": 161}
ORDERINGS = {"best": 100, "legacy": 103}
SOBOL32, TYPE_ERROR, OUT_OF_RANGE, LENGTH_NOT_MULTIPLE = 201, 103, 104, 105


@pytest.fixture(scope="module")
def random(memory: Device) -> Library:
    return Library("libcurand.so.10")


def generator(random: Library, kind: int, on_host: bool = False) -> int:
    place = ctypes.c_uint64()
    random(f"curandCreateGenerator{'Host' if on_host else ''}", ctypes.byref(place), kind)
    return place.value


def element(numbers: str) -> Any:
    return np.uint64 if "Double" in numbers else np.uint32


def generate(random: Library, number: int, numbers: str, place: Any, count: int, parameters: list[float]) -> None:
    real = ctypes.c_double if "Double" in numbers else ctypes.c_float
    name = "curandGenerate" + ("" if numbers == "Int" else numbers)
    random(name, number, place, count, *(real(value) for value in parameters))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("numbers", sorted({case["numbers"] for case in CASES}))
def test_numbers_are_those_of_a_card(memory: Device, random: Library, kind: str, numbers: str) -> None:
    """Seeds of one and two words, offsets, orderings, and calls that go on where the one before ended."""
    cases = [case for case in CASES if (case["generator"], case["numbers"]) == (kind, numbers)]
    assert cases
    for case in cases:
        number = generator(random, TYPES[kind])
        if case["order"]:
            random("curandSetGeneratorOrdering", number, ORDERINGS[case["order"]])
        if case["seed"] is not None:
            random("curandSetPseudoRandomGeneratorSeed", number, case["seed"])
        if case["offset"] is not None:
            random("curandSetGeneratorOffset", number, case["offset"])
        for expected in case["sha1"]:
            place = memory.put(np.zeros(case["count"], element(numbers)))
            generate(random, number, numbers, place, case["count"], case["parameters"])
            found: Array = memory.get(place, element(numbers), (case["count"],))
            assert hashlib.sha1(found.tobytes()).hexdigest() == expected, case
        random("curandDestroyGenerator", number)
        memory.free()


def test_a_host_generator_writes_host_memory(memory: Device, random: Library) -> None:
    count = 5
    both = []
    for on_host in (False, True):
        number = generator(random, TYPES["philox"], on_host)
        here = np.zeros(count, np.uint32)
        place = here if on_host else memory.put(here)
        generate(random, number, "Int", place, count, [])
        both.append(here.tolist() if on_host else memory.get(place, np.uint32, (count,)).tolist())
        random("curandDestroyGenerator", number)
    assert both[0] == both[1]
    assert len(set(both[0])) == count


def test_what_is_refused(random: Library, capfd: pytest.CaptureFixture[str]) -> None:
    place = ctypes.c_uint64()
    assert random.raw("curandCreateGenerator", ctypes.byref(place), SOBOL32) == TYPE_ERROR
    assert "generators of Sobol32 are not provided" in capfd.readouterr().err
    number = generator(random, TYPES["xorwow"])
    assert random.raw("curandSetGeneratorOrdering", number, 99) == OUT_OF_RANGE
    odd = random.raw("curandGenerateNormal", number, 0, 3, ctypes.c_float(0), ctypes.c_float(1))
    assert odd == LENGTH_NOT_MULTIPLE
    assert random.raw("curandGeneratePoisson", number, 0, 3, ctypes.c_double(1)) == TYPE_ERROR
    assert "curandGeneratePoisson is not provided" in capfd.readouterr().err
    random("curandDestroyGenerator", number)

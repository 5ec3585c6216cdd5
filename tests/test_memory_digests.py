"""Digests of memory and of states tell contents apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwright.engine.memory_digests import ROW_BYTES, digest
from warpwright.timing import state_digests


@pytest.mark.parametrize("size", [0, 1, 255, ROW_BYTES, 1000, 5 * ROW_BYTES, 5 * ROW_BYTES + 3])
def test_equal_memory_has_one_digest_and_other_memory_another(size: int) -> None:
    rng = np.random.default_rng(size)
    memory = rng.integers(0, 256, size, np.uint8)
    first = digest(memory)
    assert digest(memory.copy()) == first
    for place in rng.integers(0, size, 20) if size else ():
        other = memory.copy()
        other[place] ^= 1 << rng.integers(0, 8)
        assert digest(other) != first


@pytest.mark.parametrize("bit", [0, 31, 62, 63])
def test_changes_of_one_bit_in_two_words_do_not_cancel(bit: int) -> None:
    """Signs that change a row apart, say."""
    words = np.zeros(40 * ROW_BYTES // 8, np.uint64)
    first = digest(words.view(np.uint8))
    for apart in (ROW_BYTES // 8, 2 * ROW_BYTES // 8, 7 * ROW_BYTES // 8, 5):
        other = words.copy()
        other[[3, 3 + apart]] ^= np.uint64(1 << bit)
        assert digest(other.view(np.uint8)) != first


def test_order_matters() -> None:
    words = np.arange(4 * ROW_BYTES // 8, dtype=np.uint64)
    swapped = words.reshape(4, -1)[[1, 0, 2, 3]].reshape(-1).copy()
    assert digest(words.view(np.uint8)) != digest(swapped.view(np.uint8))


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32))
def test_digests_of_states_are_those_that_numpy_computes(words: int, states: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    memory = random.integers(-(1 << 63), 1 << 63, 200, np.int64)
    rows, places = random.integers(0, 100, states), random.integers(0, 100, words)
    mixed = memory[rows[:, None] + places].view(np.uint64)
    mixed = (mixed ^ mixed >> np.uint64(32)) * state_digests.factors_of(words).view(np.uint64)
    expected = (mixed ^ mixed >> np.uint64(29)).sum(axis=1, dtype=np.uint64)
    assert (state_digests.digests_of(memory, rows, places).view(np.uint64) == expected).all()


def test_a_state_s_digest_depends_on_each_of_its_words() -> None:
    memory, places = np.arange(50, dtype=np.int64), np.arange(40)
    before = int(state_digests.digests_of(memory, np.array([5]), places)[0])
    for word in range(50):
        memory[word] += 1
        changed = int(state_digests.digests_of(memory, np.array([5]), places)[0]) != before
        assert changed == (5 <= word < 45)
        memory[word] -= 1

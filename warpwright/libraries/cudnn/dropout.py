"""Dropout descriptors of cuDNN, for the layers of recurrent networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.driver_state import state
from warpwright.libraries.calls import entry
from warpwright.libraries.cudnn.handles import add, found

_STATES_BYTES = 1024
"""Nothing is kept in the states' memory: its address names the sequence of numbers."""
_STEP = 0x9E3779B97F4A7C15


@dataclass(eq=False)
class Sequence:
    """A sequence of random numbers: its seed, and how many calls have used it."""

    seed: int
    calls: int = 0


@dataclass(eq=False)
class Dropout:
    """A dropout descriptor."""

    of_null: ClassVar[int] = 0
    probability: float = 0.0
    sequence: Sequence | None = None

    def next_seed(self) -> int:
        """The seed of the next call's numbers."""
        sequence = self.sequence or Sequence(0)
        sequence.calls += 1
        return (sequence.seed * 0xD1342543DE82EF95 + sequence.calls * _STEP) & (1 << 64) - 1


_sequences: dict[int, Sequence] = {}


@entry("cudnnCreateDropoutDescriptor")
def create(place: int) -> None:
    add(place, Dropout())


@entry("cudnnDestroyDropoutDescriptor")
def destroy(number: int) -> None:
    state().handles.drop(number)


@entry("cudnnDropoutGetStatesSize")
def states_size(number: int, place: int) -> None:
    cmemory.put64(place, _STATES_BYTES)


@entry("cudnnSetDropoutDescriptor")
def set_dropout(number: int, handle: int, probability: float, states: int, size: int, seed: int) -> None:
    dropout = found(Dropout, number)
    dropout.probability = probability
    if states:
        dropout.sequence = _sequences[states] = Sequence(seed)


@entry("cudnnRestoreDropoutDescriptor")
def restore_dropout(number: int, handle: int, probability: float, states: int, size: int, seed: int) -> None:
    dropout = found(Dropout, number)
    dropout.probability = probability
    dropout.sequence = _sequences.setdefault(states, Sequence(seed)) if states else None

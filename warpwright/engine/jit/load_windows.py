"""Groups the loads of a basic block: bases and strides of addresses, shared checks, windows of neighbouring bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple


class Sum(NamedTuple):
    """A scalar address as another value, a constant and some strides: ``root + step + times * stride``."""

    root: str
    step: int = 0
    stride: str = ""
    """An LLVM value, or nothing."""
    times: int = 0


@dataclass(slots=True)
class Window:
    """Neighbouring bytes that loads of one basic block have asked for together, and those some strides after them."""

    MOST_STRIDES: ClassVar[int] = 16
    """Windows that are asked for together."""

    pointers: dict[int, str]
    """Host pointers of the first load's bytes, or their copy, and of what is so many strides after them."""
    stride: str
    """Bytes between windows (an LLVM value), or nothing where there is but one."""
    start: int
    """Where the first load's bytes begin, relative to what the loads' addresses have in common."""
    times: int
    """The strides in its address."""
    last: int
    """Number of the latest access."""
    room: int = 0
    """Place of the first copy in the scratch memory, once several loads share it."""

    @property
    def rooms(self) -> int:
        """Windows that their copies take."""
        return self.MOST_STRIDES if self.stride else 1


@dataclass(slots=True)
class AccessGroup:
    """Loads of one basic block from one base: one check covers them, written before all of them are known."""

    number: int
    block: int
    stride: str
    """As in :class:`Sum`."""
    low: int
    high: int
    """Bytes touched, relative to the base."""
    least: int = 0
    most: int = 0
    """Multiples of the stride between the base and the accesses."""
    site: int = -1
    fine: str = ""

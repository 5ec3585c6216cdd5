"""Groups the loads of a basic block: bases and strides of addresses, shared checks, windows of neighbouring bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple


class Sum(NamedTuple):
    """A scalar address as another value, a constant and some strides: ``root + step + times * stride``."""

    root: str
    step: int = 0
    stride: str = ""
    """An LLVM value, or empty."""
    times: int = 0


@dataclass(slots=True)
class Window:
    """Neighbouring bytes that loads of one basic block request together, and those some strides after them."""

    MOST_STRIDES: ClassVar[int] = 16
    """Windows that are requested together."""

    pointers: dict[int, str]
    """Host pointers of the first load's bytes, or of their copy, and of the bytes that many strides after them."""
    stride: str
    """Bytes between windows (an LLVM value); empty if there is only one."""
    start: int
    """Start of the first load's bytes, relative to the common part of the loads' addresses."""
    times: int
    """Number of strides in its address."""
    last: int
    """Number of the latest access."""
    room: int = 0
    """Offset of the first copy in the scratch memory, once several loads share it."""

    @property
    def rooms(self) -> int:
        """Number of windows that their copies take."""
        return self.MOST_STRIDES if self.stride else 1


@dataclass(slots=True)
class AccessGroup:
    """Loads of one basic block with a common base: one check covers them, written before all of them are known."""

    number: int
    block: int
    stride: str
    """As in :class:`Sum`."""
    low: int
    high: int
    """Bytes accessed, relative to the base."""
    least: int = 0
    most: int = 0
    """Multiples of the stride between the base and the accesses."""
    site: int = -1
    fine: str = ""

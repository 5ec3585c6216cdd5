"""Reuses the memory of a finished launch for the next one.

A launch on an H200 needs about 200 MB.  Fresh memory needs a page fault and a cleared page wherever it is touched, which takes a
fifth of the time of a kernel of a million warp instructions.  A finished launch therefore leaves its arrays here, one of each kind, and the next one
takes them if they are large enough.
"""

from __future__ import annotations

import contextlib
import os

import numpy as np
import numpy.typing as npt

from warpwright.errors import LaunchError

LINE_WORDS = 8
KEPT_BYTES = 512 << 20
"""Larger arrays are not kept."""
_kept: dict[str, tuple[npt.NDArray[np.int64], range]] = {}


def _zeros(words: int) -> npt.NDArray[np.int64]:
    """Fresh words; raises an error if the host does not have that much memory."""
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None
    if host is None or 8 * words <= host:
        with contextlib.suppress(MemoryError):
            return np.zeros(words, np.int64)
    has = "this machine does not have" if host is None else f"this machine has {host / 2**30:.1f}"
    raise LaunchError(
        f"timing this launch takes {8 * words / 2**30:.1f} GiB of memory, {has}: use a chip with fewer SMs, L2 slices or "
        'lines, or timing="off"'
    )


def take(kind: str, count: int) -> tuple[npt.NDArray[np.int64], range]:
    """``count`` words that begin at a cache line of the host, and which of them are known to be zero; the others are arbitrary."""
    whole, zeros = _kept.pop(kind, (None, range(0)))
    if whole is None or len(whole) < count + LINE_WORDS:
        # Room for a somewhat larger launch: fresh pages cost more than the launch of a small kernel, untouched ones nothing.
        room = 1 << (count + LINE_WORDS - 1).bit_length()
        room = room if 8 * room <= KEPT_BYTES else count + LINE_WORDS
        whole, zeros = _zeros(room), range(count)
    first = -(whole.ctypes.data // 8) % LINE_WORDS
    return whole[first : first + count], zeros


def aligned(count: int) -> npt.NDArray[np.int64]:
    """``count`` zero words that begin at a cache line of the host and are not returned."""
    whole = np.zeros(count + LINE_WORDS, np.int64)
    first = -(whole.ctypes.data // 8) % LINE_WORDS
    return whole[first : first + count]


def all_zero(zeros: range, count: int) -> bool:
    """Whether the first ``count`` words are among those that are known to be zero."""
    return zeros.start == 0 and zeros.stop >= count


def take_zeros(kind: str, count: int) -> npt.NDArray[np.int64]:
    """Like ``take``, with all words zero."""
    words, zeros = take(kind, count)
    if not all_zero(zeros, count):
        words.fill(0)
    return words


def give_back(kind: str, words: npt.NDArray[np.int64], zeros: range = range(0)) -> None:
    """Return an array from ``take`` for reuse, with the range of words that are zero; the caller must not use it any more."""
    whole = words.base
    if isinstance(whole, np.ndarray) and whole.nbytes <= KEPT_BYTES:
        _kept[kind] = whole, zeros

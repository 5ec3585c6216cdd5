"""Options of a GPU: its chip, timing, caches, engine and policies, and which of them exclude each other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from warpwright.chips import Chip
from warpwright.chips.chip import fields as chip_fields
from warpwright.errors import UnsupportedError
from warpwright.isa.machine_code import FIRST_FERMI, FIRST_MAXWELL
from warpwright.session import session
from warpwright.timing import policies

DEFAULT_CHIP = "h200"
MEMORY_FAULTS = ("allocation", "page")
TIMINGS = ("full", "sampled", "off")
CACHES = ("cold", "kept")
ENGINES = ("compiled", "tiered", "interpreter")
FRONT_ENDS = ("sass", "ptx")


def front_end_of(chip: Chip, front_end: str | None, check: str | Sequence[str]) -> str:
    """The front end for a chip's programs: machine code, or PTX if no compiler exists; refuses options that early chips lack."""
    if front_end not in (None, *FRONT_ENDS):
        raise UnsupportedError(f"front_end={front_end!r} is not known; use front_end='sass' or front_end='ptx'")
    if chip.arch >= FIRST_MAXWELL:
        return front_end or "sass"
    own = "ptx" if chip.arch >= FIRST_FERMI else "sass"
    if front_end not in (None, own):
        runs = "PTX" if own == "ptx" else "machine code"
        raise UnsupportedError(f"{chip.name} runs {runs} only, not front_end={front_end!r}: omit front_end")
    if check:
        raise UnsupportedError(f"{chip.name} has no checks: omit check (--check), or check on a chip from p100 to h200")
    return own


def chip_asked_for(chip: str | os.PathLike[str] | Chip | None, device: int | None) -> str | Chip:
    """The chip of ``--gpu``, which replaces a program's own but not a device's of the driver; otherwise the program's, or the default."""
    if session.chip is not None and device is None:
        if chip is not None and str(getattr(chip, "name", chip)) != session.chip:
            session.replaced.add(str(getattr(chip, "name", chip)))
        return session.chip
    if chip is None:
        return DEFAULT_CHIP
    return chip if isinstance(chip, str | Chip) else os.fspath(chip)


def check_choices(timing: str, engine: str, threads: int | None, caches: str | None) -> None:
    """Refuse unknown values of :class:`GPU`'s arguments, and values that exclude each other."""
    if timing not in TIMINGS:
        raise UnsupportedError(f"timing={timing!r} is not known; use timing='full', timing='sampled' or timing='off'")
    if engine not in ENGINES:
        raise UnsupportedError(f"engine={engine!r} is not known; use engine='compiled', 'tiered' or 'interpreter'")
    if engine == "interpreter" and timing != "off":
        raise UnsupportedError("the interpreter has no timing; use timing='off' with engine='interpreter'")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise UnsupportedError(f"threads={threads!r}: must be a positive number of host threads, or None")
    if caches not in (None, *CACHES):
        raise UnsupportedError(f"caches={caches!r} is not known; use caches='cold' or caches='kept'")


def faults_by_page(memory_faults: str, check: str | Sequence[str]) -> bool:
    """Whether accesses fault by page; refuses unknown values, and checks, which report every access outside its allocation."""
    if memory_faults not in MEMORY_FAULTS:
        raise UnsupportedError(
            f"memory_faults={memory_faults!r} is not known; use memory_faults='allocation' or memory_faults='page'"
        )
    if memory_faults == "page" and check:
        raise UnsupportedError(
            "checks report every access outside its allocation: omit memory_faults='page', or the checks"
        )
    return memory_faults == "page"


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """What few programs choose of a :class:`GPU`; each field is also a keyword of ``GPU``."""

    engine: str = "compiled"
    """``"compiled"`` (LLVM code for whole warps), ``"tiered"`` (the same, but small launches of a kernel without compiled code are
    interpreted; timing="off" only) or ``"interpreter"`` (the NumPy reference, timing="off" only: slow, and independent of the compiler)."""
    front_end: str | None = None
    """``"sass"`` runs machine code, ``"ptx"`` the PTX that it is made from, timed by a scoreboard.  The default is machine code, and PTX on
    ``gtx480``, for which there is no compiler."""
    scheduler: str | policies.Scheduler = policies.SCHEDULER.own
    """The warp scheduler: a name in ``timing.policies``, or a function of the same form."""
    l1_replacement: str | policies.Replacement = policies.L1_REPLACEMENT.own
    """L1's replacement policy: likewise."""
    check_level: str | None = None
    """Lowest level of findings that is reported: ``"info"``, ``"warning"`` (the default) or ``"error"``."""
    unified: bool = False
    """Device addresses equal host addresses, as unmodified CUDA programs expect of managed memory."""
    device: int | None = None
    """Number of the device in the drop-in driver, which selects its address range (with ``unified``) and its entry in ``--gpu``."""
    memory_faults: str = "allocation"
    """``"allocation"``: an access outside its allocation fails; ``"page"``: as on a card, it fails only if it leaves the mapped pages of 2 MiB, in which
    allocations are placed as a card's driver places them; otherwise a warning reports it.  ``warpwright run --memory-faults`` overrides it."""


def options_and_overrides(options: GpuOptions | None, changes: Mapping[str, Any]) -> tuple[GpuOptions, dict[str, Any]]:
    """Split the keywords of :class:`GPU` into its options and values of chip numbers.

    Raises:
        TypeError: ``options`` is not a record, or a keyword is neither, but similar to one of ``GPU``.
    """
    if not isinstance(options, GpuOptions | None):
        raise TypeError(f"GPU(options=...) takes a ww.GpuOptions, not {options!r}")
    names = [field.name for field in fields(GpuOptions)]
    for name in changes:
        near = get_close_matches(name, ["timing", "threads", "check", "caches", *names], 1, 0.8)
        if name not in names and name not in chip_fields() and near:
            raise TypeError(f"GPU() has no argument {name!r}: did you mean {near[0]}?")
    given = {name: value for name, value in changes.items() if name in names}
    overrides = {name: value for name, value in changes.items() if name not in names}
    return replace(options or GpuOptions(), **given), overrides

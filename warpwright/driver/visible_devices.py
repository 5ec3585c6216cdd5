"""Which devices a process sees: ``CUDA_VISIBLE_DEVICES``, MIG devices, and the SMs that MPS gives it.

``CUDA_VISIBLE_DEVICES`` (CUDA C++ Programming Guide, "CUDA Environment Variables") lists the visible cards, in their order, by index or by UUID or a prefix of it.
An entry that names no card hides itself and all after it.  How the driver reads the entries was measured on an H200 with 143 values (``bench/data/h200/visible_devices.json``,
``bench.machine.visible_devices``): the first entry decides whether all are indices or UUIDs, and if a card is named twice, ``cuInit`` returns CUDA_ERROR_INVALID_DEVICE.

A process sees at most one MIG device (MIG User Guide, "CUDA Visible Devices"): the one that it names, or the first one of a card in MIG mode.
``CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`` limits the SMs of an MPS client, whose device then reports that many (MPS documentation, "Volta MPS Execution Resource
Provisioning"); here it limits the process's own device, rounded up to whole TPCs.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from warpwright.chips import Chip, load_chip, partition
from warpwright.chips.mig import MigError, has_mig
from warpwright.driver.cuda_error import say
from warpwright.gpu_options import DEFAULT_CHIP
from warpwright.system.mig import ComputeInstance, GpuInstance, MigCard, card, card_uuid, place

VISIBLE = "CUDA_VISIBLE_DEVICES"
PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
FIRST_MPS_ARCH = 70
"""Volta; earlier chips do not divide SMs among clients by percentage."""
TPC_SMS = 2
UUID_DIGITS = 32
"""Hexadecimal digits of a UUID."""


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A compute instance as a CUDA device."""

    card: MigCard
    ordinal: int
    """Of the card."""
    gpu: GpuInstance
    compute: ComputeInstance

    @property
    def uuid(self) -> str:
        """``MIG-…``."""
        return self.card.device_uuid(self.gpu, self.compute)

    @property
    def chip(self) -> Chip:
        """Its SMs with the memory system of its GPU instance."""
        return self.gpu.chip(self.card.chip, self.compute)

    @property
    def name(self) -> str:
        """As the driver names it."""
        return f"{self.card.chip.identity.product} MIG {self.gpu.name_of(self.compute)}"


def _cards(chips: Sequence[str | None]) -> list[tuple[int, MigCard]]:
    """The cards that have MIG mode, with their indices."""
    found = []
    for ordinal, name in enumerate(chips):
        chip = load_chip(name or DEFAULT_CHIP)
        if has_mig(chip):
            found.append((ordinal, card(chip, ordinal)))
    return found


class NamedTwiceError(MigError):
    """A list names a card twice; ``cuInit`` returns CUDA_ERROR_INVALID_DEVICE."""


def _index(entry: str) -> int:
    """The index that an entry begins with, as C's ``strtol`` reads it, cut to 32 bits; -1 if there is none."""
    digits = re.match(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", entry)
    if digits is None:
        return -1
    value = min(max(int(digits[1]), -(1 << 63)), (1 << 63) - 1)
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _names(entry: str, uuid: str) -> bool:
    """Whether an entry is a card's UUID or a prefix of it: hexadecimal digits in either case after ``GPU-``, dashes left out; what follows a whole UUID does not count."""
    if not entry.startswith("GPU-"):
        return False
    digits = entry.removeprefix("GPU-").replace("-", "").lower()[:UUID_DIGITS]
    return digits != "" and uuid.removeprefix("GPU-").replace("-", "").startswith(digits)


def visible_cards(chips: Sequence[str | None]) -> list[int]:
    """Indices of the cards that the process sees, in the order in which it counts them; all of them if it names a MIG device.

    Raises:
        NamedTwiceError: it names a card twice.
        MigError: it sees none.
    """
    text = os.environ.get(VISIBLE)
    if text is None:
        return list(range(len(chips)))
    if text.startswith("MIG-"):
        card_itself = _undivided(text.split(",")[0], chips)
        return list(range(len(chips))) if card_itself is None else [card_itself]
    entries = text.split(",")
    by_uuid = entries[0].startswith("GPU-")
    uuids = _uuids(chips) if by_uuid else []
    found: list[int] = []
    for entry in entries:
        if by_uuid:
            named = [i for i, uuid in enumerate(uuids) if _names(entry, uuid)]
        else:
            named = [index for index in (_index(entry),) if 0 <= index < len(chips)]
        if len(named) != 1:
            break
        if named[0] in found:
            raise NamedTwiceError(f"{VISIBLE}={text} names a device twice, so the program sees no device", 0)
        found += named
    if not found:
        there = "has only device 0" if len(chips) == 1 else f"has devices 0 to {len(chips) - 1}"
        raise MigError(f"{VISIBLE}={text} hides every device; the machine {there}", 0)
    return found


def _undivided(entry: str, chips: Sequence[str | None]) -> int | None:
    """The card that an entry names as if it were an instance, by its own UUID after ``MIG-``, if it is not in MIG mode."""
    enabled = {ordinal for ordinal, one in _cards(chips) if one.enabled} if place().exists() else set()
    called = {uuid.removeprefix("GPU-"): index for index, uuid in enumerate(_uuids(chips)) if index not in enabled}
    return called.get(entry.removeprefix("MIG-"))


def _uuids(chips: Sequence[str | None]) -> list[str]:
    return [card_uuid(load_chip(name or DEFAULT_CHIP).name, index) for index, name in enumerate(chips)]


def mig_device(chips: Sequence[str | None], visible: Sequence[int] = (0,)) -> MigDevice | None:
    """The MIG device that the process sees; None if it sees whole cards.

    Args:
        visible: indices of the cards that it sees, if it names no MIG device.

    Raises:
        MigError: the process names a MIG device that does not exist, or a card in MIG mode has none.
    """
    named = os.environ.get(VISIBLE, "").split(",")[0]
    if named.startswith("MIG-") and _undivided(named, chips) is not None:
        return None
    if not named.startswith("MIG-"):
        if not place().exists():
            return None
        first = next(((ordinal, one) for ordinal, one in _cards(chips) if ordinal == visible[0] and one.enabled), None)
        if first is None:
            return None
        devices = first[1].devices()
        if not devices:
            raise MigError("the card is in MIG mode and has no compute instances: warpwright mig create", 0)
        return MigDevice(first[1], first[0], *devices[0])
    reasons = []
    for ordinal, one in _cards(chips):
        try:
            return MigDevice(one, ordinal, *one.find(named))
        except MigError as error:
            reasons.append(str(error))
    raise MigError(f"{VISIBLE}={named}: {'; '.join(reasons) or 'no card has MIG mode'}", 0)


def share_percent() -> float | None:
    """The percentage of each chip's SMs that MPS gives the process; None if the environment does not say.

    Raises:
        ValueError: the text is not a valid percentage.
    """
    text = os.environ.get(PERCENTAGE, "").strip()
    if not text:
        return None
    try:
        percentage = float(text)
    except ValueError:
        percentage = 0.0
    if not 0 < percentage <= 100:
        raise ValueError(f"{PERCENTAGE}={text} is not a percentage above 0 and up to 100: correct or unset it")
    return percentage


def provisioned(chip: Chip) -> Chip:
    """The part of a chip that MPS gives the process.

    Raises:
        ValueError: the text is not a valid percentage.
    """
    percentage = share_percent()
    if percentage is None:
        return chip
    if chip.arch < FIRST_MPS_ARCH:
        say(f"{PERCENTAGE} has no effect on {chip.name}: MPS limits SMs from Volta on")
        return chip
    wanted = math.ceil(chip.sm.sm_count * percentage / 100)
    sms = min(chip.sm.sm_count, -(-wanted // TPC_SMS) * TPC_SMS)
    return partition(chip, range(sms)).chip if sms < chip.sm.sm_count else chip

"""The MIG instances of a card: listing, creating and destroying them by the driver's rules, and the file that stores
them between processes.

A GPU instance holds memory slices, a compute instance holds compute slices of one.  Rules and result codes are NVML's (NVML API Reference, "Multi Instance
GPU Management"); IDs are those that an A100's driver gives, by size and place.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warpwright.chips.chip import Chip
from warpwright.chips.mig import (
    COMPUTE_SLICES,
    IN_USE,
    INSUFFICIENT_RESOURCES,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    SMS_PER_SLICE,
    ComputeProfile,
    MigError,
    Placement,
    Profile,
    compute_profiles,
    free_placements,
    has_mig,
    instance_chip,
    profile_of,
)
from warpwright.chips.partition import Partition, partition
from warpwright.toolchain.cache import default_folder

VARIABLE = "WARPWRIGHT_MIG"
"""Environment variable with the file that stores the instances; by default ``mig.json`` in the cache."""
_FIRST_ID = {8: (0, 8), 4: (1, 4), 2: (3, 2), 1: (7, 1)}
"""By memory slices: ID of the instance that begins first, and slices from one to the next."""


@dataclass(slots=True)
class ComputeInstance:
    """Some compute slices of a GPU instance."""

    number: int
    slices: int
    start: int

    @property
    def placement(self) -> Placement:
        """Its compute slices."""
        return Placement(self.start, self.slices)


@dataclass(slots=True)
class GpuInstance:
    """Some memory slices of a card, with compute slices."""

    number: int
    profile_name: str
    start: int
    compute: list[ComputeInstance] = field(default_factory=list)

    @property
    def profile(self) -> Profile:
        """Its kind."""
        return profile_of(self.profile_name)

    @property
    def placement(self) -> Placement:
        """Its memory slices."""
        return Placement(self.start, self.profile.memory_slices)

    def compute_profile(self, slices: int) -> ComputeProfile:
        """The kind of compute instance with so many slices.

        Raises:
            MigError: if the instance can have no such compute instance.
        """
        for one in compute_profiles(self.profile):
            if one.slices == slices:
                return one
        raise MigError(f"a {self.profile_name} instance has no compute instances of {slices} slices", NOT_SUPPORTED)

    def free_compute(self, kind: ComputeProfile) -> list[Placement]:
        """Placements for one more compute instance."""
        places = [Placement(start, kind.slices) for start in kind.starts]
        return [place for place in places if not any(place.overlaps(one.placement) for one in self.compute)]

    def create_compute(self, slices: int | None = None, start: int | None = None) -> ComputeInstance:
        """Create a compute instance; by default of all slices, at the first free placement.

        Raises:
            MigError: if there is no room, or no such placement.
        """
        kind = self.compute_profile(self.profile.compute_slices if slices is None else slices)
        free = self.free_compute(kind)
        if start is not None and start not in kind.starts:
            raise MigError(
                f"a compute instance of {kind.slices} slices begins at {kind.starts}, not at {start}", INVALID_ARGUMENT
            )
        chosen = next((place for place in free if start in (None, place.start)), None)
        if chosen is None:
            raise MigError(
                f"GPU instance {self.number} has no room for a compute instance of {kind.slices} slices",
                INSUFFICIENT_RESOURCES,
            )
        made = ComputeInstance(
            next(n for n in range(COMPUTE_SLICES) if n not in {one.number for one in self.compute}),
            kind.slices,
            chosen.start,
        )
        self.compute.append(made)
        return made

    def compute_instance(self, number: int) -> ComputeInstance:
        """A compute instance by its ID.

        Raises:
            MigError: there is none.
        """
        for one in self.compute:
            if one.number == number:
                return one
        raise MigError(f"GPU instance {self.number} has no compute instance {number}", NOT_FOUND)

    def name_of(self, compute: ComputeInstance) -> str:
        """Name of a MIG device as in nvidia-smi: ``3g.20gb``, or ``1c.3g.20gb`` for a part of it."""
        whole = compute.slices == self.profile.compute_slices
        return self.profile_name if whole else f"{compute.slices}c.{self.profile_name}"

    def chip(self, card: Chip, compute: ComputeInstance | None = None) -> Chip:
        """The instance as a separate chip; with only the SMs of one of its compute instances if one is given."""
        part = self.sms(card, compute)
        return part.chip

    def sms(self, card: Chip, compute: ComputeInstance | None) -> Partition:
        """The SMs of a compute instance (of all without) as a part of the instance's chip."""
        whole = instance_chip(card, self.profile)
        if compute is None or compute.slices == self.profile.compute_slices:
            return Partition(whole, tuple(range(whole.sm.sm_count)))
        first = compute.start * SMS_PER_SLICE
        return partition(whole, range(first, first + compute.slices * SMS_PER_SLICE))


@dataclass(slots=True)
class MigCard:
    """The instances of one card."""

    chip: Chip
    uuid: str
    enabled: bool = False
    instances: list[GpuInstance] = field(default_factory=list)

    def set_enabled(self, enabled: bool) -> None:
        """Turn MIG mode on or off.

        Raises:
            MigError: the chip has none, or there are instances.
        """
        if not has_mig(self.chip):
            raise MigError(f"{self.chip.name} has no MIG mode in this model; use a100", NOT_SUPPORTED)
        if not enabled and self.instances:
            raise MigError("there are GPU instances: destroy them before MIG mode is turned off", IN_USE)
        self.enabled = enabled

    def free(self, profile: Profile) -> list[Placement]:
        """Placements for one more instance."""
        return free_placements(profile, [(one.profile, one.placement) for one in self.instances])

    def create(self, name: str | int, start: int | None = None) -> GpuInstance:
        """Create a GPU instance, by default at the first free placement.

        Raises:
            MigError: MIG mode is off, there is no room, or the profile cannot begin there.
        """
        if not self.enabled:
            raise MigError(f"MIG mode of {self.chip.name} is off: warpwright mig enable", NOT_SUPPORTED)
        profile = profile_of(name)
        if start is not None and start not in profile.starts:
            raise MigError(
                f"a {profile.name} instance begins at memory slice {' or '.join(map(str, profile.starts))}, not at {start}",
                INVALID_ARGUMENT,
            )
        chosen = next((place for place in self.free(profile) if start in (None, place.start)), None)
        if chosen is None:
            there = ", ".join(f"{one.profile_name} at {one.start}" for one in self.instances) or "none"
            raise MigError(
                f"there is no room for a {profile.name} instance{f' at {start}' if start is not None else ''}; there are: {there}",
                INSUFFICIENT_RESOURCES,
            )
        first, step = _FIRST_ID[profile.memory_slices]
        made = GpuInstance(first + chosen.start // step, profile.name, chosen.start)
        self.instances.append(made)
        self.instances.sort(key=lambda one: one.start)
        return made

    def instance(self, number: int) -> GpuInstance:
        """A GPU instance by its ID.

        Raises:
            MigError: there is none.
        """
        for one in self.instances:
            if one.number == number:
                return one
        raise MigError(
            f"there is no GPU instance {number}; there are: {', '.join(str(one.number) for one in self.instances) or 'none'}",
            NOT_FOUND,
        )

    def destroy(self, number: int) -> None:
        """Destroy a GPU instance.

        Raises:
            MigError: there is none, or it has compute instances.
        """
        found = self.instance(number)
        if found.compute:
            raise MigError(f"GPU instance {number} has compute instances: destroy them first", IN_USE)
        self.instances.remove(found)

    def destroy_compute(self, number: int, compute: int) -> None:
        """Destroy a compute instance."""
        found = self.instance(number)
        found.compute.remove(found.compute_instance(compute))

    def devices(self) -> list[tuple[GpuInstance, ComputeInstance]]:
        """Devices visible to CUDA: every compute instance, in the order of slices."""
        return [(gpu, one) for gpu in self.instances for one in sorted(gpu.compute, key=lambda c: c.start)]

    def device_uuid(self, gpu: GpuInstance, compute: ComputeInstance) -> str:
        """The UUID of a MIG device, the same for the same instance of the same card."""
        raw = hashlib.sha256(
            f"{self.uuid} {gpu.profile_name} {gpu.number} {compute.number} {compute.slices}".encode()
        ).hexdigest()
        return f"MIG-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:32]}"

    def find(self, name: str) -> tuple[GpuInstance, ComputeInstance]:
        """The device that ``CUDA_VISIBLE_DEVICES`` names: by UUID or a prefix of it, or as ``MIG-GPU-…/GI/CI``.

        Raises:
            MigError: if there is none, or the prefix is ambiguous.
        """
        old = re.fullmatch(r"MIG-(GPU-[0-9a-f-]+)/(\d+)/(\d+)", name)
        if old is not None:
            if not self.uuid.startswith(old[1]):
                raise MigError(f"{name}: the card is {self.uuid}", NOT_FOUND)
            gpu = self.instance(int(old[2]))
            return gpu, gpu.compute_instance(int(old[3]))
        found = [pair for pair in self.devices() if self.device_uuid(*pair).startswith(name)]
        if len(found) != 1:
            there = ", ".join(self.device_uuid(*pair) for pair in self.devices()) or "none"
            number = f"{len(found)} MIG devices are" if found else "no MIG device is"
            raise MigError(f"{number} called {name}; there are: {there}", NOT_FOUND)
        return found[0]


def card_uuid(chip_name: str, ordinal: int) -> str:
    """The UUID of a simulated card: the same for the same chip in the same place (``driver/devices.py`` has the same bytes)."""
    raw = hashlib.sha256(f"warpwright {chip_name}{f' {ordinal}' if ordinal else ''}".encode()).digest()[:16].hex()
    return f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"


def place() -> Path:
    """The file that keeps the instances."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else default_folder() / "mig.json"


def _card_from(record: dict[str, Any], chip: Chip, uuid: str) -> MigCard:
    instances = [
        GpuInstance(one["number"], one["profile_name"], one["start"], [ComputeInstance(**c) for c in one["compute"]])
        for one in record.get("instances", [])
    ]
    return MigCard(chip, uuid, record.get("enabled", False), instances)


def _records() -> dict[str, Any]:
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise MigError(f"cannot read the instances in {place()}: {error}; remove the file", INVALID_ARGUMENT) from None
    return found if isinstance(found, dict) else {}


def card(chip: Chip, ordinal: int = 0) -> MigCard:
    """The current instances of a card."""
    uuid = card_uuid(chip.name, ordinal)
    return _card_from(_records().get(uuid, {}), chip, uuid)


@contextlib.contextmanager
def changing(chip: Chip, ordinal: int = 0) -> Iterator[MigCard]:
    """Context manager for changing a card's instances: the result is stored unless the block raises, and no other
    process changes them meanwhile."""
    path = place()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        records = _records()
        uuid = card_uuid(chip.name, ordinal)
        found = _card_from(records.get(uuid, {}), chip, uuid)
        yield found
        records[uuid] = {"enabled": found.enabled, "instances": [asdict(one) for one in found.instances]}
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        os.replace(fresh, path)

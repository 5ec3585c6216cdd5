"""Multi-Instance GPU: the profiles of an A100 with 40 GB, where each may be placed, and the part of the chip that an instance is.

The chip has seven slices of compute (a GPC of 14 SMs with its Sys Pipe each) and eight of memory (a group of ten L2 slices with its share of DRAM each).
An instance's crossbar ports, L2 slices, memory controllers and DRAM address buses are its own (A100 whitepaper, "MIG Architecture and GPU Instances
in Detail"), so that it is a smaller chip.  Profiles, numbers and placements are those of NVIDIA's MIG User Guide ("A100 MIG Profiles") and of its
driver's answers (``nvidia-smi mig -lgip``, ``-lgipp``); memory sizes are those of NVIDIA/go-nvml's A100-SXM4-40GB.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warpwright.chips.chip import Chip
from warpwright.chips.chip_files import load_chip
from warpwright.errors import WarpwrightError

MEMORY_SLICES, COMPUTE_SLICES = 8, 7
SMS_PER_SLICE = 14
L2_SLICES_PER_MEMORY_SLICE = 10
PARTITION_MEMORY_SLICES = 4
"""Memory slices on one side of L2: an instance that has no more than these has no far side."""
CHIPS = ("a100",)
"""Chips whose tables are known."""


class MigError(WarpwrightError, ValueError):
    """An instance that cannot be; ``code`` is what NVML returns for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_RESOURCES, IN_USE = 2, 3, 6, 23, 19
"""nvmlReturn_t."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of GPU instance."""

    name: str
    number: int
    """nvidia-smi's and NVML's profile ID."""
    kind: int
    """NVML_GPU_INSTANCE_PROFILE_*."""
    compute_slices: int
    memory_slices: int
    memory_mib: int
    most: int
    """Instances of it on an empty chip."""
    starts: tuple[int, ...]
    """Memory slices at which it may begin."""
    copy_engines: int
    decoders: int
    jpegs: int
    flow_engines: int

    @property
    def sms(self) -> int:
        """SMs of an instance."""
        return SMS_PER_SLICE * self.compute_slices


PROFILES = (
    # name, ID, NVML's kind, slices of compute and memory, MiB, most, starts, CE, NVDEC, NVJPG, OFA
    Profile("1g.5gb", 19, 0, 1, 1, 4864, 7, (0, 1, 2, 3, 4, 5, 6), 1, 0, 0, 0),
    Profile("1g.5gb+me", 20, 7, 1, 1, 4864, 1, (0, 1, 2, 3, 4, 5, 6), 1, 1, 1, 1),
    Profile("1g.10gb", 15, 9, 1, 2, 9856, 4, (0, 2, 4, 6), 1, 1, 0, 0),
    Profile("2g.10gb", 14, 1, 2, 2, 9856, 3, (0, 2, 4), 2, 1, 0, 0),
    Profile("3g.20gb", 9, 2, 3, 4, 19968, 2, (0, 4), 3, 2, 0, 0),
    Profile("4g.20gb", 5, 3, 4, 4, 19968, 1, (0,), 4, 2, 0, 0),
    Profile("7g.40gb", 0, 4, 7, 8, 40192, 1, (0,), 7, 5, 1, 1),
)


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """A kind of compute instance within a GPU instance."""

    kind: int
    """NVML_COMPUTE_INSTANCE_PROFILE_*, and its ID."""
    slices: int
    starts: tuple[int, ...]
    """Compute slices of the GPU instance at which it may begin."""


_COMPUTE_STARTS: dict[int, dict[int, tuple[int, ...]]] = {
    1: {1: (0,)},
    2: {1: (0, 1), 2: (0,)},
    3: {1: (0, 1, 2), 2: (0,), 3: (0,)},
    4: {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)},
    7: {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)},
}
"""By the GPU instance's compute slices, then by the compute instance's."""
_COMPUTE_KINDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}


def compute_profiles(profile: Profile) -> list[ComputeProfile]:
    """The compute instances that a GPU instance may have."""
    starts = _COMPUTE_STARTS[profile.compute_slices]
    return [ComputeProfile(_COMPUTE_KINDS[slices], slices, places) for slices, places in starts.items()]


def has_mig(chip: Chip) -> bool:
    """Whether the instances of a chip are known."""
    return chip.identity.product in {load_chip(name).identity.product for name in CHIPS}


def profile_of(name: str | int) -> Profile:
    """A profile by its name or its ID.

    Raises:
        MigError: there is none.
    """
    for one in PROFILES:
        if name in (one.name, one.number, str(one.number)):
            return one
    raise MigError(
        f"there is no profile {name!r}; there are: {', '.join(f'{one.name} ({one.number})' for one in PROFILES)}",
        INVALID_ARGUMENT,
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """Consecutive memory slices, or compute slices of an instance."""

    start: int
    size: int

    def overlaps(self, other: Placement) -> bool:
        """Whether both have a slice in common."""
        return self.start < other.start + other.size and other.start < self.start + self.size


def free_placements(profile: Profile, taken: Iterable[tuple[Profile, Placement]]) -> list[Placement]:
    """Where one more instance of a profile fits beside others, in the order in which the driver takes them."""
    held = list(taken)
    if sum(one is profile for one, _ in held) >= profile.most:
        return []
    if sum(one.compute_slices for one, _ in held) + profile.compute_slices > COMPUTE_SLICES:
        return []
    places = [Placement(start, profile.memory_slices) for start in profile.starts]
    return [place for place in places if not any(place.overlaps(other) for _, other in held)]


def instance_chip(chip: Chip, profile: Profile) -> Chip:
    """The part of a chip that an instance is, wherever it is placed: as a chip of its own.

    Raises:
        MigError: the chip has no instances.
    """
    if not has_mig(chip):
        raise MigError(
            f"{chip.name} has no instances in this model: MIG is modelled for {', '.join(CHIPS)}", NOT_SUPPORTED
        )
    share = profile.memory_slices / MEMORY_SLICES
    sides = 2 if profile.memory_slices > PARTITION_MEMORY_SLICES else 1
    slices = profile.compute_slices
    changes = {
        "sm_count": profile.sms,
        "gpc_sm_counts": [SMS_PER_SLICE] * slices,
        # GPCs of a whole chip are where the chip has them; an instance within one side has all of its own there.
        "gpc_l2_partitions": list(chip.sm.gpc_l2_partitions[:slices]) if sides == 2 else [0] * slices,
        "l2_kib": chip.l2.l2_kib * profile.memory_slices // MEMORY_SLICES,
        "l2_slice_count": L2_SLICES_PER_MEMORY_SLICE * profile.memory_slices,
        "l2_partition_count": sides,
        # NVIDIA A100 whitepaper, "L2 Cache Residency Control": the set-aside is disabled in MIG mode.
        "l2_set_aside_max_kib": 0,
        "l2_set_aside_default_kib": 0,
        "dram_kib": profile.memory_mib * 1024,
        "dram_gb_per_s": chip.dram.dram_gb_per_s * share,
        "dram_channel_count": chip.dram.dram_channel_count * profile.memory_slices // MEMORY_SLICES,
        "device_copy_gb_per_s": chip.transfer.device_copy_gb_per_s * share,
        "device_copy_l2_gb_per_s": chip.transfer.device_copy_l2_gb_per_s * share,
        "fill_gb_per_s": chip.transfer.fill_gb_per_s * share,
        "nvjpg_core_count": chip.engines.nvjpg_core_count * profile.jpegs,
        "nvdec_count": min(chip.engines.nvdec_count, profile.decoders),
        "ofa_count": min(chip.engines.ofa_count, profile.flow_engines),
    }
    return load_chip(chip, **changes)

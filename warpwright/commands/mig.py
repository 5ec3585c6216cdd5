"""``warpwright mig``: instances of a card, as ``nvidia-smi mig`` creates, destroys and lists them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from warpwright.commands.output import FAILED, MISUSED, console, fail

if TYPE_CHECKING:
    from warpwright.chips.chip import Chip
    from warpwright.system.mig import ComputeInstance, MigCard

mig = typer.Typer(
    name="mig", help="Divide a card into instances (Multi-Instance GPU).", no_args_is_help=True, rich_markup_mode=None
)

GpuOption = Annotated[str, typer.Option("--gpu", "-g", help="Chip of the card.")]
DeviceOption = Annotated[
    int, typer.Option("--device", "-i", min=0, help="Number of the card among those of --gpu of warpwright run.")
]


def _chip(name: str) -> Chip:
    from warpwright.chips import ChipError, load_chip

    try:
        return load_chip(name)
    except ChipError as error:
        raise fail(str(error), MISUSED) from None


@contextmanager
def _changing(gpu: str, device: int) -> Iterator[MigCard]:
    """A card whose instances change within the block; a refusal by the driver is printed."""
    from warpwright.chips.mig import MigError
    from warpwright.system.mig import changing

    try:
        with changing(_chip(gpu), device) as card:
            yield card
    except MigError as error:
        raise fail(str(error), FAILED) from None


@mig.command("enable")
def enable(gpu: GpuOption = "a100", device: DeviceOption = 0) -> None:
    """Turn MIG mode on."""
    with _changing(gpu, device) as card:
        card.set_enabled(True)
    console().print(f"Enabled MIG Mode for GPU {device} ({gpu})", markup=False)


@mig.command("disable")
def disable(gpu: GpuOption = "a100", device: DeviceOption = 0) -> None:
    """Turn MIG mode off, which requires that there are no instances."""
    with _changing(gpu, device) as card:
        card.set_enabled(False)
    console().print(f"Disabled MIG Mode for GPU {device} ({gpu})", markup=False)


@mig.command("create")
def create(
    profiles: Annotated[
        str,
        typer.Argument(
            help="Profiles by name or ID, separated by commas: 3g.20gb,1g.5gb or 9,19. PROFILE:START chooses the place."
        ),
    ],
    gpu: GpuOption = "a100",
    device: DeviceOption = 0,
    compute: Annotated[
        bool, typer.Option("--compute/--no-compute", help="Also create a compute instance with all slices in each.")
    ] = True,
) -> None:
    """Create GPU instances: all of them, or none if one does not fit."""
    with _changing(gpu, device) as card:
        made = []
        for text in profiles.split(","):
            name, _, start = text.strip().partition(":")
            if start and not start.isdigit():
                raise fail(f"{text}: PROFILE:START takes the number of the first memory slice, not {start!r}", MISUSED)
            made.append(card.create(name, int(start) if start else None))
            if compute:
                made[-1].create_compute()
    for one in made:
        last = one.start + one.placement.size - 1
        slices = f"slices {one.start} to {last}" if last > one.start else f"slice {last}"
        console().print(f"created GPU instance {one.number}: {one.profile_name}, memory {slices}", markup=False)


@mig.command("create-compute")
def create_compute(
    instance: Annotated[int, typer.Argument(help="ID of the GPU instance.")],
    slices: Annotated[int | None, typer.Option(help="Compute slices; all by default.")] = None,
    start: Annotated[int | None, typer.Option(help="First compute slice.")] = None,
    gpu: GpuOption = "a100",
    device: DeviceOption = 0,
) -> None:
    """Create a compute instance in a GPU instance."""
    with _changing(gpu, device) as card:
        made = card.instance(instance).create_compute(slices, start)
    console().print(
        f"created compute instance {made.number} of GPU instance {instance}: {made.slices} slices", markup=False
    )


@mig.command("destroy")
def destroy(
    instance: Annotated[int | None, typer.Argument(help="ID of the GPU instance; all without one.")] = None,
    compute: Annotated[int | None, typer.Option("--compute", help="Only this compute instance of it.")] = None,
    gpu: GpuOption = "a100",
    device: DeviceOption = 0,
) -> None:
    """Destroy GPU instances with their compute instances, or one compute instance."""
    with _changing(gpu, device) as card:
        if compute is not None:
            if instance is None:
                raise fail("--compute needs the GPU instance: warpwright mig destroy INSTANCE --compute ID", MISUSED)
            card.destroy_compute(instance, compute)
            gone = [instance]
        else:
            gone = [instance] if instance is not None else [one.number for one in card.instances]
            for number in gone:
                card.instance(number).compute.clear()
                card.destroy(number)
    what = f"compute instance {compute} of GPU instance" if compute is not None else "GPU instance"
    what += "s" if len(gone) != 1 else ""
    console().print(f"destroyed {what} {', '.join(map(str, gone)) or 'none'}", markup=False)


@mig.command("list")
def listed(gpu: GpuOption = "a100", device: DeviceOption = 0) -> None:
    """List instances and the names by which CUDA_VISIBLE_DEVICES chooses them."""
    from rich.table import Table

    from warpwright.chips.mig import MigError
    from warpwright.system.mig import card

    chip = _chip(gpu)
    try:
        found = card(chip, device)
    except MigError as error:
        raise fail(str(error)) from None
    out = console()
    out.print(
        f"GPU {device}: {chip.identity.product} (UUID: {found.uuid}), MIG mode {'on' if found.enabled else 'off'}",
        markup=False,
        soft_wrap=True,
    )
    table = Table(header_style="bold")
    for heading in ("GI", "CI", "MIG device", "memory", "SMs", "L2 slices", "CE", "placement", "UUID"):
        table.add_column(heading, overflow="fold")
    for one in found.instances:
        part = one.chip(chip)
        computes: list[ComputeInstance | None] = [*one.compute]
        for compute in computes or [None]:
            name = found.device_uuid(one, compute) if compute is not None else "no compute instance"
            table.add_row(
                str(one.number),
                str(compute.number) if compute is not None else "-",
                one.name_of(compute) if compute is not None else one.profile_name,
                f"{one.profile.memory_mib:,} MiB",
                str(one.sms(chip, compute).chip.sm.sm_count),
                str(part.l2.l2_slice_count),
                str(one.profile.copy_engines),
                f"{one.start}:{one.placement.size}",
                name,
            )
    out.print(table if found.instances else "no MIG devices")


@mig.command("profiles")
def profiles(gpu: GpuOption = "a100", device: DeviceOption = 0) -> None:
    """List the profiles of GPU instances, how many more can be created, and where."""
    from rich.table import Table

    from warpwright.chips.mig import PROFILES, MigError, has_mig
    from warpwright.system.mig import card

    chip = _chip(gpu)
    if not has_mig(chip):
        raise fail(f"{chip.name} has no MIG mode in this model; use a100")
    try:
        found = card(chip, device)
    except MigError as error:
        raise fail(str(error)) from None
    table = Table(header_style="bold")
    for heading in ("profile", "ID", "free/most", "memory", "SMs", "CE", "NVDEC", "NVJPG", "OFA", "placements"):
        table.add_column(heading)
    for one in PROFILES:
        starts = ",".join(map(str, one.starts))
        table.add_row(
            *(
                one.name,
                str(one.number),
                f"{min(one.most, len(found.free(one)))}/{one.most}",
                f"{one.memory_mib:,} MiB",
            ),
            *(str(count) for count in (one.sms, one.copy_engines, one.decoders, one.jpegs, one.flow_engines)),
            f"{{{starts}}}:{one.memory_slices}",
        )
    console().print(table)

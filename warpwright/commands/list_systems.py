"""``warpwright system``: lists the machines of several GPUs, or shows one with the sources of its links."""

from __future__ import annotations

from typing import Annotated

import typer

from warpwright.commands.output import console, fail
from warpwright.quantity_text import figures

system = typer.Typer(help="List the machines of several GPUs, or show one.", no_args_is_help=True)


@system.command(name="list")
def list_systems() -> None:
    """List the machines."""
    from rich.table import Table

    from warpwright.system import load_machine, machine_names, route

    table = Table(header_style="bold")
    for heading in ("machine", "product", "GPUs", "GPU 0 to GPU 1"):
        table.add_column(heading)
    for machine in map(load_machine, machine_names()):
        way = route(machine, 0, 1) if len(machine.gpus) > 1 else None
        joined = f"{way.topology}, {figures(way.copy_gb_per_s)} GB/s" if way is not None else ""
        table.add_row(machine.name, machine.product, f"{len(machine.gpus)} x {machine.gpus[0]}", joined)
    console().print(table)


@system.command(name="show")
def show_system(name: Annotated[str, typer.Argument(help="Machine (name or TOML file).")]) -> None:
    """Show a machine's topology, as nvidia-smi topo -m, and the numbers of its links with their sources."""
    from rich.table import Table

    from warpwright.errors import WarpwrightError
    from warpwright.system import load_machine, topology_matrix
    from warpwright.system.machine import LINK_FIELDS

    try:
        machine = load_machine(name)
    except WarpwrightError as error:
        raise fail(str(error)) from None
    out = console()
    out.print(f"{machine.name}: {machine.product}", markup=False)
    typer.echo(topology_matrix(machine))
    table = Table(header_style="bold")
    for heading in ("link or table", "field", "value", "kind", "source"):
        table.add_column(heading, overflow="fold")
    for link in {cable.link.name: cable.link for cable in machine.cables}.values():
        for field in LINK_FIELDS:
            key = f"links.{link.name}.{field}"
            if key in machine.kinds:
                value = f"{getattr(link, field):g}"
                table.add_row(link.name, field, value, machine.kinds[key], machine.sources[key])
    tables = {
        "host": machine,
        "migration": machine.migration,
        "address_translation": machine.translation,
        "probe_filter": machine.probes,
    }
    for key, kind in machine.kinds.items():
        section, _, field = key.rpartition(".")
        if section in tables:
            table.add_row(section, field, f"{getattr(tables[section], field):g}", kind, machine.sources[key])
    out.print(table)

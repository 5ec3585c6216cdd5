"""Machine files: reads a machine from TOML and checks it as a whole before anything runs.

A file names the chips, the switches, the kinds of links with their numbers, and the cables::

    product = "NVIDIA DGX-1"
    gpus = ["v100", "v100"]

    [switches]
    cpu0 = "host"

    [links.nvlink2]
    protocol = "nvlink"
    lane_count = { published = 8, source = "volta: eight lanes in each direction" }

    [[cables]]
    link = "nvlink2"
    ends = ["gpu0", "gpu1"]
    count = 2

An end may hold ``*`` for several nodes.  A file may be based on another one (``base = "h200x8"``) and change its
tables.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from warpwright.chips import chip_names, load_chip
from warpwright.chips.chip import suggest
from warpwright.chips.kinds import KINDS, read_entry
from warpwright.engine.host_coherence import ProbeCosts, TranslationCosts
from warpwright.engine.host_mappings import MOST_DEVICES
from warpwright.engine.managed_pages import MigrationCosts
from warpwright.system.machine import (
    HOST,
    HOST_FIELDS,
    LINK_FIELDS,
    MIGRATION_FIELDS,
    NVLINK,
    PCIE,
    PROBE_FIELDS,
    PROTOCOLS,
    SMP,
    SWITCHES,
    TRANSLATION_FIELDS,
    WIDTH_FIELDS,
    Cable,
    Limits,
    LinkKind,
    Machine,
    MachineError,
    gpu_node,
)
from warpwright.system.routes import host_route

_DIRECTORY = Path(__file__).parent
# Part of Python from 3.11 on, a package of the same interface before.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
_KEYS = (
    "base",
    "product",
    "sources",
    "gpus",
    "switches",
    "links",
    "host",
    "migration",
    "address_translation",
    "probe_filter",
    "cables",
)
_CABLE_KEYS = ("link", "ends", "count")
MOST_LINKS = 64
"""Keys of a cable."""


def machine_names() -> list[str]:
    """Names of the machines that come with the package, sorted."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


def load_machine(name: str) -> Machine:
    """Read a machine by name or TOML path.

    Raises:
        MachineError: for an unknown machine, or an invalid description.
        ChipError: for an unknown or invalid chip.
    """
    return _loaded(os.path.abspath(name) if name.endswith(".toml") else name)


@lru_cache(maxsize=32)
def _loaded(name: str) -> Machine:
    return _Reader(name).machine()


class _Reader:
    """One machine's file."""

    def __init__(self, name: str) -> None:
        self.path, self.table = _table(name, ())
        self.label = self.path.stem
        self.place = "" if self.path.parent == _DIRECTORY else f" ({self.path})"
        self.sources: dict[str, str] = {}
        self.kinds: dict[str, str] = {}

    def wrong(self, text: str) -> MachineError:
        """The error for an invalid description."""
        return MachineError(f"machine {self.label!r}: {text}{self.place}")

    def machine(self) -> Machine:
        """The checked record."""
        for key in self.table:
            if key not in _KEYS:
                raise self.wrong(
                    f"no key is called {key!r}{suggest(key, list(_KEYS)) or '; known keys: ' + ', '.join(_KEYS)}"
                )
        gpus = self._gpus()
        switches = self._switches()
        links = {name: self._link(name, content) for name, content in self._section("links").items()}
        host = self._numbers("host", self._section("host"), HOST_FIELDS)
        machine = Machine(
            name=self.label,
            product=str(self.table.get("product", self.label)),
            gpus=gpus,
            switches=switches,
            cables=self._cables(gpus, switches, links),
            staged_copy_percent=host["staged_copy_percent"],
            migration=self._migration(),
            translation=self._translation(),
            probes=self._probes(),
            sources=self.sources,
            kinds=self.kinds,
            documents=self._section("sources"),
        )
        self._connected(machine)
        self._needs_links_to_host(machine)
        return machine

    def _migration(self) -> MigrationCosts | None:
        content = self._section("migration")
        if not content:
            return None
        costs = MigrationCosts(**self._numbers("migration", content, MIGRATION_FIELDS))
        for field in ("page_kib", "prefetch_region_kib", "access_counter_kib"):
            value = getattr(costs, field)
            if value & (value - 1) or value < costs.page_kib:
                raise self.wrong(
                    f"field {field!r} of [migration] must be a power of two and at least a page's {costs.page_kib}, not {value}"
                )
        return costs

    def _translation(self) -> TranslationCosts | None:
        content = self._section("address_translation")
        if not content:
            return None
        costs = TranslationCosts(**self._numbers("address_translation", content, TRANSLATION_FIELDS))
        for field in ("page_kib", "pages_per_answer", "kept_page_count"):
            value = getattr(costs, field)
            if value & (value - 1):
                raise self.wrong(f"field {field!r} of [address_translation] must be a power of two, not {value}")
        return costs

    def _probes(self) -> ProbeCosts | None:
        content = self._section("probe_filter")
        if not content:
            return None
        costs = ProbeCosts(**self._numbers("probe_filter", content, PROBE_FIELDS))
        if costs.line_count % costs.way_count:
            raise self.wrong(
                f"field 'line_count' of [probe_filter] must be a multiple of way_count ({costs.way_count}), not {costs.line_count}"
            )
        return costs

    def _needs_links_to_host(self, machine: Machine) -> None:
        """Page tables and caches are shared over NVLink alone."""
        for table, has in (("address_translation", machine.translation), ("probe_filter", machine.probes)):
            for ordinal in range(len(machine.gpus)):
                if has is not None and host_route(machine, ordinal) is None:
                    raise self.wrong(
                        f"[{table}] needs NVLinks between each GPU and a processor, and {gpu_node(ordinal)} has none: add a cable, or remove the table"
                    )

    def _section(self, name: str) -> dict[str, Any]:
        content = self.table.get(name, {})
        if not isinstance(content, dict):
            raise self.wrong(f"[{name}] must be a table, not {content!r}")
        return content

    def _gpus(self) -> tuple[str, ...]:
        gpus = self.table.get("gpus")
        if not isinstance(gpus, list) or not all(isinstance(chip, str) for chip in gpus):
            raise self.wrong(f"gpus must be a list of chips' names, not {gpus!r}")
        if not 1 <= len(gpus) <= MOST_DEVICES:
            raise self.wrong(f"gpus must name 1 to {MOST_DEVICES} chips, not {len(gpus)}")
        for chip in dict.fromkeys(gpus):
            load_chip(chip)
        return tuple(os.path.abspath(chip) if chip.endswith(".toml") else chip for chip in gpus)

    def _switches(self) -> dict[str, str]:
        switches = self._section("switches")
        for name, kind in switches.items():
            if kind not in SWITCHES:
                near = suggest(str(kind), list(SWITCHES))
                raise self.wrong(f"switch {name!r} must be one of {', '.join(SWITCHES)}, not {kind!r}{near}")
            if name.startswith("gpu"):
                raise self.wrong(f"switch {name!r} has a name of a GPU: names that begin with 'gpu' are GPUs'")
        return switches

    def _link(self, name: str, content: Any) -> LinkKind:
        if not isinstance(content, dict):
            raise self.wrong(f"[links.{name}] must be a table, not {content!r}")
        protocol = content.get("protocol")
        if protocol not in PROTOCOLS:
            near = suggest(str(protocol), list(PROTOCOLS))
            raise self.wrong(
                f"protocol of [links.{name}] must be one of {', '.join(PROTOCOLS)}, not {protocol!r}{near}"
            )
        fields = {field: limits for field, limits in LINK_FIELDS.items() if protocol != SMP or not limits.accesses}
        numbers = {field: entry for field, entry in content.items() if field != "protocol"}
        values = self._numbers(f"links.{name}", numbers, fields)
        self._check_width(name, values)
        return LinkKind(name, protocol, **values)

    def _check_width(self, name: str, values: Mapping[str, Any]) -> None:
        """A link that reduces its width says everything about it, and reduces it."""
        given = [field for field in WIDTH_FIELDS if field in values]
        if not given:
            return
        lacking = [field for field in WIDTH_FIELDS if field not in values]
        if lacking:
            raise self.wrong(
                f"[links.{name}] has {given[0]!r} and lacks {lacking[0]!r}: a link that reduces its width needs {', '.join(WIDTH_FIELDS)}"
            )
        if values["reduced_lane_count"] >= values["lane_count"]:
            raise self.wrong(
                f"field 'reduced_lane_count' of [links.{name}] must be less than lane_count ({values['lane_count']}), not {values['reduced_lane_count']}"
            )

    def _numbers(self, section: str, content: Mapping[str, Any], fields: Mapping[str, Limits]) -> dict[str, Any]:
        """The values of a table's fields, each checked for its type and range."""
        values: dict[str, Any] = {}
        for field, entry in content.items():
            if field not in fields:
                near = suggest(field, list(fields)) or f"; known fields: {', '.join(fields)}"
                raise self.wrong(f"[{section}] has no field {field!r}{near}")
            read = read_entry(entry)
            if isinstance(entry, dict) and read is None:
                raise self.wrong(
                    f'field {field!r} of [{section}] must be {{ KIND = …, source = "…" }}, where KIND is one of {", ".join(KINDS)}'
                )
            value, kind, source = read or (entry, "set", "override")
            values[field] = self._checked(section, field, value, fields[field])
            self.kinds[f"{section}.{field}"], self.sources[f"{section}.{field}"] = kind, source
        for field, limits in fields.items():
            if field not in values and limits.needed:
                raise self.wrong(f"[{section}] lacks the field {field!r}")
        return values

    def _checked(self, section: str, field: str, value: Any, limits: Limits) -> float:
        whole = limits.kind is int
        if isinstance(value, bool) or not isinstance(value, int | float) or (whole and not isinstance(value, int)):
            wanted = "a whole number" if whole else "a number"
            raise self.wrong(f"field {field!r} of [{section}] must be {wanted}, not {value!r}")
        if not limits.least <= value <= limits.most:
            raise self.wrong(
                f"field {field!r} of [{section}] must be {limits.least:,} to {limits.most:,}, not {value!r}"
            )
        return value if whole else float(value)

    def _cables(
        self, gpus: Sequence[str], switches: Mapping[str, str], links: Mapping[str, LinkKind]
    ) -> tuple[Cable, ...]:
        given = self.table.get("cables", [])
        if not isinstance(given, list) or not all(isinstance(cable, dict) for cable in given):
            raise self.wrong("cables must be tables: [[cables]]")
        nodes = [*(gpu_node(i) for i in range(len(gpus))), *switches]
        cables: list[Cable] = []
        for number, cable in enumerate(given, 1):
            where = f"cable {number}"
            for key in cable:
                if key not in _CABLE_KEYS:
                    raise self.wrong(f"{where} has no key {key!r}{suggest(key, list(_CABLE_KEYS))}")
            link = links.get(str(cable.get("link")))
            if link is None:
                near = suggest(str(cable.get("link")), list(links)) or f"; links: {', '.join(links)}"
                raise self.wrong(f"{where}: no link is called {cable.get('link')!r}{near}")
            count = cable.get("count", 1)
            if type(count) is not int or not 1 <= count <= MOST_LINKS:
                raise self.wrong(f"count of {where} must be 1 to {MOST_LINKS}, not {count!r}")
            ends = cable.get("ends")
            if not isinstance(ends, list) or len(ends) != 2:
                raise self.wrong(f"ends of {where} must be two nodes' names, not {ends!r}")
            found = [self._matching(where, str(end), nodes) for end in ends]
            cables += [Cable(link, (a, b), count) for a in found[0] for b in found[1] if a != b]
        for made in cables:
            self._fits(made, switches)
        return tuple(cables)

    def _matching(self, where: str, end: str, nodes: Sequence[str]) -> list[str]:
        found = [node for node in nodes if fnmatchcase(node, end)]
        if not found:
            near = suggest(end, list(nodes)) or f"; nodes: {', '.join(nodes)}"
            raise self.wrong(f"{where}: no node is called {end!r}{near}")
        return found

    def _fits(self, cable: Cable, switches: Mapping[str, str]) -> None:
        """Check that a link connects nodes that support its protocol."""
        speaks = {NVLINK: (NVLINK, HOST), PCIE: (PCIE, HOST), SMP: (HOST,)}[cable.link.protocol]
        for end in cable.ends:
            kind = switches.get(end)
            if (kind is None and cable.link.protocol == SMP) or (kind is not None and kind not in speaks):
                raise self.wrong(
                    f"link {cable.link.name!r} ({cable.link.protocol}) cannot end at {end!r}, which is "
                    f"{'a GPU' if kind is None else 'a node of kind ' + repr(kind)}"
                )

    def _connected(self, machine: Machine) -> None:
        """Check that every GPU reaches a host over PCI Express or its own NVLinks, because programs copy over them."""
        for ordinal in range(len(machine.gpus)):
            seen, new = set(), [gpu_node(ordinal)]
            while new:
                node = new.pop()
                seen.add(node)
                new += [
                    cable.other(node)
                    for cable in machine.cables_of[node]
                    if cable.link.protocol == PCIE and cable.other(node) not in seen
                ]
            if host_route(machine, ordinal) is None and not any(machine.switches.get(node) == HOST for node in seen):
                raise self.wrong(
                    f"{gpu_node(ordinal)} reaches no host: add a cable of PCI Express to a node of kind 'host'"
                )


def _table(name: str, above: tuple[Path, ...]) -> tuple[Path, dict[str, Any]]:
    """The path of a machine and the contents of its file, merged over those of its bases."""
    path = Path(name) if name.endswith(".toml") else _DIRECTORY / f"{name}.toml"
    if not name.endswith(".toml") and name not in machine_names():
        known = ", ".join(machine_names())
        if name in chip_names():
            raise MachineError(f"no machine is called {name!r}: it is a chip; use --gpu {name}, or ww.GPU({name!r})")
        raise MachineError(
            f"no machine is called {name!r}{suggest(name, machine_names()) or ';'} known machines: {known}"
        )
    if "\0" in name or not path.is_file():
        raise MachineError(f"machine file {name!r} does not exist")
    if path.resolve() in above:
        raise MachineError(f"{str(path)!r} is a base of itself")
    try:
        table = dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise MachineError(f"machine file {str(path)!r} is not TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"cannot read machine file {str(path)!r}: {error}") from error
    base = table.pop("base", None)
    if base is None:
        return path, table
    if not isinstance(base, str):
        raise MachineError(f"base of machine file {str(path)!r} must be a machine's name or a file, not {base!r}")
    beside = str(path.parent / base) if base.endswith(".toml") and not os.path.isabs(base) else base
    _, below = _table(beside, (*above, path.resolve()))
    return path, _over(below, table)


def _over(below: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of a file over those of its base; other values, and numbers with their sources, replace the base's."""
    found = dict(below)
    for key, value in table.items():
        old = found.get(key)
        number = isinstance(value, dict) and "source" in value
        found[key] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) and not number else value
    return found

"""The record of one chip: what the machine is, with the unit of every number in its name.

A chip is a TOML file: tables of ``name = { value = …, source = "…" }``.  A source begins with
a word of the file's ``[sources]`` table, which names the document.  The model's sections are
the machine's units; every name is unique over all sections, so an override needs no section::

    load_chip("v100")                             # a chip of this package
    load_chip("v100", l1_kib=192, sm_count=40)    # the same with what-if values
    load_chip("mine.toml")                        # a file; it may say  base = "v100"

In a file with a base, a number stands either with its source or, like an override, alone.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from warpwright.chips.sections import (
    L1,
    L2,
    MAX_GPCS,
    Clocks,
    Cluster,
    ConstantCache,
    Crossbar,
    Dram,
    Elsewhere,
    Identity,
    InstructionCache,
    Issue,
    Launch,
    Mio,
    Pipes,
    Section,
    Shared,
    Sm,
    Transfer,
)
from warpwright.errors import WarpwrightError

_DIRECTORY = Path(__file__).parent
# Part of Python from 3.11 on, a package of the same interface before.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


class ChipError(WarpwrightError, ValueError):
    """A chip that does not exist or whose description is wrong; the message says what to change."""


class Chip(BaseModel):
    """One chip.  ``chip.sm.sm_count`` by section, or ``chip.get("sm_count")`` by its unique name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    identity: Identity
    clocks: Clocks
    sm: Sm
    issue: Issue
    pipes: Pipes
    mio: Mio
    instruction_cache: InstructionCache
    constant_cache: ConstantCache
    shared: Shared
    l1: L1
    crossbar: Crossbar
    l2: L2
    dram: Dram
    cluster: Cluster
    launch: Launch
    transfer: Transfer
    elsewhere: Elsewhere
    sources: Mapping[str, str]
    """Where each number comes from, by its name: ``document: place``."""
    documents: Mapping[str, str]
    """The documents that sources begin with."""

    @property
    def arch(self) -> int:
        """Compute capability times ten: 60, 70, 80, 90."""
        major, minor = self.identity.compute_capability.split(".")
        return int(major) * 10 + int(minor)

    def get(self, field: str) -> Any:
        """The value of a field by its name, whatever its section.

        Raises:
            ChipError: there is no such field.
        """
        section = _section_of(self.name, field)
        return getattr(getattr(self, section), field)


class Row(NamedTuple):
    """One line of ``describe``."""

    section: str
    field: str
    value: str
    source: str


@cache
def _sections() -> dict[str, type[Section]]:
    return {
        name: info.annotation
        for name, info in Chip.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
    }


@cache
def _fields() -> dict[str, str]:
    """Section of every field."""
    return {field: section for section, model in _sections().items() for field in model.model_fields}


def _suggest(word: str, words: list[str]) -> str:
    near = difflib.get_close_matches(word, words, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(one) for one in near)}?" if near else ""


def _section_of(chip: str, field: str) -> str:
    section = _fields().get(field)
    if section is None:
        raise ChipError(f"chip {chip!r} has no field {field!r}{_suggest(field, list(_fields()))}")
    return section


def chip_names() -> list[str]:
    """Names of the chips that come with the package, sorted."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


def _read(name: str) -> tuple[str, dict[str, Any], dict[str, str], dict[str, str]]:
    """Name, values by field, sources by field and documents of a chip or a file, bases resolved."""
    path = Path(name)
    if path.suffix != ".toml":
        path = _DIRECTORY / f"{name}.toml"
        if not path.is_file():
            known = ", ".join(chip_names())
            raise ChipError(f"no chip is called {name!r}{_suggest(name, chip_names()) or ';'} known chips: {known}")
    elif not path.is_file():
        raise ChipError(f"chip file {name!r} does not exist")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ChipError(f"chip file {str(path)!r} is not TOML: {error}") from error
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    documents: dict[str, str] = {}
    base = table.pop("base", None)
    if base is not None:
        try:
            _, values, sources, documents = _read(str(base))
        except ChipError as error:
            raise ChipError(f"base of chip file {str(path)!r}: {error}") from None
    documents = {**documents, **table.pop("sources", {})}
    label = str(table.pop("name", path.stem))
    named: set[str] = set()
    for section, content in table.items():
        if section in _fields():
            content = {section: content}
        elif section not in _sections():
            raise ChipError(f"chip {label!r} has no section {section!r}{_suggest(section, list(_sections()))}")
        for field, entry in content.items():
            _section_of(label, field)
            named.add(field)
            if isinstance(entry, dict):
                if set(entry) != {"value", "source"}:
                    raise ChipError(f'field {field!r} of chip {label!r} must be {{ value = …, source = "…" }}')
                values[field], sources[field] = entry["value"], entry["source"]
            else:
                values[field] = entry
                sources[field] = "override"
    if base is not None:
        _follow(values, sources, named)
    return label, values, sources, documents


def load_chip(name: str | Chip, **overrides: Any) -> Chip:
    """Read a chip by name or TOML path (or take a record), with overrides by field name.

    Raises:
        ChipError: unknown chip, unknown field, or a value of the wrong type or range.
    """
    if isinstance(name, Chip):
        label, sources, documents = name.name, dict(name.sources), dict(name.documents)
        values = {field: getattr(getattr(name, section), field) for field, section in _fields().items()}
    else:
        label, values, sources, documents = _read(name)
    for field, value in overrides.items():
        _section_of(label, field)
        values[field] = float(value) if isinstance(values.get(field), float) and type(value) is int else value
        sources[field] = "override"
    _follow(values, sources, set(overrides))
    record: dict[str, dict[str, Any]] = {section: {} for section in _sections()}
    for field, value in values.items():
        record[_fields()[field]][field] = value
    try:
        chip = Chip.model_validate({"name": label, "sources": sources, "documents": documents, **record})
    except ValidationError as error:
        raise ChipError(_explain(label, error)) from error
    _check(chip)
    return chip


def _follow(values: dict[str, Any], sources: dict[str, str], changed: set[str]) -> None:
    """Fields that must agree with a changed one, and were not changed themselves, follow it."""
    if "sm_count" in changed and "gpc_sm_counts" not in changed and isinstance(values["sm_count"], int):
        clusters = len(values["gpc_sm_counts"])
        values["gpc_sm_counts"] = [(values["sm_count"] + i) // clusters for i in range(clusters)]
        sources["gpc_sm_counts"] = "override: follows sm_count"
        values["dispatch_apart_sm_count"] = 0
    if changed & {"sm_count", "gpc_sm_counts"} and "cluster_sm_counts" not in changed and values["cluster_sm_counts"]:
        values["cluster_sm_counts"] = values["gpc_sm_counts"]
        sources["cluster_sm_counts"] = "override: follows gpc_sm_counts"
    if "l1_kib" in changed and isinstance(values["l1_kib"], int):
        _fit_shared(values, sources, changed)


def _fit_shared(values: dict[str, Any], sources: dict[str, str], overrides: set[str]) -> None:
    """A smaller data storage drops the carve-outs that it can't hold."""
    if "shared_carveout_kib" not in overrides:
        steps = values["shared_carveout_kib"]
        values["shared_carveout_kib"] = [step for step in steps if step <= values["l1_kib"]] or steps[:1]
        sources["shared_carveout_kib"] = "override: follows l1_kib"
    if "shared_max_per_block_kib" not in overrides:
        reserved_kib = -(-values["shared_reserved_bytes_per_block"] // 1024)
        values["shared_max_per_block_kib"] = min(
            values["shared_max_per_block_kib"], max(values["shared_carveout_kib"][-1] - reserved_kib, 1)
        )
        sources["shared_max_per_block_kib"] = "override: follows l1_kib"


def _explain(label: str, error: ValidationError) -> str:
    first = error.errors()[0]
    field = str(first["loc"][1]) if len(first["loc"]) > 1 else str(first["loc"][0])
    kinds = {
        "int_type": "a whole number",
        "float_type": "a number",
        "string_type": "text",
        "list_type": "a list of whole numbers",
    }
    if first["type"] == "missing":
        return f"chip {label!r} lacks the field {field!r}"
    if first["type"] in kinds:
        return f"field {field!r} of chip {label!r} must be {kinds[first['type']]}, not {first['input']!r}"
    reason = str(first["msg"]).removeprefix("Input should be ")
    return f"field {field!r} of chip {label!r} must be {reason}, not {first['input']!r}"


def _check(chip: Chip) -> None:
    """What one field alone can't tell."""
    if len(chip.sm.gpc_sm_counts) > MAX_GPCS:
        raise ChipError(f"chip {chip.name!r}: gpc_sm_counts names more than {MAX_GPCS} GPCs")
    if sum(chip.sm.gpc_sm_counts) != chip.sm.sm_count:
        raise ChipError(
            f"chip {chip.name!r}: gpc_sm_counts add up to {sum(chip.sm.gpc_sm_counts)} SMs, but sm_count is {chip.sm.sm_count}"
        )
    if chip.sm.cluster_sm_counts and sum(chip.sm.cluster_sm_counts) != chip.sm.sm_count:
        raise ChipError(
            f"chip {chip.name!r}: cluster_sm_counts add up to {sum(chip.sm.cluster_sm_counts)} SMs, but sm_count is {chip.sm.sm_count}"
        )
    steps = chip.shared.shared_carveout_kib
    if steps != sorted(steps) or steps[-1] > chip.shared.l1_kib:
        raise ChipError(
            f"chip {chip.name!r}: shared_carveout_kib must rise and stay within l1_kib = {chip.shared.l1_kib}, not {steps}"
        )
    if chip.crossbar.gpc_coalescer_lines & (chip.crossbar.gpc_coalescer_lines - 1):
        raise ChipError(f"chip {chip.name!r}: gpc_coalescer_lines must be a power of two or 0")
    if chip.l2.l2_slice_count % chip.l2.l2_partition_count:
        raise ChipError(f"chip {chip.name!r}: l2_slice_count must be a multiple of l2_partition_count")


def describe(chip: Chip) -> list[Row]:
    """Every field of a chip in the order of the record: section, name, value as text, source."""
    return [
        Row(section, field, str(getattr(getattr(chip, section), field)), chip.sources.get(field, ""))
        for field, section in _fields().items()
    ]

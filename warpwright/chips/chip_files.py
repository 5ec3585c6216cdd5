"""Chip files: reads a chip from TOML, with bases and overrides.

A chip is a TOML file: tables of ``name = { KIND = value, source = "…" }``.  The kind says how the
number is known (``kinds.py``); a source begins with a word of the file's ``[sources]`` table, which
names the document.  Every name is unique over all sections, so an override needs no section::

    load_chip("v100")                             # a chip of this package
    load_chip("v100", l1_kib=192, sm_count=40)    # the same with what-if values
    load_chip("mine.toml")                        # a file; it may say  base = "v100"

In a file with a base, a number has either its kind and source or, like an override, neither.
"""

from __future__ import annotations

import importlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from warpwright.chips.chip import Chip, ChipError, fields, no_field, section_of, sections, suggest
from warpwright.chips.kinds import KINDS, inherited, read_entry
from warpwright.chips.limits import field_range, problems, range_text

_DIRECTORY = Path(__file__).parent
# Part of Python from 3.11 on, a package of the same interface before.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def chip_names() -> list[str]:
    """Names of the chips that come with the package, sorted."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


class _File(NamedTuple):
    """A chip or a file as read, bases resolved."""

    label: str
    place: str
    """Where its numbers are, for messages: empty for a chip of this package."""
    values: dict[str, Any]
    sources: dict[str, str]
    kinds: dict[str, str]
    documents: dict[str, str]

    def set(self, field: str, value: Any, source: str, kind: str = "set") -> None:
        """Give a field its value, and where that comes from."""
        self.values[field], self.sources[field], self.kinds[field] = value, source, kind

    def copy(self) -> _File:
        """The same with dictionaries of its own."""
        return _File(self.label, self.place, *(dict(part) for part in self[2:]))


def _read(name: str, above: tuple[Path, ...] = ()) -> _File:
    """A chip or a file, which the caller may change."""
    if not name.endswith(".toml") and name in _own_names():
        return _own_file(name).copy()
    return _resolved(name, above)


@cache
def _own_names() -> frozenset[str]:
    return frozenset(chip_names())


@cache
def _own_file(name: str) -> _File:
    """A chip of this package, which is read once: most files are based on one."""
    return _resolved(name, ())


def _resolved(name: str, above: tuple[Path, ...]) -> _File:
    path, table = _table(name)
    if path.resolve() in above:
        raise ChipError(f"{str(path)!r} is a base of itself")
    place = "" if path.parent == _DIRECTORY else f" of {path}"
    base = table.pop("base", None)
    below = _File("", "", {}, {}, {}, {})
    if base is not None:
        if not isinstance(base, str):
            raise ChipError(f"base of chip file {str(path)!r} must be a chip's name or a file, not {base!r}")
        try:
            below = _read(base, (*above, path.resolve()))
        except ChipError as error:
            raise ChipError(f"base of chip file {str(path)!r}: {error}") from None
    told = table.pop("sources", {})
    if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
        raise ChipError(f"[sources] of chip file {str(path)!r} must be a table of texts, not {told!r}")
    kinds = {field: inherited(kind) for field, kind in below.kinds.items()}
    label = str(table.pop("name", path.stem))
    file = _File(label, place, below.values, below.sources, kinds, {**below.documents, **told})
    named: set[str] = set()
    for section, content in table.items():
        for field, entry in _entries(label, place, section, content):
            named.add(field)
            if fields()[field] == "identity":
                file.values[field] = entry
            elif not isinstance(entry, dict):
                file.set(field, entry, "override")
            elif (read := read_entry(entry)) is not None:
                file.set(field, read[0], read[2], read[1])
            else:
                raise ChipError(
                    f'field {field!r} of chip {label!r} must be {{ KIND = …, source = "…" }}, where KIND is one of '
                    f"{', '.join(KINDS)}{place and f' ({place.strip()})'}"
                )
    if base is not None:
        _follow(file, named)
        used = " ".join(file.sources.values())
        for document in below.documents.keys() - told.keys():
            if not re.search(rf"\b{document}\b", used):
                del file.documents[document]
    return file


@cache
def _own_table(name: str) -> dict[str, Any]:
    """What the file of a chip of this package holds."""
    return dict(tomllib.loads((_DIRECTORY / f"{name}.toml").read_text(encoding="utf-8")))


def _table(name: str) -> tuple[Path, dict[str, Any]]:
    """The path of a chip or a file and what it holds."""
    path = Path(name)
    if path.suffix != ".toml":
        known = ", ".join(chip_names())
        if name not in chip_names():
            raise ChipError(f"no chip is called {name!r}{suggest(name, chip_names()) or ';'} known chips: {known}")
        return _DIRECTORY / f"{name}.toml", dict(_own_table(name))
    elif "\0" in name or not path.is_file():
        raise ChipError(f"chip file {name!r} does not exist")
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ChipError(f"chip file {str(path)!r} is not TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ChipError(f"cannot read chip file {str(path)!r}: {error}") from error


def _entries(label: str, place: str, section: str, content: Any) -> list[tuple[str, Any]]:
    """The fields that one entry of a file's top level gives: a section's, or itself.

    Raises:
        ChipError: a section or a field that there is not, or a field of another section.
    """
    if section in fields():
        return [(section, content)]
    if section not in sections():
        if isinstance(content, dict) and "value" not in content:
            near = suggest(section, list(sections())) or suggest(section, list(fields()))
            raise ChipError(f"chip {label!r} has no section {section!r}{near}{place and f' ({place.strip()})'}")
        raise ChipError(no_field(label, section, place))
    if not isinstance(content, dict):
        raise ChipError(
            f"[{section}] of chip {label!r} must be a table of fields, not {content!r}{place and f' ({place.strip()})'}"
        )
    for field in content:
        own = fields().get(field)
        if own is None:
            raise ChipError(no_field(label, field, place, f" in [{section}]"))
        if own != section:
            raise ChipError(
                f"field {field!r} of chip {label!r} belongs to [{own}], not to [{section}]{place and f' ({place.strip()})'}"
            )
    return list(content.items())


def load_chip(name: str | Chip, **overrides: Any) -> Chip:
    """Read a chip by name or TOML path (or take a record), with overrides by field name.

    Raises:
        ChipError: unknown chip, unknown field, or a value of the wrong type or range.
    """
    if isinstance(name, str) and not overrides and name in chip_names():
        return _own_chip(name)
    return _checked(name, overrides)


@cache
def _own_chip(name: str) -> Chip:
    """A chip of this package, which is read once: records are not changed."""
    return _checked(name, {})


def _checked(name: str | Chip, overrides: dict[str, Any]) -> Chip:
    if isinstance(name, Chip):
        values = {field: getattr(getattr(name, section), field) for field, section in fields().items()}
        file = _File(name.name, "", values, dict(name.sources), dict(name.kinds), dict(name.documents))
    else:
        file = _read(name)
    label, place, values = file.label, file.place, file.values
    for field, value in overrides.items():
        section_of(label, field)
        value = float(value) if isinstance(values.get(field), float) and type(value) is int else value
        file.set(field, value, "override")
    few = len(values) < len(fields()) // 4
    for field, section in fields().items():
        known = sections()[section].model_fields[field]
        if field not in values and not known.is_required():
            values[field] = known.default
        if field not in values:
            hint = '; to change a few numbers of a chip, begin the file with base = "NAME"' if few else ""
            raise ChipError(f"chip {label!r} lacks the field {field!r} ([{fields()[field]}]{place}){hint}")
    _follow(file, set(overrides))
    record: dict[str, dict[str, Any]] = {section: {} for section in sections()}
    for field, value in values.items():
        record[fields()[field]][field] = value
        _check_range(label, place, field, value)
    try:
        chip = Chip.model_validate(
            {"name": label, "sources": file.sources, "kinds": file.kinds, "documents": file.documents, **record}
        )
    except ValidationError as error:
        raise ChipError(_explain(label, place, error)) from error
    for problem in problems(chip):
        raise ChipError(f"chip {label!r}: {problem}{place and f' ({place.strip()})'}")
    return chip


@cache
def _limits() -> dict[str, tuple[float, float] | None]:
    """The least and the most of each field."""
    return {field: field_range(field, sections()[section].model_fields[field]) for field, section in fields().items()}


def _check_range(label: str, place: str, field: str, value: Any) -> None:
    """Refuse a number beyond its field's range; values of other types are left to the record."""
    section = fields()[field]
    limits = _limits()[field]
    if limits is None or isinstance(value, bool) or not isinstance(value, int | float):
        return
    if not limits[0] <= value <= limits[1]:
        raise ChipError(
            f"field {field!r} of chip {label!r} must be {range_text(limits)}, not {value!r} ([{section}]{place})"
        )


def _whole_numbers(value: Any) -> bool:
    """Whether a value is a list of whole numbers."""
    return isinstance(value, list) and bool(value) and all(type(number) is int for number in value)


def _follow(file: _File, changed: set[str]) -> None:
    """Fields that must agree with a changed one, and were not changed themselves, follow it; wrong ones are left for the checks."""
    values = file.values
    if "sm_count" in changed and "gpc_sm_counts" not in changed and _whole_numbers(values.get("gpc_sm_counts")):
        clusters = len(values["gpc_sm_counts"])
        if type(values["sm_count"]) is int:
            spread = [(values["sm_count"] + i) // clusters for i in range(clusters)]
            file.set("gpc_sm_counts", spread, "override: follows sm_count")
            file.set("dispatch_apart_sm_count", 0, "override: follows sm_count")
    if (
        changed & {"sm_count", "gpc_sm_counts"}
        and "cluster_sm_counts" not in changed
        and values.get("cluster_sm_counts")
    ):
        file.set("cluster_sm_counts", values["gpc_sm_counts"], "override: follows gpc_sm_counts")
    counts, apart = values.get("gpc_sm_counts"), values.get("dispatch_apart_sm_count")
    if "gpc_sm_counts" in changed and "dispatch_apart_sm_count" not in changed and counts and _whole_numbers(counts):
        fitting = apart if type(apart) is int and apart <= counts[0] else 0
        file.set("dispatch_apart_sm_count", fitting, "override: follows gpc_sm_counts")
    if "l2_partition_count" in changed and "gpc_l2_partitions" not in changed:
        file.set("gpc_l2_partitions", [], "override: follows l2_partition_count, each partition has its GPCs")
    if "l1_kib" in changed and type(values["l1_kib"]) is int and _whole_numbers(values.get("shared_carveout_kib")):
        _fit_shared(file, changed)


def _fit_shared(file: _File, overrides: set[str]) -> None:
    """A smaller data storage drops the carve-outs that it can't hold."""
    values = file.values
    if "shared_carveout_kib" not in overrides:
        steps = values["shared_carveout_kib"]
        held = [step for step in steps if step <= values["l1_kib"]] or steps[:1]
        file.set("shared_carveout_kib", held, "override: follows l1_kib")
    if "shared_max_per_block_kib" not in overrides:
        if not all(
            type(values.get(name)) is int for name in ("shared_reserved_bytes_per_block", "shared_max_per_block_kib")
        ):
            return
        reserved_kib = -(-values["shared_reserved_bytes_per_block"] // 1024)
        most = min(values["shared_max_per_block_kib"], max(values["shared_carveout_kib"][-1] - reserved_kib, 1))
        file.set("shared_max_per_block_kib", most, "override: follows l1_kib")


def _explain(label: str, place: str, error: ValidationError) -> str:
    first = error.errors()[0]
    section = str(first["loc"][0])
    field = str(first["loc"][1]) if len(first["loc"]) > 1 else section
    kinds = {
        "int_type": "a whole number",
        "float_type": "a number",
        "string_type": "text",
        "list_type": "a list of whole numbers",
        "bool_type": "true or false",
    }
    reason = kinds.get(first["type"]) or str(first["msg"]).removeprefix("Input should be ")
    return f"field {field!r} of chip {label!r} must be {reason}, not {first['input']!r} ([{section}]{place})"

"""What a sweep runs: reads a specification and lists its points."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from warpwright.chips import ChipError, load_chip
from warpwright.chips.chip import suggest
from warpwright.chips.chip_files import tomllib
from warpwright.errors import WarpwrightError
from warpwright.programs import ProgramError, find_program, is_python_file
from warpwright.session import chips_named
from warpwright.version import __version__

Value = bool | int | float | str

MESSAGES = {
    r"^Input should be (a|an) valid ": r"must be \1 ",
    r"^Input should be ": "must be ",
    r", unable to parse.*$": "",
    r"^List should have at least 1 item after validation, not 0$": "must have at least one entry",
}
"""Pydantic's wording and ours."""


class SweepError(WarpwrightError):
    """A sweep that cannot be run as specified."""


class Sample(BaseModel):
    """A random part of the points."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(ge=1)
    seed: int = 0


class PageOptions(BaseModel):
    """What the page shows."""

    model_config = ConfigDict(extra="forbid")

    baseline: dict[str, Value] = {}
    """Columns and values of the points that the others are divided by: ``{chip = "a100"}``."""
    cost: str | None = None
    """Column on the horizontal axis of the Pareto front; every numeric override has a front of its own without it."""


class Specification(BaseModel):
    """The axes of a sweep. Its points are all combinations."""

    model_config = ConfigDict(extra="forbid")

    programs: list[str] = Field(min_length=1)
    """Commands as in a shell. ``{size}`` is replaced by each value of ``arguments.size``."""
    chips: list[str] = Field(min_length=1)
    """Names, or TOML files."""
    overrides: dict[str, list[Value]] = {}
    """Values by field of the chip."""
    arguments: dict[str, list[Value]] = {}
    """Values by the name that programs use in braces."""
    timing: Literal["full", "sampled", "off"] = "full"
    timeout_seconds: float = Field(default=3600.0, gt=0)
    """Host time of one point."""
    memory_mib: int | None = Field(default=None, ge=64)
    """Resident memory of one point, over which it is stopped."""
    threads_per_point: int = Field(default=1, ge=1)
    sample: Sample | None = None
    page: PageOptions = PageOptions()
    _name: str = PrivateAttr("the specification")

    @property
    def name(self) -> str:
        """The file, in messages."""
        return self._name

    @field_validator("overrides", "arguments")
    @classmethod
    def _not_empty(cls, axes: dict[str, list[Value]]) -> dict[str, list[Value]]:
        for name, values in axes.items():
            if not values:
                raise ValueError(f"{name} has no values")
            if len(set(map(repr, values))) < len(values):
                raise ValueError(f"{name} has a duplicate value")
        return axes


@dataclass(frozen=True, slots=True)
class Point:
    """One run of one program on one chip."""

    key: str
    """Digest of everything that the result depends on; a point with the same key is not run again."""
    words: tuple[str, ...]
    """The command."""
    chip: str
    overrides: Mapping[str, Value]
    arguments: Mapping[str, Value]
    timing: str
    timeout_seconds: float
    memory_mib: int | None
    threads: int
    folder: str
    """Where the program is started."""
    program: str
    """The command as the specification has it."""

    def columns(self) -> dict[str, Any]:
        """The point's own columns of the result."""
        return {
            "point": self.key,
            "program": self.program,
            "sweep_chip": self.chip,
            **{f"override.{name}": value for name, value in self.overrides.items()},
            **{f"argument.{name}": value for name, value in self.arguments.items()},
        }

    def to_json(self) -> str:
        """The point on one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Point:
        """The inverse of :meth:`to_json`."""
        told = json.loads(text)
        return cls(**{**told, "words": tuple(told["words"])})


def read_specification(path: Path) -> Specification:
    """Read a TOML file.

    Raises:
        SweepError: no such file, not TOML, an unknown key or a value of another type.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SweepError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return specification_of(table, str(path))


def specification_of(table: Mapping[str, Any], name: str = "the specification") -> Specification:
    """Check a specification given as a mapping.

    Raises:
        SweepError: names every key that is wrong.
    """
    try:
        made = Specification.model_validate(dict(table))
    except ValidationError as error:
        wrong = dict.fromkeys(map(_explained, error.errors()))
        raise SweepError(f"{name}: {'; '.join(wrong)}") from None
    made._name = name
    return made


def _explained(one: Any) -> str:
    """One error of the model in words: which key, what is wrong, and what would be right."""
    *sections, key = map(str, one["loc"] or ("the specification",))
    place = f" in [{'.'.join(sections)}]" if sections else ""
    if one["type"] == "extra_forbidden":
        models: dict[str, type[BaseModel]] = {"sample": Sample, "page": PageOptions}
        known = list((models.get(sections[0]) if sections else Specification).model_fields)  # type: ignore[union-attr]
        return f"there is no key {key!r}{place}{suggest(key, known) or ';'} keys: {', '.join(known)}"
    if one["type"] == "missing":
        return f"the key {key!r}{place} is missing"
    reason = str(one["msg"]).removeprefix("Value error, ")
    for text, plain in MESSAGES.items():
        reason = re.sub(text, plain, reason)
    given = f", not {one['input']!r}" if not isinstance(one["input"], dict | list) else ""
    if isinstance(one["input"], dict) and not sections:
        return f"[{key}] {reason}"
    return f"{'.'.join([*sections, key])} {reason}{given}"


def _placeholders(program: str) -> list[str]:
    try:
        found = [name for _, name, _, _ in string.Formatter().parse(program) if name is not None]
    except ValueError as error:
        raise SweepError(f"program {program!r}: {error}; write {{{{ and }}}} for braces") from None
    if "" in found:
        raise SweepError(f"program {program!r}: braces need the name of an argument")
    return list(dict.fromkeys(found))


def _combinations(axes: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _commands(specification: Specification, folder: Path) -> Iterator[tuple[str, tuple[str, ...], dict[str, Value]]]:
    """Each program with each of its arguments: as specified, as words, and its arguments."""
    used: set[str] = set()
    for program in specification.programs:
        names = _placeholders(program)
        used.update(names)
        if missing := [name for name in names if name not in specification.arguments]:
            raise SweepError(f"program {program!r} uses {{{missing[0]}}}, but [arguments] has no {missing[0]}")
        words = shlex.split(program)
        if not words:
            raise SweepError("programs has an empty command")
        for arguments in _combinations({name: specification.arguments[name] for name in names}):
            command = tuple(word.format(**arguments) for word in words)
            _check_program(command[0], folder)
            yield program, command, arguments
    if spare := [name for name in specification.arguments if name not in used]:
        raise SweepError(f"no program uses the argument {spare[0]}: write {{{spare[0]}}} where it belongs")


def _check_program(word: str, folder: Path) -> None:
    if is_python_file(word):
        if not (folder / word).is_file():
            raise SweepError(f"there is no file {folder / word}")
        return
    try:
        find_program(word)
    except ProgramError as error:
        raise SweepError(str(error)) from None


def _place_of(chip: str) -> str:
    """The part of the specification to which a chip's error belongs: ``chips`` if there is no such chip, else its overrides."""
    try:
        load_chip(chip)
    except ChipError:
        return "chips"
    return "[overrides]"


def points_of(specification: Specification, folder: Path) -> list[Point]:
    """The points of a specification, in order.

    Args:
        folder: where programs are started; relative paths begin there.

    Raises:
        SweepError: an unknown program, chip or field, or a value that a chip cannot have; names the specification.
    """
    try:
        return _points(specification, folder)
    except SweepError as error:
        raise SweepError(f"{specification.name}: {error}") from None


def _points(specification: Specification, folder: Path) -> list[Point]:
    axes = ("program", "chip", *specification.overrides, *specification.arguments)
    for name in (*specification.page.baseline, *filter(None, [specification.page.cost])):
        if name not in axes:
            raise SweepError(f"[page]: the sweep has no axis {name}; it has {', '.join(axes)}")
    if both := [name for name in specification.overrides if name in specification.arguments]:
        raise SweepError(f"{both[0]} is an override and an argument: give the argument another name")
    chips = [str(chips_named(name)[0] or name) for name in specification.chips]
    machines: list[tuple[str, dict[str, Value], str]] = []
    for chip in chips:
        for overrides in _combinations(specification.overrides):
            try:
                numbers = load_chip(chip, **overrides).model_dump_json()
            except ChipError as error:
                raise SweepError(f"{_place_of(chip)}: {error}") from None
            machines.append((chip, overrides, numbers))
    points = []
    for program, words, arguments in _commands(specification, folder):
        contents = [_digest(folder / word) for word in words]
        for chip, overrides, numbers in machines:
            depends = (__version__, words, contents, numbers, specification.timing, str(folder))
            points.append(
                Point(
                    key=hashlib.sha256(json.dumps(depends).encode()).hexdigest()[:24],
                    words=words,
                    chip=chip,
                    overrides=overrides,
                    arguments=arguments,
                    timing=specification.timing,
                    timeout_seconds=specification.timeout_seconds,
                    memory_mib=specification.memory_mib,
                    threads=specification.threads_per_point,
                    folder=str(folder),
                    program=program,
                )
            )
    unique = list({point.key: point for point in points}.values())
    sample = specification.sample
    if sample is not None and sample.count < len(unique):
        chosen = set(random.Random(sample.seed).sample(range(len(unique)), sample.count))
        unique = [point for number, point in enumerate(unique) if number in chosen]
    return unique

"""Launches by where the program made them: modules and operators of PyTorch, and ranges of NVTX (:mod:`warpwright.ranges`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpwright.tools.launch_tables import DRAM_BYTES, short_reason
from warpwright.tools.report.attribution import Arithmetic, arithmetic

if TYPE_CHECKING:
    from warpwright.ranges import Module
    from warpwright.run import Run

OUTSIDE = "outside modules"
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


@dataclass(slots=True)
class Share:
    """What some launches took together."""

    launches: int = 0
    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    dram_bytes: float = 0.0
    dram_seconds: float = 0.0
    """Of the launches whose traffic is counted: those that had the chip for themselves."""
    flops: float = 0.0
    tensor_flops: float = 0.0
    fp64_flops: float = 0.0
    allocated_bytes: int = 0
    """The most that the program's allocator had given out at one of the launches."""
    limits: dict[str, float] = field(default_factory=dict)
    """Seconds by what limits the launch."""
    kernels: dict[str, float] = field(default_factory=dict)
    """Seconds by kernel."""

    @property
    def seconds(self) -> float:
        """Simulated time."""
        return self.forward_seconds + self.backward_seconds

    @property
    def limit(self) -> tuple[str, float]:
        """What limits most of the time, and its share of the time."""
        name = max(self.limits, key=lambda one: self.limits[one], default="")
        return name, self.limits.get(name, 0.0) / self.seconds if self.seconds else 0.0

    def add(self, run: Run, work: Arithmetic | None) -> None:
        """Count a timed launch."""
        self.launches += 1
        origin = run.origin
        if origin is not None and origin.backward:
            self.backward_seconds += run.seconds
        else:
            self.forward_seconds += run.seconds
        if origin is not None:
            self.allocated_bytes = max(self.allocated_bytes, origin.allocated_bytes)
        if all(name in run.metrics for name in DRAM_BYTES):
            self.dram_bytes += sum(run.metrics[name] for name in DRAM_BYTES)
            self.dram_seconds += run.seconds
        if work is not None:
            self.flops += work.flops
            self.tensor_flops += work.tensor_flops
            self.fp64_flops += work.fp64_flops
        limit = "shared the chip" if run.shared else short_reason(run)
        self.limits[limit] = self.limits.get(limit, 0.0) + run.seconds
        self.kernels[run.kernel] = self.kernels.get(run.kernel, 0.0) + run.seconds


@dataclass(slots=True)
class Layer:
    """A module with the modules within it."""

    name: str
    """Within the module around it."""
    path: str
    type: str = ""
    parameter_bytes: int = 0
    """With those of the modules within that launched a kernel."""
    own: Share = field(default_factory=Share)
    """Of launches in this module and in none within it."""
    all: Share = field(default_factory=Share)
    children: dict[str, Layer] = field(default_factory=dict)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Layer]]:
        """The modules within, each with its depth, in the order of their first launches."""
        for child in self.children.values():
            yield depth, child
            yield from child.walk(depth + 1)


@dataclass(slots=True)
class Model:
    """All launches of a program by module, operator and range."""

    root: Layer
    outside: Share
    """Of launches outside of modules."""
    operators: dict[tuple[str, bool], Share]
    """By operator, and whether it belongs to the backward pass."""
    ranges: dict[tuple[str, ...], Share]
    kinds: dict[str, Share]
    """Of equal places: paths whose numbers are left open, ``GPT.blocks.*.qkv``."""

    @property
    def has_modules(self) -> bool:
        """Whether a launch belongs to a module."""
        return bool(self.root.children)


def kind_of(path: str) -> str:
    """A path whose numbers are left open."""
    return _NUMBER.sub("*", path)


def model_of(runs: Sequence[Run]) -> Model | None:
    """Launches by their origins; None where no timed launch has one."""
    found = Model(Layer("", ""), Share(), {}, {}, {})
    works: dict[int, Arithmetic | None] = {}
    noted = False
    for run in runs:
        origin = run.origin
        if not run.timed or origin is None or not (origin.module or origin.operator or origin.ranges):
            continue
        noted = True
        # A repeated launch has the timing of the earlier one.
        key = id(run.timing)
        if key not in works:
            works[key] = arithmetic(run) if run.program is not None and not run.shared else None
        _book(found, run, works[key])
    return found if noted else None


def _book(model: Model, run: Run, work: Arithmetic | None) -> None:
    origin = run.origin
    assert origin is not None
    if origin.module is None:
        model.outside.add(run, work)
    else:
        for layer in _layers(model.root, origin.module):
            layer.all.add(run, work)
        layer.own.add(run, work)
        model.kinds.setdefault(kind_of(origin.module.path), Share()).add(run, work)
    if origin.operator:
        model.operators.setdefault((origin.operator, origin.backward), Share()).add(run, work)
    if origin.ranges:
        model.ranges.setdefault(origin.ranges, Share()).add(run, work)


def _layers(root: Layer, module: Module) -> list[Layer]:
    """The layer of a module after those around it; made where they are new."""
    around: list[Layer] = []
    at = root
    for name in module.path.split("."):
        if name not in at.children:
            at.children[name] = Layer(name, f"{at.path}.{name}" if at.path else name)
        at = at.children[name]
        around.append(at)
    if not at.type:
        at.type = module.type
        for layer in around:
            layer.parameter_bytes += module.parameter_bytes
    return around

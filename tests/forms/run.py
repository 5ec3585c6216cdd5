"""Forms compiled and run: machine code in both engines, and PTX in its own front end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

import warpwright as ww
from tests.forms.form import BLOCKS, COUNT, SCRATCH_BYTES, Form, kernel, slots
from tests.forms.values import inputs, scratch_memory
from warpwright.chips import Chip, load_chip
from warpwright.engine.ptx_module import load_ptx
from warpwright.kernel import Module
from warpwright.toolchain.compile_errors import LinkError
from warpwright.toolchain.ptxas import assemble

CHIPS = {60: "p100", 70: "v100", 80: "a100", 90: "h200"}
"""Architectures with a chip of their own."""
RELATIVES = {61: "p100", 75: "v100", 86: "a100", 89: "a100"}
"""Architectures that run on a chip of the same family, of which only the compute capability is changed."""
ENGINES = ("compiled", "interpreter", "ptx")
MACHINE_CODE = ENGINES[:2]
BATCH = 64
"""Forms in one module."""
EXPECTED = (ww.WarpwrightError, NotImplementedError, ValueError)


@dataclass
class Batch:
    """Forms in one module; ``refused`` are those that the compiler does not take, with its reason."""

    arch: int
    target: str
    forms: list[Form]
    ptx: str = ""
    cubin: bytes = b""
    refused: dict[Form, str] = field(default_factory=dict)


def module_text(arch: int, target: str, forms: Sequence[Form]) -> str:
    kernels = "".join(kernel(form, n, inputs(form)[1]) for n, form in enumerate(forms))
    return f".version 8.8\n.target sm_{arch}{target}\n.address_size 64\n{kernels}"


def build(arch: int, target: str, forms: Sequence[Form]) -> Batch:
    """Compile forms into one module; forms that do not compile are taken out one by one."""
    batch = Batch(arch, target, list(forms))
    while batch.forms:
        batch.ptx = module_text(arch, target, batch.forms)
        try:
            batch.cubin = assemble(batch.ptx, f"{arch}{target}", name="forms.ptx", options=["-O3"])
            return batch
        except LinkError as error:
            wrong = blamed(batch, error)
            if not wrong:
                raise
            for form, why in wrong.items():
                batch.refused[form] = why
                batch.forms.remove(form)
    return batch


def blamed(batch: Batch, error: LinkError) -> dict[Form, str]:
    """The forms in whose kernels the lines stand that the assembler complains about."""
    lines = batch.ptx.split("\n")
    starts = [n + 1 for n, line in enumerate(lines) if line.startswith(".visible .entry")]
    found: dict[Form, str] = {}
    for message in error.diagnostics:
        line = message.line
        if not line or message.severity not in ("error", "fatal"):
            continue
        number = sum(start <= line for start in starts) - 1
        if number >= 0:
            found.setdefault(batch.forms[number], message.message)
    return found


def grouped(forms: Sequence[Form], size: int = BATCH) -> Iterator[tuple[str, list[Form]]]:
    """Forms that go into one module, with its target's letter."""
    for target in sorted({f.row.target for f in forms}):
        chosen = [f for f in forms if f.row.target == target]
        for at in range(0, len(chosen), size):
            yield target, chosen[at : at + size]


def batches(arch: int, forms: Sequence[Form], size: int = BATCH) -> Iterator[Batch]:
    for target, chosen in grouped(forms, size):
        yield build(arch, target, chosen)


def chip_of(arch: int) -> Chip:
    """A chip that runs an architecture's machine code."""
    if arch in CHIPS:
        return load_chip(CHIPS[arch])
    relative = load_chip(RELATIVES[arch])
    identity = relative.identity.model_copy(update={"compute_capability": f"{arch // 10}.{arch % 10}"})
    return relative.model_copy(update={"name": f"sm_{arch}", "identity": identity})


def open_module(batch: Batch, engine: str, chip: str | Chip) -> tuple[ww.GPU, Module]:
    if engine == "ptx":
        gpu = ww.GPU(chip, timing="off")
        return gpu, Module(gpu, load_ptx(batch.ptx, gpu.chip.arch, gpu.memory, "forms.ptx"))
    gpu = ww.GPU(chip, timing="off", engine=engine)
    return gpu, gpu.compile(batch.cubin)


def run(module: Module, form: Form, number: int) -> np.ndarray:
    """Result slots [slot, thread] and the scratch memory behind them, as bytes."""
    table, fixed = inputs(form)
    out = np.zeros((slots(form), COUNT), np.uint64)
    scratch = scratch_memory()
    blocks = COUNT // form.row.threads if form.row.threads < COUNT // BLOCKS else BLOCKS
    module[f"f{number}"][blocks, form.row.threads](table, out, scratch, *(np.uint64(v) for v in fixed))
    return np.concatenate([out.view(np.uint8).ravel(), scratch])


@dataclass
class Outcome:
    """What became of a form: results by engine, or why there is none."""

    form: Form
    arch: int
    results: dict[str, np.ndarray] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        return self.agree([e for e in ENGINES if e != "ptx" or not self.form.row.opaque])

    @property
    def misassembled(self) -> str:
        """Why PTX gives something else in some variants, where that is the assembler's doing and all others agree."""
        why, variants = self.form.misassembled(self.arch)
        if not variants or self.errors or not self.agree(MACHINE_CODE) or self.agrees:
            return ""
        size = COUNT * 8
        apart = np.flatnonzero(self.results[MACHINE_CODE[0]] != self.results["ptx"])
        places = apart // size // max(1, len(self.form.results))
        return why if all(int(n) in variants for n in np.unique(places)) else ""

    def agree(self, engines: Sequence[str]) -> bool:
        """Whether some engines have the same results."""
        got = [r for engine, r in self.results.items() if engine in engines]
        return not set(self.errors) & set(engines) and all(np.array_equal(got[0], other) for other in got[1:])

    def difference(self) -> str:
        """One line that says where engines part."""
        if self.errors:
            return "; ".join(f"{engine}: {why}" for engine, why in self.errors.items())
        names = list(self.results)
        table, fixed = inputs(self.form)
        for other in names[1:]:
            x, y = self.results[names[0]], self.results[other]
            where = np.flatnonzero(x != y)
            if len(where):
                return f"{names[0]} and {other}: " + explain(self.form, x, y, table, fixed)
        return "equal"


def explain(form: Form, x: np.ndarray, y: np.ndarray, table: np.ndarray, fixed: Sequence[int]) -> str:
    """The first result slot in which two outputs differ, with its operands."""
    size = slots(form) * COUNT * 8
    first, second = x[:size].view(np.uint64), y[:size].view(np.uint64)
    where = np.flatnonzero(first != second)
    if not len(where):
        at = int(np.flatnonzero(x != y)[0]) - size
        return f"scratch byte {at % SCRATCH_BYTES} of thread {at // SCRATCH_BYTES}"
    slot, thread = divmod(int(where[0]), COUNT)
    variant = form.variants[slot // max(1, len(form.results))]
    values = [int(table[n, thread]) if w == "r" else fixed[n] for n, w in enumerate(variant)]
    words = ", ".join(f"{v:#x}" for v in values[:4])
    return (
        f"{len(where)} of {first.size} differ, first result {slot % max(1, len(form.results))} of variant "
        f"{variant or '-'} for ({words}) in thread {thread}: {int(first[where[0]]):#x} and {int(second[where[0]]):#x}"
    )


def compare(batch: Batch, engines: Sequence[str] = ENGINES) -> list[Outcome]:
    """Run every form of a batch in each engine."""
    outcomes = [Outcome(form, batch.arch) for form in batch.forms]
    for engine in engines:
        try:
            gpu, module = open_module(batch, engine, chip_of(batch.arch))
        except EXPECTED as error:
            for outcome in outcomes:
                outcome.errors[engine] = f"module: {one_line(error)}"
            continue
        for number, outcome in enumerate(outcomes):
            try:
                outcome.results[engine] = run(module, outcome.form, number)
            except EXPECTED as error:
                outcome.errors[engine] = one_line(error)
        del gpu, module
    return outcomes


def one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]

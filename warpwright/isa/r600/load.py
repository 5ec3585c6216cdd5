"""Turns machine code of Cypress and Cayman into a :class:`Program`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from warpwright.chips.chip import GENERATIONS
from warpwright.isa.program import Instruction, Kind, Operand, Program
from warpwright.isa.r600.bindings import Bindings
from warpwright.isa.r600.decode import decode_program
from warpwright.isa.r600.items import Filtering, Flow, Item, items_of
from warpwright.isa.r600.launch_words import ENGINE_PARAMETERS_AT
from warpwright.isa.r600.text import alu_text, control_text, fetch_text, literal_text

LANES = 64
STEP_BYTES = 16
"""Address distance of the model's instructions, which are numbered in execution order."""
MOST_THREADS = 1024


@dataclass(slots=True)
class R600Program(Program):
    """A program with its items, one for each instruction."""

    generation: str = ""
    items: list[Item] = field(default_factory=list)
    global_share_address: int = 0
    """Device address of the chip's global data share; 0 if the program does not use it."""
    bindings: Bindings | None = None
    """The bindings of a graphics driver; None for a program compiled by LLVM or written in assembly."""
    images: Bindings | None = None
    """The images and samplers of its texture fetches."""

    @property
    def architecture(self) -> str:
        return self.generation


def program_from_code(
    code: bytes, generation: str, name: str, bindings: Bindings | None = None, images: Bindings | None = None
) -> R600Program:
    """Decode a kernel.

    Args:
        bindings: the bindings of a graphics driver's compute program.
        images: images and samplers of assembly.

    Raises:
        UndefinedWord: if the code is not a program of the chip.
        UnsupportedInstruction: for words without a meaning in a compute program.
    """
    items = items_of(decode_program(code, generation), bindings is not None, images or bindings)
    instructions = [_instruction(n, item, generation) for n, item in enumerate(items)]
    return R600Program(
        name,
        GENERATIONS[generation],
        instructions,
        parameter_base_bytes=ENGINE_PARAMETERS_AT,
        max_threads_per_block=MOST_THREADS,
        lanes=LANES,
        control_bits=False,
        generation=generation,
        items=items,
        bindings=bindings,
        images=images or bindings,
    )


def rebound(program: R600Program, code: bytes, images: Bindings) -> R600Program:
    """The same program with other images and samplers, on which the parts of its filters depend."""
    items = items_of(decode_program(code, program.generation), images=images)
    instructions = [_instruction(n, item, program.generation) for n, item in enumerate(items)]
    return replace(program, items=items, instructions=instructions, images=images)


def _instruction(n: int, item: Item, generation: str) -> Instruction:
    opcode, modifiers, text = described(item, generation)
    return Instruction(STEP_BYTES * n, opcode, modifiers, (Operand(Kind.NAME, name=text),))


def described(item: Item, generation: str) -> tuple[str, tuple[str, ...], str]:
    """Name, operation names of a bundle, and text of an item."""
    if item.bundle is not None:
        words = item.bundle.words
        texts = [alu_text(word).strip() for word in words]
        texts += [literal_text(value) for value in item.bundle.literals]
        return "BUNDLE", tuple(w.operation.name for w in words), "; ".join(texts)
    if item.filtering not in (Filtering.NONE, Filtering.MEAN):
        return "FILTER", (item.filtering.value,), ""
    if item.fetch is not None:
        return item.fetch.operation.name, (), fetch_text(item.fetch).strip()
    if item.second_read:
        return "LDS_READ2_RET", (), "second value"
    assert item.control is not None
    name = item.control.operation.name
    if item.tests_bounds:
        return "BOUNDS", (), ""
    if item.free:
        return {Flow.EXIT: "END", Flow.PUSH: "PUSH", Flow.LEAVE: "POP"}.get(item.flow, name), (), ""
    if item.control.rat_operation:
        return name, (item.control.rat_operation,), control_text(item.control, generation)
    return name, (), control_text(item.control, generation)

"""Assembles a kernel of a PTX module to NV50 machine code.

PTX for 64-bit pointers is accepted: an address is the lower word of its value, and code that computes unread upper
words is removed.  For ``fma.rn.f32``, which the compiler also generates for a product and a sum, the chip's
multiply-add is used; it truncates the product.  Compute capability 1.x has no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpwright.isa.bank0 import PARAMETER_BASE
from warpwright.isa.nv50.assembler import (
    division,
    select_control,
    select_float,
    select_integer,
    select_memory,
    select_warp,
)
from warpwright.isa.nv50.assembler.allocate import MOST_REGISTERS, allocate, apply
from warpwright.isa.nv50.assembler.cleanup import clean
from warpwright.isa.nv50.assembler.layout import assemble
from warpwright.isa.nv50.assembler.selector import Selector
from warpwright.isa.nv50.assembler.virtual_instructions import Code
from warpwright.isa.nv50.decode import decode_section
from warpwright.isa.nv50.launch_words import header_bytes
from warpwright.isa.ops import Op
from warpwright.isa.program import Instruction as ProgramInstruction
from warpwright.isa.program import Parameter, Program
from warpwright.isa.ptx.control_flow import Step
from warpwright.isa.ptx.load import find_kernel
from warpwright.isa.ptx.lower import Assembler, Unit, guard_of, steps_of
from warpwright.isa.ptx.meaning import Context, Emitter, Place, Storage, UnsupportedInstruction, type_of, unsupported
from warpwright.isa.ptx.stack_frames import FrameSize, LocalEnd, kernel_parameters
from warpwright.isa.ptx.syntax import Function, Instruction, Module

_FILLED = (division, select_control, select_float, select_integer, select_memory, select_warp)
LOWERED_AS = 60
"""The oldest architecture, whose meanings of PTX instructions are used."""
THREADS_PER_BLOCK = 512
REGISTERS_PER_SM = 8192


@dataclass(frozen=True, slots=True)
class Assembled:
    """The machine code of one kernel."""

    program: Program
    code: bytes


def assemble_kernel(module: Module, kernel: str, arch: int, symbols: Mapping[str, int], name: str) -> Assembled:
    """Assemble one kernel.

    Args:
        arch: compute capability times ten: 10 to 13.
        symbols: device address of each global variable, offset in ``c0[]`` of each constant one.
        name: name of the PTX text in messages.

    Raises:
        UnsupportedInstruction: naming kernel, line and text of an instruction without an equivalent on the chip.
        KernelNotFoundError: for an unknown kernel.
    """
    return _Nv50Assembler(module, find_kernel(module, kernel, name), arch, symbols, name).assembled()


def special_steps(context: Context, i: Instruction, lacking: str = "needs compute capability 2.0") -> list[Step] | None:
    """Steps of instructions that other chips compute differently; None for all others.  ``lacking`` is the message for
    those that the chip does not have."""
    if i.opcode in ("div", "rem") and type_of(i) not in ("f32", "f64"):
        type = type_of(i)
        b = Emitter(context)
        x, y = (b.source(o, type) for o in i.operands[1:])
        b.ops.append(Op(("s" if type[0] == "s" else "u") + i.opcode, b.type_of(x), (x, y)))
        b.result(i.operands[0], len(b.ops) - 1, type[0] == "s")
        return [Step(b.ops, guard_of(context, i), i)]
    if i.opcode in ("sin", "cos") and type_of(i) == "f32":
        b = Emitter(context)
        x = b.source(i.operands[1], "f32")
        b.result(i.operands[0], b.op("mufu", "f32", x, attr=f"{i.opcode} radians"))
        return [Step(b.ops, guard_of(context, i), i)]
    if i.opcode in ("div", "sqrt", "rcp") and type_of(i) == "f32" and not {"approx", "full"} & set(i.modifiers):
        raise unsupported(f"a correctly rounded {i.opcode} of f32 {lacking}; this chip has {i.opcode}.approx")
    return None


def multiply24_steps(context: Context, i: Instruction) -> list[Step]:
    """Steps of a product of 24-bit numbers, for which the selector emits one instruction."""
    b = Emitter(context)
    type = type_of(i)
    x, y, *addend = (b.source(o, type) for o in i.operands[1:])
    b.ops.append(Op("mul", "i32", (x, y), (type[0] == "s", "hi" in i.modifiers)))
    product = len(b.ops) - 1
    b.result(i.operands[0], b.add(product, addend[0]) if addend else product)
    return [Step(b.ops, guard_of(context, i), i)]


class _Nv50Assembler(Assembler):
    """The PTX front end with this chip's register layout instead of virtual registers."""

    def __init__(self, module: Module, kernel: Function, arch: int, symbols: Mapping[str, int], name: str) -> None:
        super().__init__(module, kernel, LOWERED_AS, symbols, name)
        self.machine_arch = arch
        offsets = kernel_parameters(kernel, PARAMETER_BASE[LOWERED_AS // 10])
        ends = [o + v.size_bytes for o, v in zip(offsets, kernel.prototype.parameters, strict=True)]
        self.parameter_bytes = max(ends, default=0)
        self.header = header_bytes(self.parameter_bytes)
        self.exchange_bytes = select_warp.EXCHANGE_BYTES if self.exchanges() else 0

    def at(self, i: Instruction, why: str) -> UnsupportedInstruction:
        return UnsupportedInstruction(
            f"kernel {self.kernel.name}: cannot assemble line {i.line} of {self.name} (sm_{self.machine_arch}): {i.text}: {why}"
        )

    def steps(self, context: Context, i: Instruction) -> list[Step]:
        if i.opcode in ("mul24", "mad24") and "sat" not in i.modifiers:
            return multiply24_steps(context, i)
        found = special_steps(context, i)
        return steps_of(context, i) if found is None else found

    def assembled(self) -> Assembled:
        self.prepare()
        # Shared memory begins with the words of the launch, followed by the words through which lanes exchange values.
        own = self.header + self.exchange_bytes
        self.shared = {n: Storage(p.space, p.offset + own) for n, p in self.shared.items()}
        self.translate()
        selector = self.select()
        code = selector.code
        clean(code)
        local = -(-self.local_bytes() // 4) * 4
        allocation, local = allocate(code, self.most_registers(), {selector.position: 0}, local)
        apply(code, allocation)
        data, placed = assemble(code, self.machine_arch)
        lines = {address: i.line for address, i in placed}
        instructions = [
            ProgramInstruction(
                i.address, i.opcode, i.modifiers, i.operands, i.guard, i.control, i.encoding, lines[i.address]
            )
            for i in decode_section(data, self.machine_arch)
        ]
        return Assembled(self.machine_program(instructions, max(allocation.count, 1), local), data)

    def exchanges(self) -> bool:
        """Whether the kernel, or a function that it may call, exchanges values between lanes."""
        functions = [f for f in self.module.functions.values() if not f.is_kernel or f is self.kernel]
        return any(
            isinstance(i, Instruction) and (i.opcode in select_warp.EXCHANGES or "red" in i.modifiers)
            for f in functions
            for i in f.statements
        )

    def most_registers(self) -> int:
        """Registers per thread available to a block of the declared size; all that can be named if no size is
        declared."""
        limit = 1
        for extent in self.kernel.limits.get("maxntid") or self.kernel.limits.get("reqntid") or (1,):
            limit *= extent
        return max(8, min(MOST_REGISTERS, REGISTERS_PER_SM // max(-(-limit // 64) * 64, 1)))

    def select(self) -> Selector:
        """Instructions over virtual registers for every step."""
        selector = Selector(Code(), self.machine_arch, self.header, PARAMETER_BASE[LOWERED_AS // 10])
        selector.position = selector.new()
        selector.exchange_base = self.header if self.exchange_bytes else 0
        selector.barrier_result = selector.new()
        units = list(self.units.values())
        for unit in units:
            selector.emit("label", label=function_label(unit.function.name))
            selector.begin_block()
            if unit.function.is_kernel:
                # Reserves the thread's position from the first instruction on.
                selector.emit("nop", "nop")
            for position, block in enumerate(unit.blocks):
                selector.line = None
                selector.emit("label", label=place_label(unit, block.label))
                selector.begin_block()
                for step in block.steps:
                    self.select_step(selector, unit, step)
                following = unit.blocks[position + 1].label if position + 1 < len(unit.blocks) else None
                if block.next is not None and block.next != following:
                    selector.emit("bra", label=place_label(unit, block.next))
        return selector

    def select_step(self, selector: Selector, unit: Unit, step: Step) -> None:
        if step.instruction is not None:
            selector.line = self.line_of(step.instruction)
        first = len(selector.code.instructions)
        ops = [self.resolved(op) for op in step.ops]
        try:
            if step.returns_to:
                last = ops.pop()
                if last.name != "branch":
                    raise unsupported("calls through pointers need compute capability 2.0")
                label = ""
                selector.run(ops, step.guard)
                label = select_control.around(selector)
                selector.emit("call", label=function_label(self.module.aliases.get(last.attr.name, last.attr.name)))
                selector.begin_block()
                select_control.land(selector, label)
            else:
                selector.run(ops, step.guard)
        except UnsupportedInstruction as error:
            if step.instruction is None:
                raise UnsupportedInstruction(f"kernel {self.kernel.name} (sm_{self.machine_arch}): {error}") from None
            raise self.at(step.instruction, str(error)) from None
        for i in selector.code.instructions[first:]:
            if (
                i.label
                and i.opcode not in ("label", "call")
                and not i.label.startswith(("@around", "@divide", "@function ", "@place "))
            ):
                i.label = place_label(unit, i.label)

    def resolved(self, op: Op) -> Op:
        """An operation whose attribute names are resolved."""
        if isinstance(op.attr, FrameSize):
            return op._replace(attr=self.units[op.attr.function].frame.aligned_bytes)
        if isinstance(op.attr, LocalEnd):
            return op._replace(attr=self.local_bytes())
        if op.name == "const" and isinstance(op.attr, Place) and op.attr.name in self.module.functions:
            raise unsupported("addresses of functions need compute capability 2.0")
        return op

    def machine_program(self, instructions: list[ProgramInstruction], registers: int, local: int) -> Program:
        program = self.program([])
        program.arch = self.machine_arch
        program.instructions = instructions
        base = PARAMETER_BASE[self.machine_arch // 10]
        program.parameters = [Parameter(p.ordinal, p.offset_bytes, p.size_bytes) for p in program.parameters]
        program.parameter_base_bytes = base
        program.parameter_size_bytes = self.parameter_bytes
        program.registers = registers
        program.shared_static_bytes = self.header + self.exchange_bytes + self.shared_bytes
        program.local_bytes_per_thread = -(-local // 16) * 16
        program.max_threads_per_block = min(program.max_threads_per_block, THREADS_PER_BLOCK)
        program.facts.pop("parameter window", None)
        program.work = None  # as machine instructions have it; they have no control bits either
        return program


def function_label(name: str) -> str:
    return f"@function {name}"


def place_label(unit: Unit, label: str) -> str:
    return f"@place {unit.function.name} {label}"

"""Compiles a kernel of a PTX module to R600 machine code.

The PTX front end produces blocks of common operations; they become scalar LLVM IR of one thread, with calls inlined,
32-bit pointers and the kernel's parameters as words; LLVM's back end generates the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warpwright.errors import UnsupportedError
from warpwright.isa.bank0 import PARAMETER_BASE
from warpwright.isa.nv50.assembler.from_ptx import special_steps
from warpwright.isa.ops import Op
from warpwright.isa.program import Program
from warpwright.isa.ptx.control_flow import Step
from warpwright.isa.ptx.load import find_kernel
from warpwright.isa.ptx.lower import Assembler, Unit, steps_of
from warpwright.isa.ptx.meaning import Context, Place, Storage, UnsupportedInstruction
from warpwright.isa.ptx.stack_frames import FrameSize, LocalEnd, kernel_parameters
from warpwright.isa.ptx.syntax import Function, Instruction, Module
from warpwright.isa.r600.compiler import lanes, llvm_values, memory_accesses
from warpwright.isa.r600.compiler.finish import finished
from warpwright.isa.r600.compiler.writer import HANDLERS, Writer, refuse
from warpwright.isa.r600.launch_words import ENGINE_PARAMETERS_AT
from warpwright.isa.r600.load import program_from_code
from warpwright.toolchain.r600 import compile_ir

_FILLED = (llvm_values, memory_accesses, lanes)
LOWERED_AS = 10 * memory_accesses.FRONT_END_MAJOR
THREADS_PER_BLOCK = 1024
PLAIN = frozenset(("set_reg", "set_reg64", "set_pred"))
"""Operations on state for which a guard selects the new value; every other effect is jumped over."""
_MOVES = frozenset(("load", "store", "atomic", "load_const", "fence", "barrier", "barrier_red", "trap", "special"))
_LANES = frozenset(("shuffle", "ballot", "active", "match_any"))


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's machine code."""

    program: Program
    code: bytes
    ir: str


def compile_kernel(
    module: Module, kernel: str, generation: str, symbols: Mapping[str, int], constants_address: int, name: str
) -> Compiled:
    """Compile one kernel.

    Args:
        generation: evergreen or cayman.
        symbols: device address of each global variable, offset in the constant variables' memory of each constant one.
        constants_address: device address of that memory.
        name: name of the PTX text in messages.

    Raises:
        UnsupportedInstruction: naming kernel, line and text of an instruction that the chip or its compiler has no
        equivalent of. KernelNotFoundError: for an unknown kernel.
    """
    return _Compiler(module, find_kernel(module, kernel, name), generation, symbols, constants_address, name).compiled()


@dataclass
class _Place:
    """A call site at which a function is inlined."""

    unit: Unit
    prefix: str
    returns_to: str = ""
    path: tuple[str, ...] = field(default=())

    def label(self, name: str) -> str:
        return f"{self.prefix}{name}"


class _Compiler(Assembler):
    """The PTX front end with LLVM IR instead of virtual registers."""

    def __init__(
        self,
        module: Module,
        kernel: Function,
        generation: str,
        symbols: Mapping[str, int],
        constants_address: int,
        name: str,
    ) -> None:
        super().__init__(module, kernel, LOWERED_AS, symbols, name)
        self.generation = generation
        self.constants_address = constants_address
        self.inlined = 0

    def at(self, i: Instruction, why: str) -> UnsupportedInstruction:
        return UnsupportedInstruction(
            f"kernel {self.kernel.name}: cannot compile line {i.line} of {self.name} ({self.generation}): {i.text}: {why}"
        )

    def steps(self, context: Context, i: Instruction) -> list[Step]:
        found = special_steps(context, i, "is not an instruction of this chip")
        return steps_of(context, i) if found is None else found

    # --- the whole --------------------------------------------------------------------------------------------
    def compiled(self) -> Compiled:
        self.prepare()
        limit = self.block_limit()
        exchange = lanes.exchange_bytes(limit) if self.instructions_named(lanes.EXCHANGES, "red") else 0
        # Local data share begins with the words through which lanes exchange values.
        self.shared = {n: Storage(p.space, p.offset + exchange) for n, p in self.shared.items()}
        self.translate()
        w = Writer(
            PARAMETER_BASE[memory_accesses.FRONT_END_MAJOR],
            self.constants_address,
            local_words=-(-self.local_bytes() // 4),
            shared_pointers=self.takes_addresses("shared"),
            local_pointers=self.takes_addresses("local"),
        )
        first = next(iter(self.units.values()))
        self.write(w, _Place(first, ""))
        text = self.module_text(w, first)
        if not exchange and any(f"@{name}(" in text for name in lanes.USERS):
            raise UnsupportedInstruction(
                f"kernel {self.kernel.name}: lanes exchange values in an instruction that should not"
            )
        helpers = lanes.helpers(0, limit) if "@ww." in text else ""
        try:
            made = compile_ir(text, helpers, self.generation)
        except UnsupportedError as error:
            raise UnsupportedInstruction(f"kernel {self.kernel.name} ({self.generation}): {error}") from None
        code = finished(made.code, self.generation)
        program = program_from_code(code, self.generation, self.kernel.name)
        self.describe_program(program, made.registers, exchange)
        return Compiled(program, code, text)

    def block_limit(self) -> int:
        limit = 1
        for extent in self.kernel.limits.get("maxntid") or self.kernel.limits.get("reqntid") or (THREADS_PER_BLOCK,):
            limit *= extent
        return min(limit, THREADS_PER_BLOCK)

    def describe_program(self, program: Program, registers: int, exchange: int) -> None:
        program.parameters = list(self.program([]).parameters)
        program.parameter_base_bytes = ENGINE_PARAMETERS_AT
        program.parameter_size_bytes = max((p.offset_bytes + p.size_bytes for p in program.parameters), default=0)
        program.registers = max(registers, 1)
        program.shared_static_bytes = exchange + self.shared_bytes
        program.barriers = self.barriers()
        program.max_threads_per_block = self.block_limit()

    def instructions_named(self, opcodes: frozenset[str], modifier: str = "") -> bool:
        """Whether the kernel, or a function that it may call, contains one of these instructions."""
        functions = [f for f in self.module.functions.values() if not f.is_kernel or f is self.kernel]
        return any(
            isinstance(i, Instruction)
            and (i.opcode in opcodes or (i.opcode in ("bar", "barrier") and modifier in i.modifiers))
            for f in functions
            for i in f.statements
        )

    def takes_addresses(self, space: str) -> bool:
        """Whether code takes generic addresses of a space."""
        functions = [f for f in self.module.functions.values() if not f.is_kernel or f is self.kernel]
        return any(
            isinstance(i, Instruction)
            and i.opcode == "cvta"
            and "to" not in i.modifiers
            and any(m.startswith(space) for m in i.modifiers)
            for f in functions
            for i in f.statements
        )

    # --- text -------------------------------------------------------------------------------------------------
    def module_text(self, w: Writer, first: Unit) -> str:
        """The module: declarations and the kernel."""
        offsets = kernel_parameters(self.kernel, PARAMETER_BASE[memory_accesses.FRONT_END_MAJOR])
        ends = [o + v.size_bytes for o, v in zip(offsets, self.kernel.prototype.parameters, strict=True)]
        words = -(-max(ends, default=0) // 4)
        body, w.lines = w.lines, []
        w.emit("%barrier_result = alloca i32, addrspace(5)")
        w.emit("%return_slot = alloca i32, addrspace(5)")
        if any("%return_slot" in line for line in body):
            self.return_slot(w)
        w.jump(first.blocks[0].label)
        prologue = w.lines
        arguments = ", ".join(f"i32 %parameter{n}" for n in range(words))
        return "\n".join(
            (
                'target triple = "r600--"',
                *sorted(w.declared),
                f"define amdgpu_kernel void @kernel({arguments}) {{",
                "start:",
                *w.variables(),
                *prologue,
                *body,
                "end:",
                "  ret void",
                "}",
                "",
            )
        )

    def return_slot(self, w: Writer) -> None:
        """The thread's number in the grid, which selects its slot of old values."""
        groups = [w.call("i32", f"llvm.r600.read.tgid.{axis}") for axis in "xyz"]
        counts = [w.call("i32", f"llvm.r600.read.ngroups.{axis}") for axis in "xy"]
        sizes = [w.call("i32", f"llvm.r600.read.local.size.{axis}") for axis in "xyz"]
        rows = w.let(f"add i32 {w.let(f'mul i32 {groups[2]}, {counts[1]}')}, {groups[1]}")
        block = w.let(f"add i32 {w.let(f'mul i32 {rows}, {counts[0]}')}, {groups[0]}")
        size = w.let(f"mul i32 {w.let(f'mul i32 {sizes[0]}, {sizes[1]}')}, {sizes[2]}")
        slot = w.let(f"add i32 {w.let(f'mul i32 {block}, {size}')}, {memory_accesses.linear_thread(w)}")
        w.emit(f"store i32 {slot}, ptr addrspace(5) %return_slot")

    def write(self, w: Writer, place: _Place) -> None:
        """Write a function's blocks for one call site."""
        unit = place.unit
        inlined: list[_Place] = []
        for block in unit.blocks:
            w.label(place.label(block.label))
            ended = False
            for step in block.steps:
                ended = self.write_step(w, place, step, inlined)
            if not ended:
                w.jump(place.label(block.next) if block.next is not None else "end")
        for callee in inlined:
            self.write(w, callee)

    def write_step(self, w: Writer, place: _Place, step: Step, inlined: list[_Place]) -> bool:
        """Write one step; returns whether control never continues after it."""
        ops = [self.resolved(op) for op in step.ops]
        try:
            return self.write_operations(w, place, step, ops, inlined)
        except UnsupportedInstruction as error:
            if step.instruction is None:
                raise UnsupportedInstruction(f"kernel {self.kernel.name} ({self.generation}): {error}") from None
            raise self.at(step.instruction, str(error)) from None

    def write_operations(self, w: Writer, place: _Place, step: Step, ops: list[Op], inlined: list[_Place]) -> bool:
        w.guard = ""
        condition = ""
        if step.guard is not None:
            condition = w.read_predicate(step.guard[1])
            if step.guard[2]:
                condition = w.let(f"xor i1 {condition}, true")
        last = ops[-1] if ops else None
        if last is None:
            return False
        ends = last.name in ("branch", "branch_indirect", "exit") or bool(step.returns_to) or step.leaves
        if not ends:
            self.write_plain(w, ops, condition)
            return False
        return self.write_jump(w, place, step, ops, condition, inlined)

    def write_plain(self, w: Writer, ops: list[Op], condition: str) -> None:
        """Write a step after which control continues: register writes become selects, all other effects are jumped
        over."""
        if not condition or not any(op.name in _MOVES or op.name in _LANES for op in ops):
            w.guard = condition
            w.run(ops)
            w.guard = ""
            return
        taken, after = w.new_label("guarded"), w.new_label("after")
        w.branch(condition, taken, after)
        w.label(taken)
        w.run(ops)
        w.jump(after)
        w.label(after)

    def write_jump(
        self, w: Writer, place: _Place, step: Step, ops: list[Op], condition: str, inlined: list[_Place]
    ) -> bool:
        """Write a step that ends its block; returns whether control never continues after it."""
        last = ops[-1]
        after = w.new_label("after")
        if condition and (len(ops) > 1 or step.returns_to or step.leaves or last.name == "branch_indirect"):
            taken = w.new_label("guarded")
            w.branch(condition, taken, after)
            w.label(taken)
        if step.returns_to:
            w.run(ops[:-1])
            self.inline(w, place, step, last, inlined)
        elif step.leaves:
            w.jump(place.returns_to)
        elif last.name == "branch_indirect":
            w.run(ops[:-1])
            self.write_table(w, place, last)
        else:
            w.run(ops[:-1])
            target = "end" if last.name == "exit" else place.label(last.attr.name)
            asked = w.values[last.args[0]] if last.args else ""
            if condition and len(ops) == 1:
                w.branch(condition, target, after)
            elif asked:
                w.branch(asked, target, after)
            else:
                w.jump(target)
                if not condition:
                    return True
            w.label(after)
            return False
        if condition:
            w.label(after)
            return False
        return True

    def inline(self, w: Writer, place: _Place, step: Step, last: Op, inlined: list[_Place]) -> None:
        """Write the callee's blocks for this call only."""
        if last.name != "branch":
            raise refuse("calls through pointers: the chip's stack holds no addresses of functions")
        name = self.module.aliases.get(last.attr.name, last.attr.name)
        path = (*place.path, place.unit.function.name)
        if name in path:
            raise refuse(f"{name} calls itself: LLVM's R600 back end inlines every call")
        self.inlined += 1
        callee = _Place(self.units[name], f"{name}.{self.inlined}.", place.label(step.returns_to), path)
        w.jump(callee.label(callee.unit.blocks[0].label))
        inlined.append(callee)

    def write_table(self, w: Writer, place: _Place, last: Op) -> None:
        """Jump to one of several numbered labels."""
        number = w.word(w.values[last.args[0]], "i64")
        targets = list(dict.fromkeys(last.attr))
        rows = [f'i32 {w.labels.setdefault(p, len(w.labels) + 1)}, label %"{place.label(p.name)}"' for p in targets[1:]]
        w.emit(f'switch i32 {number}, label %"{place.label(targets[0].name)}" [ {" ".join(rows)} ]')

    def resolved(self, op: Op) -> Op:
        """An operation whose attribute names are resolved."""
        if isinstance(op.attr, FrameSize):
            return op._replace(attr=self.units[op.attr.function].frame.aligned_bytes)
        if isinstance(op.attr, LocalEnd):
            return op._replace(attr=self.local_bytes())
        if op.name == "const" and isinstance(op.attr, Place) and op.attr.name in self.module.functions:
            raise refuse("addresses of functions: the chip's stack holds none")
        return op


__all__ = ["HANDLERS", "Compiled", "compile_kernel"]

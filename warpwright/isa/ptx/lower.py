"""Lowers one kernel of a parsed module to a :class:`Program` and its common operations.

The kernel comes first, then every device function that it can reach.  Each function becomes steps (``meaning``),
blocks with convergence barriers (``control_flow``) and calls with frames (``stack_frames``); then all functions are
laid out, 16 bytes per step, and the places that attributes name become addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from warpwright.isa.bank0 import BANK_WINDOW, CONSTANT_WINDOW, PARAMETER_BASE, PARAMETER_WINDOW
from warpwright.isa.ops import Access, Lowered, Op, verify
from warpwright.isa.program import RZ, Kind, Parameter, Program
from warpwright.isa.program import Instruction as ProgramInstruction
from warpwright.isa.program import Operand as ProgramOperand
from warpwright.isa.ptx import (  # noqa: F401  (importing a meaning module fills the table)
    meaning_copy,
    meaning_float,
    meaning_integer,
    meaning_mbarrier,
    meaning_memory,
    meaning_move,
    meaning_stack,
    meaning_tensor,
    meaning_texture,
    meaning_video,
    meaning_video_simd,
    meaning_warp,
    meaning_wgmma,
)
from warpwright.isa.ptx.call_operands import (
    argument_words,
    call_parts,
    copy_in,
    copy_out,
    load_values,
    registers_of,
    store_values,
)
from warpwright.isa.ptx.control_flow import Block, Step, ends_run, reconverge, split_blocks
from warpwright.isa.ptx.meaning import (
    MEANINGS,
    Context,
    Emitter,
    Place,
    Storage,
    UnsupportedInstruction,
    unsupported,
)
from warpwright.isa.ptx.meaning_stack import takes_stack
from warpwright.isa.ptx.referenced_symbols import address_taken, referenced
from warpwright.isa.ptx.requirements import lacks
from warpwright.isa.ptx.schedule import takes_time, work_of
from warpwright.isa.ptx.schedule_fermi import work_of_fermi
from warpwright.isa.ptx.special_registers import CURRENT_GRAPH_EXEC
from warpwright.isa.ptx.stack_frames import (
    Frame,
    FrameSize,
    LocalEnd,
    Returns,
    kernel_parameters,
    live_after_calls,
    make_frame,
    max_live,
    place_shared,
    save_steps,
    signature,
)
from warpwright.isa.ptx.syntax import (
    BITS,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Prototype,
    PtxError,
    Register,
    Special,
    Symbol,
)
from warpwright.isa.services import ENDING, RESULT_BYTES, SERVICES

STEP_BYTES = 16
RECURSION_STACK_BYTES = 16 << 10
"""Local memory after the known frames if recursion or calls through pointers make the depth unknown."""
FIRST_COMPILED = 50
"""The first architecture for which a compiler is available."""
MOST_REGISTERS = 64
"""Limit of the register estimate: the number at which a block of 1,024 threads fits on any chip."""
FERMI_REGISTERS = 63 & ~1
"""CUDA C Programming Guide 3.2, appendix F: at most 63 registers per thread; the number per warp is even."""
STACK, CARRY = 1, 0
"""Register with the frame's offset, and predicate of the carry flag; both are shared by all functions."""
FIRST_REGISTER, FIRST_PREDICATE = meaning_stack.TAKEN + 1, 1


@dataclass(slots=True)
class Unit:
    """One function while it is lowered."""

    function: Function
    frame: Frame
    context: Context
    blocks: list[Block] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    """Functions that it calls; "*" stands for a call through a pointer."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """A kernel in the form that the engines take."""

    program: Program
    lowered: list[Lowered]
    addresses: dict[str, int]
    """Code addresses of the functions."""


class Assembler:
    """Lowers one kernel of a module.

    Args:
        symbols: device address of each global variable, and offset in bank 3 of each constant one.
        name: name of the PTX text in messages.
    """

    def __init__(self, module: Module, kernel: Function, arch: int, symbols: Mapping[str, int], name: str) -> None:
        self.module = module
        self.kernel = kernel
        self.arch = arch
        self.symbols = symbols
        self.name = name
        self.units: dict[str, Unit] = {}
        self.taken = address_taken(module)
        self.next_register = FIRST_REGISTER
        self.next_predicate = FIRST_PREDICATE
        self.return_places: dict[str, list[tuple[str, str]]] = {}
        self.shared: dict[str, Storage] = {}
        self.shared_bytes = 0
        self.serial = 0
        self.services: list[str] = []

    # --- the whole --------------------------------------------------------------------------------
    def assemble(self) -> Lowering:
        self.prepare()
        self.translate()
        return self.finish()

    def prepare(self) -> None:
        """Place shared variables."""
        reached = self.reachable()
        shared = [v for f in reached for v in f.variables.values() if v.space == "shared"]
        used = referenced(reached)
        shared += [v for v in self.module.variables.values() if v.space == "shared" and v.name in used]
        self.shared, self.shared_bytes = place_shared(shared)

    def translate(self) -> None:
        """Translate functions to blocks of steps."""
        for function in self.reachable():
            self.units[function.name] = self.begin(function)
        for unit in self.units.values():
            self.emit(unit)
        for unit in self.units.values():
            self.save_around_calls(unit)

    def steps(self, context: Context, i: Instruction) -> list[Step]:
        """The steps of one instruction that is neither a call nor a return."""
        return steps_of(context, i)

    def reachable(self) -> list[Function]:
        """The kernel and all functions that it may call or take the address of, in the order of discovery."""
        found = {self.kernel.name: self.kernel}
        queue = [self.kernel]

        def meet(callee: Function) -> None:
            if callee.name not in found:
                found[callee.name] = callee
                queue.append(callee)

        while queue:
            function = queue.pop(0)
            for name in sorted(referenced([function]) & self.taken):
                meet(self.module.functions[name])
            for statement in function.statements:
                if not isinstance(statement, Instruction) or statement.opcode != "call":
                    continue
                target = call_parts(statement)[1]
                names = [target.name] if isinstance(target, Symbol) else sorted(self.taken)
                for name in names:
                    callee = self.module.functions.get(self.module.aliases.get(name, name))
                    if callee is None or not callee.defined:
                        if isinstance(target, Symbol) and name not in SERVICES:
                            raise self.at(statement, provided_by_driver(name))
                        continue
                    meet(callee)
        return list(found.values())

    def at(self, i: Instruction, why: str) -> UnsupportedInstruction:
        """An error about an instruction."""
        return UnsupportedInstruction(
            f"kernel {self.kernel.name}: cannot execute line {i.line} of {self.name} (sm_{self.arch}): {i.text}: {why}"
        )

    # --- one function -----------------------------------------------------------------------------
    def begin(self, function: Function) -> Unit:
        """Number the function's registers and place its variables."""
        registers: dict[str, tuple[int, str]] = {}
        for name, type in function.registers.items():
            if type == "pred":
                if self.next_predicate == 7:
                    self.next_predicate += 1  # PT
                registers[name] = self.next_predicate, type
                self.next_predicate += 1
                continue
            count = max(1, BITS.get(type, 32) // 32)
            number = self.next_register
            if number <= RZ < number + count:
                number = RZ + 1
            registers[name] = number, type
            self.next_register = number + count
        frame = make_frame(function, PARAMETER_BASE[self.arch // 10])
        major = self.arch // 10
        context = Context(
            self.arch,
            registers,
            CARRY,
            self.resolver(function, frame),
            None if function.is_kernel else STACK,
            CONSTANT_WINDOW[major],
            function.targets,
            PARAMETER_WINDOW.get(major),
            BANK_WINDOW.get(major),
            PARAMETER_BASE[major],
        )
        return Unit(function, frame, context)

    def resolver(self, function: Function, frame: Frame) -> Callable[[str], Storage]:
        def resolve(name: str) -> Storage:
            if name in frame.places:
                return frame.places[name]
            if name in self.shared:
                return self.shared[name]
            name = self.module.aliases.get(name, name)
            if name in self.module.functions:
                return Storage("code")
            variable = self.module.variables.get(name)
            if variable is None:
                raise unsupported(f"{name} is not declared")
            if name not in self.symbols:
                raise unsupported(f"variable {name} of .{variable.space} memory is not defined in this module")
            return Storage(variable.space, self.symbols[name])

        return resolve

    def emit(self, unit: Unit) -> None:
        """Translate statements to steps, blocks and convergence barriers."""
        function = unit.function
        items: list[Step | str] = []
        at_entry: list[Step] = []
        at_return: list[Step] = []
        if takes_stack((function,) if not function.is_kernel else (u.function for u in self.units.values())):
            at_entry, at_return = meaning_stack.at_entry(function, unit.frame, unit.context.stack)
        items += at_entry
        if not function.is_kernel:
            items += self.parameters_to_registers(unit)
        returns = 0
        for statement in function.statements:
            if isinstance(statement, Label):
                items.append(statement.name)
                continue
            if why := lacks(statement, self.arch):
                raise self.at(statement, f"{statement.opcode}: {why}")
            try:
                if statement.opcode == "call":
                    items += self.call(unit, statement)
                elif statement.opcode == "ret":
                    returns += 1
                    items += self.ret(unit, statement)
                else:
                    items += self.steps(unit.context, statement)
            except UnsupportedInstruction as error:
                raise self.at(statement, str(error)) from None
        last = next((x for x in reversed(items) if isinstance(x, Step)), None)
        if function.is_kernel:
            if last is None or isinstance(items[-1], str) or not ends_run(last):
                items.append(Step([Op("exit", "void", ())], None, None, "exit"))
        else:
            items += ["@return", *at_return]
            items += self.epilogue(unit)
        self.check_targets(function, items)
        unit.blocks = reconverge(split_blocks(items))

    def check_targets(self, function: Function, items: list[Step | str]) -> None:
        """Raise PtxError for a branch to an undefined label."""
        labels = {item for item in items if isinstance(item, str)}
        for item in items:
            if isinstance(item, str) or item.returns_to or item.leaves or not item.ops:
                continue
            op = item.ops[-1]
            places = (op.attr,) if op.name == "branch" else op.attr if op.name == "branch_indirect" else ()
            for place in places:
                if place.name not in labels and item.instruction is not None:
                    raise PtxError(
                        f"{self.name}:{item.instruction.line}: {place.name} is not a label of {function.name}\n"
                        f"  {item.instruction.text}"
                    )

    def ret(self, unit: Unit, i: Instruction) -> list[Step]:
        """Return: a kernel's thread ends, a device function branches to its single return point."""
        guard = guard_of(unit.context, i)
        if unit.function.is_kernel:
            return [Step([Op("exit", "void", ())], guard, i)]
        # It may diverge like a branch.
        branch = Instruction("bra", () if guard else ("uni",), (), i.guard, i.line, i.text, i.source)
        return [Step([Op("branch", "void", (), Place("@return"))], guard, branch, "ret")]

    def parameters_to_registers(self, unit: Unit) -> list[Step]:
        """Read parameters that are declared as registers from the frame."""
        steps = []
        for variable in unit.function.prototype.parameters:
            if variable.space == "reg":
                b = Emitter(unit.context)
                at = b.frame(unit.frame.places[variable.name].offset)
                load_values(b, registers_of(variable), at, variable)
                steps.append(Step(b.ops, None, None, "parameter"))
        return steps

    def epilogue(self, unit: Unit) -> list[Step]:
        """Write results that are declared as registers to the frame, and return to the caller."""
        steps = []
        for variable in unit.function.prototype.results:
            if variable.space == "reg":
                b = Emitter(unit.context)
                at = b.frame(unit.frame.places[variable.name].offset)
                store_values(b, registers_of(variable), at, variable)
                steps.append(Step(b.ops, None, None, "result"))
        b = Emitter(unit.context)
        words = b.op("load", "i32x2", b.frame(0), attr=Access("local", 8))
        address = b.op("pack64", "i64", *(b.op("extract", "i32", words, attr=n) for n in range(2)))
        b.op("branch_indirect", "void", address, attr=Returns(unit.function.name))
        return [*steps, Step(b.ops, None, None, "ret", leaves=True)]

    # --- calls ------------------------------------------------------------------------------------
    def call(self, unit: Unit, i: Instruction) -> list[Step | str]:
        """Write the arguments after the caller's own frame, branch, and continue after the return."""
        results, target, arguments, listed = call_parts(i)
        if isinstance(target, Symbol) and target.name in SERVICES and not self.defines(target.name):
            return self.service(unit, i, target.name, results, arguments)
        prototype, names = self.callee(unit, target, listed)
        unit.calls |= {"*"} if isinstance(target, Register) else set(names)
        offsets, _ = signature(prototype)
        if len(results) != len(prototype.results) or len(arguments) != len(prototype.parameters):
            raise unsupported(
                f"the call passes {len(arguments)} arguments for {len(results)} results, but the function takes "
                f"{len(prototype.parameters)} and gives {len(prototype.results)}"
            )
        guard = guard_of(unit.context, i)
        own = FrameSize(unit.function.name)
        self.serial += 1
        back = f"@back{self.serial}"

        def outside(b: Emitter, offset: int) -> int:
            """The local address of a byte of the callee's frame."""
            size = b.op("const", "i32", attr=own)
            base = size if unit.context.stack is None else b.add(b.op("get_reg", "i32", attr=STACK), size)
            return b.add(base, b.const(offset)) if offset else base

        steps: list[Step | str] = []
        skip = len(results)
        for argument, variable, offset in zip(arguments, prototype.parameters, offsets[skip:], strict=True):
            b = Emitter(unit.context)
            copy_in(b, argument, variable, outside(b, offset))
            steps.append(Step(b.ops, guard, i, "argument"))
        b = Emitter(unit.context)
        address = b.op("const", "i64", attr=Place(back))
        b.op("store", "void", outside(b, 0), b.op("pack2", "i32x2", *b.high_low(address)), attr=Access("local", 8))
        steps.append(Step(b.ops, guard, i, "argument"))
        b = Emitter(unit.context)
        code = b.source(target, "u64") if isinstance(target, Register) else None
        b.op("set_reg", "void", outside(b, 0), attr=STACK)
        if code is None:
            b.op("branch", "void", attr=Place(names[0]))
        else:
            b.op("branch_indirect", "void", code, attr=tuple(Place(n) for n in names))
        steps.append(Step(b.ops, guard, i, "call", returns_to=back))
        for name in names:
            self.return_places.setdefault(name, []).append((unit.function.name, back))
        steps.append(back)
        if unit.context.stack is not None:
            b = Emitter(unit.context)
            b.op(
                "set_reg", "void", b.sub(b.op("get_reg", "i32", attr=STACK), b.op("const", "i32", attr=own)), attr=STACK
            )
            steps.append(Step(b.ops, guard, i, "called"))
        else:
            steps.append(Step([], None, i, "called"))
        for result, variable, offset in zip(results, prototype.results, offsets, strict=False):
            b = Emitter(unit.context)
            copy_out(b, result, variable, outside(b, offset))
            steps.append(Step(b.ops, guard, i, "result"))
        return steps

    def defines(self, name: str) -> bool:
        found = self.module.functions.get(name)
        return found is not None and found.defined

    def service(
        self, unit: Unit, i: Instruction, name: str, results: tuple[Operand, ...], arguments: tuple[Operand, ...]
    ) -> list[Step | str]:
        """A call of a function that the driver provides."""
        if len(arguments) != len(SERVICES[name]):
            raise unsupported(f"{name} takes {len(SERVICES[name])} arguments, not {len(arguments)}")
        if name not in self.services:
            self.services.append(name)
        b = Emitter(unit.context)
        words: list[int] = []
        for argument, size in zip(arguments, SERVICES[name], strict=True):
            words += argument_words(b, argument, size)
        value = b.op("service", "i64", *words, attr=name)
        if name in ENDING:
            b.op("trap", "void", attr=name)
        elif results:
            result = results[0]
            if isinstance(result, Symbol):
                place = b.frame(b.context.symbols(result.name).offset)
                for n in range(RESULT_BYTES[name] // 4):
                    at = b.add(place, b.const(4 * n)) if n else place
                    b.op("store", "void", at, b.op("extract", "i32", value, attr=n), attr=Access("local", 4))
            else:
                wide = RESULT_BYTES[name] == 8
                b.result(result, value if wide else b.op("extract", "i32", value, attr=0))
        return [Step(b.ops, guard_of(unit.context, i), i)]

    def callee(self, unit: Unit, target: Operand, listed: Operand | None) -> tuple[Prototype, list[str]]:
        """Signature and possible targets of a call."""
        if isinstance(target, Symbol):
            name = self.module.aliases.get(target.name, target.name)
            return self.module.functions[name].prototype, [name]
        named = listed.name if isinstance(listed, Symbol) else ""
        if named in unit.function.targets:
            names = list(unit.function.targets[named])
            return self.module.functions[names[0]].prototype, names
        if named not in unit.function.prototypes:
            raise unsupported("a call through a pointer without .callprototype or .calltargets")
        return unit.function.prototypes[named], [n for n in sorted(self.taken) if n in self.units]

    def may_reenter(self, unit: Unit) -> bool:
        """Whether a call of this function may re-enter it."""
        todo, met = [unit], set()
        while todo:
            for name in todo.pop().calls:
                names = sorted(self.taken) if name == "*" else [name]
                for callee in names:
                    if callee == unit.function.name:
                        return True
                    if callee in self.units and callee not in met:
                        met.add(callee)
                        todo.append(self.units[callee])
        return False

    def save_around_calls(self, unit: Unit) -> None:
        if not unit.calls:
            return
        everything = self.may_reenter(unit)
        live = live_after_calls(unit.blocks)
        by_label = {block.label: block for block in unit.blocks}
        for block in unit.blocks:
            last = block.steps[-1] if block.steps else None
            if last is None or not last.returns_to:
                continue
            slots = {s for s in live[id(last)] if (everything or s[0] == "barrier") and s != ("reg", STACK)}
            save, restore = save_steps(unit.frame, slots, unit.context.stack)
            block.steps[-1:-1] = save
            # The first step after the return restores the frame register.
            by_label[last.returns_to].steps[1:1] = restore

    # --- layout -----------------------------------------------------------------------------------
    def finish(self) -> Lowering:
        """Lay out all blocks and replace symbolic attributes by their values."""
        steps: list[tuple[Unit, Step]] = []
        places: dict[tuple[str, str], int] = {}
        functions: dict[str, int] = {}
        for unit in self.units.values():
            functions[unit.function.name] = STEP_BYTES * len(steps)
            for position, block in enumerate(unit.blocks):
                places[unit.function.name, block.label] = STEP_BYTES * len(steps)
                steps += [(unit, step) for step in block.steps]
                following = unit.blocks[position + 1].label if position + 1 < len(unit.blocks) else None
                if block.next is not None and block.next != following:
                    jump = Step([Op("branch", "void", (), Place(block.next))], None, None, "bra")
                    steps.append((unit, jump))
        returns = {name: tuple(places[place] for place in back) for name, back in self.return_places.items()}
        frames = {name: unit.frame.aligned_bytes for name, unit in self.units.items()}

        def resolved(unit: Unit, attr: Any) -> Any:
            if isinstance(attr, Place):
                place = places.get((unit.function.name, attr.name))
                place = functions.get(self.module.aliases.get(attr.name, attr.name)) if place is None else place
                if place is None:
                    raise UnsupportedInstruction(
                        f"kernel {self.kernel.name}: it takes the address of {attr.name}, which {self.name} does not define"
                    )
                return place
            if isinstance(attr, LocalEnd):
                return self.local_bytes()
            if isinstance(attr, FrameSize):
                return frames[attr.function]
            if isinstance(attr, Returns):
                return returns.get(attr.function, ())
            if isinstance(attr, tuple) and not isinstance(attr, Access) and any(isinstance(x, Place) for x in attr):
                return tuple(resolved(unit, x) for x in attr)
            return attr

        lowered: list[Lowered] = []
        instructions: list[ProgramInstruction] = []
        for n, (unit, step) in enumerate(steps):
            ops = [op._replace(attr=resolved(unit, op.attr)) for op in step.ops]
            verify(ops)
            lowered.append(Lowered(ops, step.guard))
            instructions.append(self.describe(n, step, ops))
        program = self.program(instructions)
        return Lowering(program, lowered, functions)

    def describe(self, n: int, step: Step, ops: list[Op]) -> ProgramInstruction:
        """The step as an instruction of the program, for messages."""
        i = step.instruction
        # Opcode in capitals, as in machine code, so that messages distinguish reads from writes.
        opcode = (step.opcode or (i.opcode if i is not None else "")).upper()
        modifiers = i.modifiers if i is not None and not step.opcode else ()
        operands: list[ProgramOperand] = []
        if i is not None:
            operands.append(ProgramOperand(Kind.NAME, name=i.text))
        # A cooperative kernel is recognised by the constants that it reads.
        for op in ops:
            if op.name == "load_const" and ops[op.args[0]].name == "const":
                operands.append(ProgramOperand(Kind.CONSTANT, index=op.attr[0], value=ops[op.args[0]].attr))
        line = self.line_of(i) if i is not None else None
        return ProgramInstruction(STEP_BYTES * n, opcode, modifiers, tuple(operands), line=line)

    def line_of(self, i: Instruction) -> tuple[str, int] | None:
        """The line of the source program, or of the PTX text if it names no files."""
        if not self.module.files:
            return self.name, i.line
        if i.source is None or i.source[0] not in self.module.files:
            return None
        return self.module.files[i.source[0]], i.source[1]

    def program(self, instructions: list[ProgramInstruction]) -> Program:
        kernel = self.kernel
        major = self.arch // 10
        parameters = [
            Parameter(n, offset, variable.size_bytes)
            for n, (variable, offset) in enumerate(
                zip(kernel.prototype.parameters, kernel_parameters(kernel, PARAMETER_BASE[major]), strict=True)
            )
        ]
        size = max((p.offset_bytes + p.size_bytes for p in parameters), default=0)
        limit = 1
        for extent in kernel.limits.get("maxntid") or kernel.limits.get("reqntid") or (1024,):
            limit *= extent
        needed = sum(max_live(unit.blocks) for unit in self.units.values())
        return Program(
            name=kernel.name,
            arch=self.arch,
            instructions=instructions,
            parameters=parameters,
            parameter_base_bytes=PARAMETER_BASE[major],
            parameter_size_bytes=size,
            registers=min(max(needed + 8, 16), MOST_REGISTERS if self.arch >= FIRST_COMPILED else FERMI_REGISTERS),
            shared_static_bytes=self.shared_bytes,
            local_bytes_per_thread=self.local_bytes(),
            barriers=self.barriers(),
            max_threads_per_block=min(limit, 1024),
            services=tuple(self.services),
            facts={"parameter window": self.takes_parameter_addresses(), "current graph": self.names_its_graph()},
            work=work_of_fermi if self.arch < FIRST_COMPILED else work_of,
            control_bits=False,
        )

    def names_its_graph(self) -> bool:
        """Whether code reads %current_graph_exec."""
        statements = (s for unit in self.units.values() for s in unit.function.statements)
        return any(isinstance(s, Instruction) and Special(CURRENT_GRAPH_EXEC) in s.operands for s in statements)

    def takes_parameter_addresses(self) -> bool:
        """Whether code takes generic addresses of the kernel's parameters, which must then be in memory."""
        statements = (s for unit in self.units.values() for s in unit.function.statements)
        return any(
            isinstance(s, Instruction)
            and s.opcode in ("cvta", "isspacep")
            and any(m.startswith("param") for m in s.modifiers)
            for s in statements
        )

    def local_bytes(self) -> int:
        """Local memory per thread: the deepest chain of frames, and the space for ``alloca``."""
        frames = {name: unit.frame.aligned_bytes for name, unit in self.units.items()}
        room = meaning_stack.ROOM_BYTES if takes_stack(u.function for u in self.units.values()) else 0
        return self.depth(self.kernel.name, frames, ()) + room

    def depth(self, name: str, frames: Mapping[str, int], above: tuple[str, ...]) -> int:
        """Bytes of the deepest chain of frames that starts at a function."""
        if name in above:
            return RECURSION_STACK_BYTES
        calls = self.units[name].calls
        below = sorted(set(calls - {"*"}) | ({n for n in self.taken if n in self.units} if "*" in calls else set()))
        return frames[name] + max((self.depth(n, frames, (*above, name)) for n in below), default=0)

    def barriers(self) -> int:
        """Named barriers that the code uses."""
        highest = 0
        for unit in self.units.values():
            for statement in unit.function.statements:
                if isinstance(statement, Instruction) and statement.opcode in ("bar", "barrier"):
                    if "warp" in statement.modifiers or not statement.operands:
                        highest = max(highest, 0 if "warp" in statement.modifiers else 1)
                        continue
                    number = statement.operands[1 if "red" in statement.modifiers else 0]
                    highest = max(highest, number.bits + 1 if isinstance(number, Immediate) else 16)
        return min(highest, 16)


# --- pieces ---------------------------------------------------------------------------------------
def steps_of(context: Context, i: Instruction) -> list[Step]:
    """The machine steps of one instruction.

    Raises:
        UnsupportedInstruction: for an opcode, modifier or operand without a meaning.
    """
    known = MEANINGS.get(i.opcode)
    if known is None:
        raise unsupported(f"opcode {i.opcode} has no meaning here")
    b = Emitter(context)
    try:
        known(i, b)
    except (ValueError, IndexError, KeyError, StopIteration, TypeError) as error:
        raise unsupported(f"operands or modifiers that {i.opcode} does not take ({error})") from error
    b.step()
    guard = guard_of(context, i)
    steps = [Step(ops, guard, i, "warpsync" if ops[-1].name == "warpsync" else "") for ops in b.steps if ops]
    return steps or ([Step([], guard, i)] if takes_time(i.opcode, i.modifiers) else [])


def guard_of(context: Context, i: Instruction) -> tuple[str, int, bool] | None:
    if i.guard is None:
        return None
    number, type = context.registers[i.guard[0]]
    if type != "pred":
        raise unsupported(f"register {i.guard[0]} of type .{type} as a guard")
    return "pred", number, i.guard[1]


def provided_by_driver(name: str) -> str:
    return f"it calls {name}, which this module does not define"

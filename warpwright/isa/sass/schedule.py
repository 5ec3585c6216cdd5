"""Schedules from control bits: in machine code for sm_50 to sm_90, the compiler encodes when each instruction may
issue.

``work_of`` is the table from opcodes to units.  The assignment is the one that NVIDIA's profiler reports (inst_executed_pipe_*).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from warpwright.isa.effects import Effect, register_effects
from warpwright.isa.ops import Lowered
from warpwright.isa.program import RZ, Control, Instruction, Kind, Operand, Program
from warpwright.isa.sass.lower import describe
from warpwright.isa.sass.meaning import is_zero
from warpwright.isa.schedule import COUNTERS, Constant, Issue, Source, UnknownTiming, Work, warp_product

# fmt: off
ALU = (
    *("IADD3", "LOP3", "LOP", "SHF", "SHL", "SHR", "LEA", "PRMT", "SEL", "MOV", "ISETP", "ICMP", "IMNMX", "VIMNMX", "VIMNMX3", "IABS"),
    *("FSETP", "FSEL", "FMNMX", "FSET", "PLOP3", "P2R", "R2P", "SGXT", "BMSK", "VABSDIFF", "VABSDIFF4", "LOP32I", "MOV32I"),
    *("IADD", "ISET", "PSETP", "VOTE", "CSET", "CSETP", "FCHK", "I2FP", "F2FP", "VIADDMNMX", "LEPC"),
    *("CS2R", "HSETP2", "HMNMX2", "VHMNMX", "HSET2", "I2IP", "F2IP", "IADD32I"),
    *("ISCADD", "ISCADD32I", "BFE", "BFI", "PSET", "FCMP", "VADD", "VMNMX", "VSHL", "VSHR", "VSET", "VSETP"),
)
ASSUMED_ALU = ("MOVM", "QSPC", "CGAERRBAR", "FENCE", "UTMACCTL", "UTMAPF")
"""Timed as one ALU instruction, because there are no measurements."""
MADE_BY_THE_LOADER = ("SERVICE",)
"""A driver function, in place of a call of it; timed as one ALU instruction, because the driver's time is not
modelled."""
FMA = ("FFMA", "FADD", "FMUL", "FADD32I", "FFMA32I", "FMUL32I", "FSWZADD")
FMA_HEAVY = ("IMAD", "IMUL", "IDP", "XMAD", "IMUL32I", "VMAD", "IMADSP", "VIADD")
"""Includes VIADD, although it only adds: alternating with IMAD it takes 4 cycles per pair, with ALU instructions 2
(bench.micro ``issue_pairs`` on an H200)."""
HALF = ("HADD2", "HMUL2", "HFMA2", "HADD2_32I", "HMUL2_32I", "HFMA2_32I")
FP64 = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX", "DSET")
XU = ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV", "I2I", "RRO")
TENSOR = ("HMMA", "QMMA", "IMMA", "BMMA", "DMMA")
GROUP_PRODUCTS = ("HGMMA", "IGMMA", "BGMMA", "QGMMA")
UNIFORM = (
    *("UIADD3", "ULOP3", "USHF", "ULEA", "USEL", "UISETP", "UPRMT", "UPLOP3", "UIMAD", "UPOPC"),
    *("UFLO", "UBREV", "USGXT", "UBMSK", "UP2UR", "UR2UP", "VOTEU", "UBLKPF", "UBLKCP", "USETMAXREG"),
)
INDIRECT = ("BRX", "BRXU", "JMX", "RET")
"""Branches whose target is in a register; CALL may be one."""
BRANCH = (
    *("BRA", "JMP", "BPT", "PRET", "RPCMOV", "ELECT", "ENDCOLLECTIVE"),
    *("SSY", "SYNC", "PBK", "BRK", "PCNT", "CONT", "CAL", "JCAL", "KIL"),
)
CONVERGENCE = ("BSSY", "BREAK", "BMOV")
NOTHING = ("NOP", "PMTRIG", "ERRBAR")
SPECIAL = ("S2R", "ARRIVES")
MEMORY = (
    *("LD", "LDG", "LDL", "LDS", "LDSM", "ST", "STG", "STL", "STS", "STSM", "STAS", "ATOM", "ATOMG", "ATOMS", "RED", "REDG"),
    *("SULD", "SUST", "SURED", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG"),
)
TEXTURE = ("TEX", "TLD4", "TXD", "TXQ")
# fmt: on

SHAPE = re.compile(r"(8|16)x?8x?(256|128|64|32|16|8|4)")
"""Shape M x 8 x K of a tensor instruction by its modifier: 16816; DMMA's is 16x8x16."""
VOLTA_SHAPE, VOLTA_FMA = "884", 8 * 8 * 4
"""HMMA.884: one of four steps, each a quarter of a warp's four products of 8x8x4."""
ELEMENT_BITS = {"S8": 8, "U8": 8, "S4": 4, "U4": 4, "TF32": 32}
"""Element width by an instruction's modifiers; otherwise 16."""
PRODUCT_BITS = {"DMMA": 64, "BMMA": 1, "QMMA": 8}
WIDE_SOURCES = {"F2F": ("F64",), "F2I": ("F64",), "FRND": ("F64",), "I2F": ("S64", "U64")}
"""Types that make a conversion take 64 bits per lane; if both types are named, the source's is the last."""


def _some(**traits: bool) -> frozenset[str]:
    return frozenset(name for name, holds in traits.items() if holds)


def _half(i: Instruction) -> Work:
    return Work("half", _some(tensor_path="MMA" in i.modifiers, bf16="BF16_V2" in i.modifiers))


def _converts(i: Instruction) -> Work:
    wide = WIDE_SOURCES.get(i.opcode, ())
    types = [m for m in i.modifiers if m in ("F16", "BF16", "F32", "F64", "S64", "U64")]
    return Work("xu", _some(wide_source=any(m in wide for m in (types[-1:] if i.opcode == "F2F" else types))))


def _multiplies(i: Instruction) -> Work:
    return Work("fma_heavy", _some(wide="WIDE" in i.modifiers or "HI" in i.modifiers))


def _product(i: Instruction) -> Work:
    if VOLTA_SHAPE in i.modifiers and i.opcode == "HMMA":
        return Work("tensor", frozenset(("bits16",)), VOLTA_FMA)
    rows, depth = next(map(int, found.groups()) for m in i.modifiers if (found := SHAPE.fullmatch(m)))
    named = (ELEMENT_BITS[m] for m in i.modifiers if m in ELEMENT_BITS)
    bits = PRODUCT_BITS.get(i.opcode) or next(named, 16)
    return warp_product(rows, 8, depth, bits, "SP" in i.modifiers)


def _group_product(i: Instruction) -> Work:
    shape = next(m for m in i.modifiers if m.startswith("64x"))
    in_registers = any(o.kind is Kind.REGISTER for o in i.operands[1:2])
    ends = any(o.kind is Kind.SCOREBOARD for o in i.operands)
    traits = _some(sparse="SP" in i.modifiers, first_in_registers=in_registers, ends_group=ends)
    return Work("group_product", traits, int(shape.split("x")[1]))


def _warpgroup(i: Instruction) -> Work:
    if "DEPBAR" in i.modifiers:
        return Work("products_done", amount=i.operands[-1].value)
    return Work("branch")


def _call(i: Instruction) -> Work:
    return Work("indirect_branch" if any(o.kind is Kind.REGISTER for o in i.operands) else "branch")


def _warp_sync(i: Instruction) -> Work:
    """A mask in a register takes its time; an immediate one and the collective form do not."""
    in_register = any(o.kind is Kind.REGISTER for o in i.operands)
    return Work("warp_sync" if in_register and "COLLECTIVE" not in i.modifiers else "branch")


def _uniform_constant(i: Instruction) -> Work:
    """A ULDC without a dependence counter reads its line before it issues."""
    return Work("uniform_constant" if i.control.write_barrier >= COUNTERS else "constant")


def _no_result(i: Instruction) -> bool:
    """Whether an atomic returns no value."""
    return i.opcode == "RED" or i.control.write_barrier >= COUNTERS


def _device_scope(i: Instruction) -> bool:
    return not {"GPU", "gpu", "cluster"}.isdisjoint(i.modifiers)


def _mbarrier(i: Instruction) -> Work:
    looks = "TRYWAIT" in i.modifiers
    # Lanes that arrive at one barrier are counted, in one pass: bench.micro ``mbarrier_flow``.
    return Work(
        "mbarrier",
        _some(try_wait=looks, no_result=_no_result(i), device_scope=_device_scope(i), counts_lanes=True),
    )


def _memory(i: Instruction) -> Work:
    modifiers = i.modifiers
    return Work(
        "memory",
        _some(
            no_result=_no_result(i),
            device_scope=_device_scope(i),
            l2_only="BYPASS" in modifiers or "CG" in modifiers,  # Pascal: cached only in L2
            counts_lanes="POPC" in modifiers,
            one_pass=i.opcode == "ATOMS" and "CAST" in modifiers,
            matrix_rows=i.opcode == "LDSM",
            async_copy=i.opcode == "LDGSTS",
        ),
    )


def _counter_wait(i: Instruction) -> Work:
    allowed = [o.value for o in i.operands if o.kind is Kind.IMMEDIATE]
    return Work("counter_wait", amount=allowed[-1] if allowed else 0)


def _match(i: Instruction) -> Work:
    return Work("match", _some(any="ANY" in i.modifiers, wide="U64" in i.modifiers))


def _fence(i: Instruction) -> Work:
    return Work("fence", _some(block="CTA" in i.modifiers, system="SYS" in i.modifiers))


def _register_of(i: Instruction) -> int:
    """1 + the number of the convergence register that an instruction names, 0 if it names none."""
    return next((1 + o.index for o in i.operands if o.kind is Kind.BARRIER), 0)


def _convergence(i: Instruction) -> Work:
    restores = i.opcode == "BMOV" and i.operands[0].kind is Kind.BARRIER
    return Work("convergence", _some(begins=i.opcode == "BSSY", restores=restores), _register_of(i))


def _always(unit: str, *traits: str) -> Callable[[Instruction], Work]:
    work = Work(unit, frozenset(traits))
    return lambda i: work


WORKS: dict[str, Callable[[Instruction], Work]] = {
    **dict.fromkeys((*ALU, *ASSUMED_ALU, *MADE_BY_THE_LOADER), _always("alu")),
    **dict.fromkeys(FMA, _always("fma")),
    **dict.fromkeys(FMA_HEAVY, _multiplies),
    **dict.fromkeys(HALF, _half),
    **dict.fromkeys(FP64, _always("fp64")),
    **dict.fromkeys(XU, _converts),
    **dict.fromkeys(TENSOR, _product),
    **dict.fromkeys(GROUP_PRODUCTS, _group_product),
    "WARPGROUP": _warpgroup,
    **dict.fromkeys(UNIFORM, _always("uniform")),
    "UMOV": _always("uniform_move"),
    "R2UR": _always("to_uniform"),
    **dict.fromkeys(BRANCH, _always("branch")),
    **dict.fromkeys(CONVERGENCE, _convergence),
    **dict.fromkeys(INDIRECT, _always("indirect_branch")),
    "CALL": _call,
    "WARPSYNC": _warp_sync,
    "BSYNC": lambda i: Work("join", amount=_register_of(i)),
    "YIELD": _always("yield"),
    **dict.fromkeys(NOTHING, _always("none")),
    "SHFL": _always("shuffle"),
    "REDUX": _always("reduction"),
    "MATCH": _match,
    **dict.fromkeys(SPECIAL, _always("special")),
    "S2UR": _always("special", "uniform"),
    "LDC": _always("constant"),
    "ULDC": _uniform_constant,
    **dict.fromkeys(TEXTURE, _always("texture")),
    "TLD": _always("texture", "fetch"),
    "SYNCS": _mbarrier,
    **dict.fromkeys((*MEMORY, "LDGSTS"), _memory),
    "CCTL": lambda i: Work("invalidate" if "IVALL" in i.modifiers else "cache_hint"),
    "EXIT": _always("exit"),
    "BAR": lambda i: Work("block_barrier", _some(deferred="DEFER_BLOCKING" in i.modifiers)),
    "B2R": _always("barrier_result"),
    "UCGABAR_ARV": _always("cluster_barrier"),
    "UCGABAR_WAIT": _always("cluster_barrier"),
    "LDGDEPBAR": _always("copies_done"),
    "UTMACMDFLUSH": _always("copies_done"),
    "DEPBAR": _counter_wait,
    "MEMBAR": _fence,
    "NANOSLEEP": _always("sleep"),
    "PREEXIT": _always("launch_dependents"),
    "ACQBULK": _always("grid_wait"),
}


def work_of(i: Instruction) -> Work:
    """The unit that executes an instruction.

    Raises:
        UnknownTiming: the table has no row for its opcode.
    """
    known = WORKS.get(i.opcode)
    if known is None:
        raise UnknownTiming(
            f"opcode {i.opcode} has no timing row: {describe(i).strip()} at {i.address:#06x}; use timing='off'"
        )
    return known(i)


def stall_cycles(control: Control) -> int:
    """Cycles until the same warp may issue again (bench/micro on H200, machine code with edited control bits).

    A warp that does not yield waits for the number of cycles in the field up to 11; 12 to 14 act as 1, 15 and 0 as 2.
    A warp that yields waits at least 2 cycles, and 34 if the field is 0.
    """
    stall = control.stall_cycles
    if control.yield_flag:
        return max(stall, 2) if stall else 34
    if stall > 11:
        return 2 if stall == 15 else 1
    return stall or 2


def _sources(instruction: Instruction, writes: frozenset[Effect]) -> list[Operand]:
    """Register operands that are read, in slot order."""
    operands = [o for o in instruction.operands if o.kind is Kind.REGISTER]
    if operands and ("reg", operands[0].index) in writes and instruction.operands[0] is operands[0]:
        operands = operands[1:]
    elif len(operands) > 1 and ("reg", operands[0].index) in writes:
        operands = operands[1:]  # predicate destinations are printed before or after the register
    return operands


def _constant(instruction: Instruction) -> Constant | None:
    found = next((o for o in instruction.operands if o.kind is Kind.CONSTANT and o.uniform is None), None)
    if found is None:
        return None
    return Constant(found.index, found.value, found.base is not None and not is_zero(found.base))


def _factors(instruction: Instruction) -> frozenset[int]:
    """Registers that IMAD.WIDE or IMAD.HI multiplies."""
    values = [o for o in instruction.operands[1:] if o.kind not in (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)]
    return frozenset(o.index for o in values[:2] if o.kind is Kind.REGISTER and o.index != RZ)


def _counter(field: int) -> int:
    return field if field < COUNTERS else -1


LAST_PAIRED = 62
"""The last architecture whose control bits pair instructions."""


def _bundles(program: Program) -> list[int]:
    """The pair to which each instruction belongs, -1 for none.

    On sm_50 to sm_62, a stall count of 0 on an instruction that does not yield lets the next one issue in the same
    cycle (Gray's maxas, "Control Codes").  A tenth of the corpus's 17,175 instructions for sm_60 are marked in this
    way: always an arithmetic instruction first, then one for another unit (memory, branches, special functions), never
    two arithmetic ones.
    """
    found = [-1] * len(program.instructions)
    if program.arch > LAST_PAIRED:
        return found
    for n, instruction in enumerate(program.instructions[:-1]):
        control = instruction.control
        if control.stall_cycles == 0 and not control.yield_flag and found[n] < 0:
            found[n] = found[n + 1] = n
    return found


def from_control_bits(
    program: Program, lowered: Sequence[Lowered], work: Callable[[Instruction], Work] = work_of
) -> list[Issue]:
    """The schedule that the compiler has encoded in a program's instructions."""
    found = []
    bundles = _bundles(program)
    for instruction, meaning, bundle in zip(program.instructions, lowered, bundles, strict=True):
        control = instruction.control
        reads, writes = register_effects(meaning)
        asks = work(instruction)
        awaited = -1
        if asks.unit == "counter_wait":
            awaited = next((o.index for o in instruction.operands if o.kind is Kind.SCOREBOARD), -1)
        found.append(
            Issue(
                asks,
                instruction.address,
                reads,
                writes,
                tuple(Source(o.index, o.reuse) for o in _sources(instruction, writes)),
                _factors(instruction) if "wide" in asks.traits else frozenset(),
                _constant(instruction),
                stall_cycles(control),
                control.yield_flag,
                tuple(n for n in range(COUNTERS) if control.wait_mask >> n & 1),
                _counter(control.write_barrier),
                _counter(control.read_barrier),
                awaited,
                bundle,
            )
        )
    return found

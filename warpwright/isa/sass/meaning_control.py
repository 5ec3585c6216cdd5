"""Branches, calls, convergence barriers, block barriers, and cross-lane operations.

Calls use no hardware stack: the code itself moves the return address into a register pair,
``CALL`` is a branch and ``RET`` a branch to the pair (plus, for ``.REL``, the printed label, to
which the pair is relative).  Code addresses are ``Program.code_base`` + byte offset.
``BRA.DIV`` branches if some thread of the mask is elsewhere; the code at its target first gathers the threads with
``WARPSYNC.COLLECTIVE``.
"""

from __future__ import annotations

from warpwright.isa.ops import Access, Value
from warpwright.isa.program import RZ, Instruction, Kind, Operand
from warpwright.isa.sass.meaning import (
    REGISTERS,
    Emitter,
    is_predicate,
    is_true,
    is_zero,
    meaning,
    only,
    predicate,
    raw32,
    set32,
    set_predicate,
    src32,
    src64,
    unsupported,
)
from warpwright.isa.sass.meaning_service import serve
from warpwright.isa.sass.service_calls import service_of
from warpwright.isa.services import RETURN_REGISTER

INSTRUCTION_BYTES = 16
RETURN_PC = {"Rpc.LO": RZ + 1, "Rpc.HI": RZ + 2}
"""Rpc, 64 bits per thread in which code for sm_90 keeps values; stored after the registers that operands can name."""


def conditions(b: Emitter, i: Instruction) -> list[Value]:
    """Predicate operands of a control instruction, without PT."""
    return [predicate(b, o) for o in i.operands if is_predicate(o) and not is_true(o)]


def target_of(i: Instruction) -> int:
    return next(o.value for o in i.operands if o.kind in (Kind.LABEL, Kind.IMMEDIATE))


@meaning("BRA")
def BRA(i: Instruction, b: Emitter) -> None:
    only(i, "U", "DIV", "CONV", "ANY", "INC", "DEC", "NODEC")
    holds = conditions(b, i)
    if "DIV" in i.modifiers or "CONV" in i.modifiers:
        guard = b.const(1, "i1") if i.guard is None else predicate(b, i.guard)
        mask = next((o for o in i.operands if o.kind in REGISTERS), None)
        # Without a register (sm_70), the mask is the whole warp.
        whole = mask is None or (mask.invert and is_zero(Operand(mask.kind, mask.index)))
        value = b.const(0xFFFFFFFF) if mask is None or whole else src32(b, mask)
        relation = "ne" if "DIV" in i.modifiers else "eq"
        # The guard is part of the comparison, not of the decision who branches: all active threads take the same path.
        holds.append(b.icmp(relation, b.op("ballot", "i32", guard), value))
    elif "ANY" in i.modifiers:
        # All active threads branch if one of them would.
        guard = b.const(1, "i1") if i.guard is None else predicate(b, i.guard)
        holds.append(b.icmp("ne", b.op("ballot", "i32", guard), b.const(0)))
    while len(holds) > 1:
        holds.append(b.and_(holds.pop(), holds.pop()))
    b.op("branch", "void", *holds, attr=target_of(i))


@meaning("EXIT")
def EXIT(i: Instruction, b: Emitter) -> None:
    only(i, "KEEPREFCOUNT", "PREEMPTED", "NO_ATEXIT")
    b.op("exit", "void", *conditions(b, i)[:1])


@meaning("KILL")
def KILL(i: Instruction, b: Emitter) -> None:
    b.op("exit", "void")


@meaning("BPT")
def BPT(i: Instruction, b: Emitter) -> None:
    only(i, "TRAP", "INT", "PAUSE", "DRAIN")
    if "TRAP" in i.modifiers:
        b.op("trap", "void", attr="BPT.TRAP")


@meaning("CALL", "JMP")
def CALL(i: Instruction, b: Emitter) -> None:
    if service := service_of(i):
        if serve(service, b):
            back = i.address + INSTRUCTION_BYTES
            b.op("branch_indirect", "void", b.op("get_reg64", "i64", attr=RETURN_REGISTER), attr=(back,))
        return
    only(i, "REL", "ABS", "NOINC", "INC")
    registers = [o for o in i.operands if o.kind in REGISTERS]
    if registers:
        offset = next((o.value for o in i.operands if o.kind in (Kind.IMMEDIATE, Kind.LABEL)), 0)
        relative = "REL" in i.modifiers
        base = offset + (i.address + INSTRUCTION_BYTES if relative and has_immediate(i) else 0)
        value = src64(b, Operand(registers[0].kind, registers[0].index))
        value = b.add(value, b.const(base + (b.code_base if relative else 0), "i64")) if base or relative else value
        b.op("branch_indirect", "void", value, attr=())
        return
    constants = [o for o in i.operands if o.kind is Kind.CONSTANT]
    if constants:
        b.op("branch_indirect", "void", src64(b, constants[0]), attr=())
        return
    b.op("branch", "void", *conditions(b, i)[:1], attr=target_of(i))


def has_immediate(i: Instruction) -> bool:
    """Whether the displacement is printed as a number (relative to the next instruction), not as a label."""
    return any(o.kind is Kind.IMMEDIATE for o in i.operands)


@meaning("RET")
def RET(i: Instruction, b: Emitter) -> None:
    only(i, "REL", "ABS", "NODEC", "DEC")
    register = next(o for o in i.operands if o.kind in REGISTERS)
    displacement = next((o for o in i.operands if o.kind in (Kind.IMMEDIATE, Kind.LABEL)), None)
    value = src64(b, Operand(register.kind, register.index))
    offset = 0 if displacement is None else displacement.value
    if "REL" in i.modifiers:
        offset += b.code_base
        if has_immediate(i):
            offset += i.address + INSTRUCTION_BYTES
    value = b.add(value, b.const(offset, "i64")) if offset else value
    b.op("branch_indirect", "void", value, attr=())


@meaning("BRX", "JMX", "BRXU", "JMXU")
def BRX(i: Instruction, b: Emitter) -> None:
    only(i, "INC", "DEC", "NODEC")
    register = next(o for o in i.operands if o.kind in REGISTERS)
    displacement = next((o for o in i.operands if o.kind in (Kind.IMMEDIATE, Kind.LABEL)), None)
    value = src64(b, Operand(register.kind, register.index))
    offset = 0 if displacement is None else displacement.value
    if i.opcode.startswith("BRX"):
        offset += b.code_base
        if has_immediate(i):
            offset += i.address + INSTRUCTION_BYTES
    b.op("branch_indirect", "void", b.add(value, b.const(offset, "i64")), attr=())


# --- convergence ----------------------------------------------------------------------------------
def barrier_of(i: Instruction) -> int:
    return next(o.index for o in i.operands if o.kind is Kind.BARRIER)


@meaning("BSSY")
def BSSY(i: Instruction, b: Emitter) -> None:
    only(i, "RECONVERGENT", "RELIABLE")
    b.op("bssy", "void", attr=(barrier_of(i), target_of(i)))


@meaning("BSYNC")
def BSYNC(i: Instruction, b: Emitter) -> None:
    only(i, "RECONVERGENT", "RELIABLE")
    if conditions(b, i):
        raise unsupported("BSYNC with a predicate operand")
    b.op("bsync", "void", attr=barrier_of(i))


@meaning("BREAK")
def BREAK(i: Instruction, b: Emitter) -> None:
    only(i, "RECONVERGENT", "RELIABLE")
    b.op("break", "void", *conditions(b, i), attr=barrier_of(i))


@meaning("BMOV")
def BMOV(i: Instruction, b: Emitter) -> None:
    only(i, "32", "CLEAR", "PQUAD")
    d, source = i.operands
    if d.kind is Kind.BARRIER:
        b.op("set_barrier", "void", src32(b, source), attr=d.index)
        return
    if source.kind is not Kind.BARRIER:
        raise unsupported(f"BMOV from {source.name or source.kind.value}")
    value = b.op("get_barrier", "i32", attr=source.index)
    if d.index != RZ:
        set32(b, d, value)
    if "CLEAR" in i.modifiers:
        b.op("set_barrier", "void", b.const(0), attr=source.index)


@meaning("WARPSYNC")
def WARPSYNC(i: Instruction, b: Emitter) -> None:
    """Gather the threads of a mask.

    In ``COLLECTIVE`` (up to ENDCOLLECTIVE) and ``EXCLUSIVE`` (up to WARPSYNC.ALL) regions they run separately: votes
    and matches inside see no other threads, which ``lower`` passes to their meanings through ``Emitter.exclusive``.
    Threads at different ``COLLECTIVE`` instructions gather with each other; otherwise only threads at the same
    instruction do.
    """
    only(i, "COLLECTIVE", "EXCLUSIVE", "ALL", "RECONVERGENT")
    how = next((m.lower() for m in ("COLLECTIVE", "EXCLUSIVE") if m in i.modifiers), None)
    everyone = "ALL" in i.modifiers or not i.operands
    b.op("warpsync", "void", b.const(0xFFFFFFFF) if everyone else src32(b, i.operands[0]), attr=how)


@meaning("PMTRIG")
def PMTRIG(i: Instruction, b: Emitter) -> None:
    """A trigger for performance monitors, without an effect that a program can observe."""
    only(i)


@meaning("ACQBULK", "PREEXIT")
def ACQBULK(i: Instruction, b: Emitter) -> None:
    """``griddepcontrol.wait`` and ``launch_dependents``: without timing, launches run one after the other, so the grids
    that this one depends on have already ended."""
    only(i)
    b.op("nanosleep", "void", b.const(0), attr="grid")


@meaning("YIELD")
def YIELD(i: Instruction, b: Emitter) -> None:
    b.op("yield", "void")


@meaning("NANOSLEEP")
def NANOSLEEP(i: Instruction, b: Emitter) -> None:
    """With SYNCS, after a try_wait that timed out, an H200 continues at once whatever the duration (bench.micro
    ``waits``)."""
    only(i, "WARP", "SYNCS")
    source = next(o for o in i.operands if not is_predicate(o))
    b.op("nanosleep", "void", b.const(0) if "SYNCS" in i.modifiers else src32(b, source))


@meaning("BAR")
def BAR(i: Instruction, b: Emitter) -> None:
    only(i, "SYNC", "ARV", "RED", "POPC", "AND", "OR", "DEFER_BLOCKING", "ALL")
    numbers = [o for o in i.operands if not is_predicate(o)]
    number = b.const(0) if not numbers or "ALL" in i.modifiers else src32(b, numbers[0])
    count = src32(b, numbers[1]) if len(numbers) > 1 else b.const(0)
    if len(numbers) > 1 and all(o.kind in REGISTERS for o in numbers):
        # One word instead of two registers, packed by preceding code: the number in bits 0..3, the threads in bits 16..27.
        number, count = b.and_(number, b.const(15)), b.and_(b.lshr(count, b.const(16)), b.const(0xFFF))
    if "RED" in i.modifiers:
        vote = next(o for o in i.operands if is_predicate(o))
        how = next(m.lower() for m in i.modifiers if m in ("POPC", "AND", "OR"))
        b.op("barrier_red", "i32", number, count, predicate(b, vote), attr=how)
        return
    b.op("barrier", "void", number, count, attr="arrive" if "ARV" in i.modifiers else "sync")


# --- across lanes ---------------------------------------------------------------------------------
def exclusively(b: Emitter, mask: Value) -> Value:
    """A lane mask without the lanes of other groups of a WARPSYNC.EXCLUSIVE."""
    return mask if b.exclusive is None else b.and_(mask, src32(b, b.exclusive))


@meaning("VOTE", "VOTEU")
def VOTE(i: Instruction, b: Emitter) -> None:
    only(i, "ANY", "ALL", "EQ")
    operands = list(i.operands)
    d = operands.pop(0) if operands[0].kind in REGISTERS else None
    p, source = operands[0], operands[1]
    value = predicate(b, source)
    mask = exclusively(b, b.op("ballot", "i32", value))
    if p.index != 7:
        if "ANY" in i.modifiers:
            result = b.icmp("ne", mask, b.const(0))
        elif "ALL" in i.modifiers:
            result = b.icmp("eq", mask, exclusively(b, b.op("active", "i32")))
        else:
            all_ = b.icmp("eq", mask, exclusively(b, b.op("active", "i32")))
            result = b.or_(all_, b.icmp("eq", mask, b.const(0)))
        set_predicate(b, p, result)
    if d is not None:
        set32(b, d, mask)


@meaning("MATCH")
def MATCH(i: Instruction, b: Emitter) -> None:
    only(i, "ANY", "ALL", "U64")
    operands = list(i.operands)
    p = operands.pop(0) if is_predicate(operands[0]) else None
    d, source = operands[0], operands[1]
    if "ANY" in i.modifiers:
        value = src64(b, source) if "U64" in i.modifiers else raw32(b, source)
        b.op("touch", "void", value, attr=Access("value", 8 if "U64" in i.modifiers else 4))
    mask = b.op("match_any", "i32", raw32(b, source))
    if "U64" in i.modifiers:
        mask = b.and_(mask, b.op("match_any", "i32", raw32(b, source, 1)))
    mask = exclusively(b, mask)
    if "ALL" in i.modifiers:
        same = b.icmp("eq", mask, exclusively(b, b.op("active", "i32")))
        mask = b.select(same, mask, b.const(0))
        if p is not None:
            set_predicate(b, p, same)
    set32(b, d, mask)


@meaning("REDUX")
def REDUX(i: Instruction, b: Emitter) -> None:
    set32(b, i.operands[0], b.op("redux", "i32", src32(b, i.operands[1]), attr=reduction(i)))


def reduction(i: Instruction) -> str:
    """The operation of REDUX; the default is AND."""
    only(i, "SUM", "MIN", "MAX", "AND", "OR", "XOR", "S32", "U32")
    name = next((m for m in i.modifiers if m not in ("S32", "U32")), "AND")
    return {"SUM": "add", "AND": "and", "OR": "or", "XOR": "xor"}.get(
        name, ("s" if "S32" in i.modifiers else "u") + name.lower()
    )


NEUTRAL = {"and": 0xFFFFFFFF, "umin": 0xFFFFFFFF, "smin": 0x7FFFFFFF, "smax": 0x80000000}


def reduce_groups(i: Instruction, d: Operand, b: Emitter) -> None:
    """REDUX of each group of an exclusive region with its own mask, to a vector register, computed lane by lane."""
    operation, x = reduction(i), src32(b, i.operands[1])
    assert b.exclusive is not None
    group, neutral = src32(b, b.exclusive), b.const(NEUTRAL.get(operation, 0))
    total = neutral
    for lane in range(32):
        present = b.icmp("ne", b.and_(group, b.const(1 << lane)), b.const(0))
        value = b.select(present, b.op("shuffle", "i32", x, b.const(lane)), neutral)
        total = b.binary(operation, total, value)
    set32(b, d, total)


@meaning("SHFL")
def SHFL(i: Instruction, b: Emitter) -> None:
    """PTX ``shfl``: the last operand holds the clamp in bits 4..0 and the segment mask in bits 12..8.

    A lane that does not execute the instruction gives zero (measured on an H200: ``python -m bench.machine.inactive_lanes``)."""
    only(i, "IDX", "UP", "DOWN", "BFLY")
    p, d, x, by, bounds = i.operands
    value = raw32(b, x)
    lane = b.op("special", "i32", attr="laneid")
    if bounds.kind is Kind.IMMEDIATE or is_zero(bounds):
        c = bounds.value if bounds.kind is Kind.IMMEDIATE else 0
        segment, clamp = b.const(c >> 8 & 31), b.const(c & 31)
    else:
        word = src32(b, bounds)
        segment, clamp = b.and_(b.lshr(word, b.const(8)), b.const(31)), b.and_(word, b.const(31))
    if by.kind is Kind.IMMEDIATE or is_zero(by):
        distance = b.const(by.value & 31 if by.kind is Kind.IMMEDIATE else 0)
    else:
        distance = b.and_(src32(b, by), b.const(31))
    outside = b.xor(segment, b.const(31))
    lowest = b.and_(lane, segment)
    bound = b.or_(lowest, b.and_(clamp, outside))
    mode = next(m for m in i.modifiers if m in ("IDX", "UP", "DOWN", "BFLY"))
    if mode == "UP":
        source = b.sub(lane, distance)
        inside = b.icmp("sge", source, bound)
    else:
        if mode == "DOWN":
            source = b.add(lane, distance)
        elif mode == "BFLY":
            source = b.xor(lane, distance)
        else:
            source = b.or_(lowest, b.and_(distance, outside))
        inside = b.icmp("sle", source, bound)
    result = b.op("shuffle", "i32", b.op("executed", "i32", value), b.select(inside, source, lane))
    set_predicate(b, p, inside)
    set32(b, d, result)


@meaning("ELECT")
def ELECT(i: Instruction, b: Emitter) -> None:
    """Elects the lowest active lane."""
    only(i)
    lane = b.op("special", "i32", attr="laneid")
    first = b.op("first_lane", "i32", lane)
    for o in i.operands[:2]:
        if is_predicate(o):
            set_predicate(b, o, b.icmp("eq", lane, first))
        elif o.kind in REGISTERS:
            set32(b, o, first)


@meaning("USETMAXREG")
def USETMAXREG(i: Instruction, b: Emitter) -> None:
    """Release registers to the block's pool, or request more; a request always succeeds, because a thread has all
    registers that its code names."""
    only(i, "DEALLOC", "TRY_ALLOC", "CTAPOOL")
    if is_predicate(i.operands[0]):
        set_predicate(b, i.operands[0], b.const(1, "i1"))


@meaning("RPCMOV")
def RPCMOV(i: Instruction, b: Emitter) -> None:
    """Move a word between a register and one half of Rpc."""
    only(i, "32")
    d, x = i.operands
    if d.kind is Kind.NAME:
        b.op("set_reg", "void", raw32(b, x), attr=RETURN_PC[d.name])
    else:
        set32(b, d, b.op("get_reg", "i32", attr=RETURN_PC[x.name]))

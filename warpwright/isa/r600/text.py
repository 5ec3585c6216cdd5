"""Prints programs of Cypress and Cayman: AMD's names, in the layout of LLVM's assembly."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from warpwright.isa.r600.decoded_program import AluWord, Bundle, ControlWord, FetchWord, Listing, Source
from warpwright.isa.r600.layouts import EVERGREEN
from warpwright.isa.r600.tables_control import Role
from warpwright.isa.r600.tables_fetch import BITS_OF_FORMAT, FetchKind

CHANNELS = "XYZW"
SELECTS = "XYZW01?_"
"""Letters of ``dst_sel`` and ``src_sel``: a channel, a constant, 7 for nothing."""
MODIFIERS = ("", " * 2.0", " * 4.0", " / 2.0")
SWIZZLES = ("", "VEC_021/SCL_122", "VEC_120/SCL_212", "VEC_102/SCL_221", "VEC_201", "VEC_210", "6", "7")
PREDICATES = ("", "", "Pred_sel_zero", "Pred_sel_one")
CONSTANTS = {
    **dict(enumerate(("OQA", "OQB", "OQAP", "OQBP", "LDS_DIRECT_A", "LDS_DIRECT_B"), 219)),
    **dict(enumerate(("TIME_HI", "TIME_LO", "MASK_HI", "MASK_LO", "HW_WAVE_ID", "SIMD_ID", "SE_ID"), 227)),
    **dict(enumerate(("HW_THREADGRP_ID", "WAVE_ID_IN_GRP", "NUM_THREADGRP_WAVES", "HW_ALU_ODD", "LOOP_IDX"), 234)),
    **dict(enumerate(("PARAM_BASE_ADDR", "NEW_PRIM_MASK", "PRIM_MASK_HI", "PRIM_MASK_LO"), 240)),
    **dict(enumerate(("1_DBL_L", "1_DBL_M", "0_5_DBL_L", "0_5_DBL_M", "0.0", "1.0", "1", "-1", "0.5"), 244)),
    255: "PS",
}
"""Sources with a single value for all channels."""
BANKS = ((128, "KC0"), (160, "KC1"), (256, "KC2"), (288, "KC3"))
INDICES = {0: "AR.x", 4: "LOOP_IDX", 5: "GLOBAL", 6: "GLOBAL + AR.x"}


def register(number: int, channel: int, relative: bool, index_mode: int) -> str:
    if relative:
        return f"T({number} + {INDICES[index_mode]}).{CHANNELS[channel]}"
    return f"T{number}.{CHANNELS[channel]}"


def source_text(source: Source, index_mode: int) -> str:
    """A source with its marks: ``-`` negated, ``|`` absolute, ``+`` relative."""
    bar = "|" * source.absolute
    return f"{'-' * source.negate}{bar}{_plain(source, index_mode)}{bar}{'+' * source.relative}"


def _plain(source: Source, index_mode: int) -> str:
    number, channel = source.select, source.channel
    if number < 128:
        return register(number, channel, source.relative, index_mode)
    if number in CONSTANTS:
        return CONSTANTS[number]
    if number == 253:
        return f"literal.{'xyzw'[channel]}"
    if number == 254:
        return f"PV.{CHANNELS[channel]}"
    if number >= 448:
        return f"Param{number - 448}.{CHANNELS[channel]}"
    first, bank = next(b for b in BANKS if b[0] <= number < b[0] + 32)
    return f"{bank}[{number - first}].{CHANNELS[channel]}"


def _destination(word: AluWord) -> str:
    f = word.fields
    if not word.writes and word.operation.sets_predicate:
        name = "PredicateBit"
    elif not word.writes and word.operation.name == "MOVA_INT":
        name = "AR.x"
    else:
        name = register(f["dst_gpr"], f["dst_chan"], bool(f["dst_rel"]), f["index_mode"])
    masked = "" if word.writes else " (MASKED)"
    return f"{name}{masked}{'+' * f['dst_rel']}{MODIFIERS[f.get('omod', 0)]}"


def alu_text(word: AluWord) -> str:
    """An operation; ``*`` marks the last one of its bundle."""
    f, operation = word.fields, word.operation
    sources = [source_text(s, f["index_mode"]) for s in word.sources]
    predicate = PREDICATES[f["pred_sel"]]
    swizzle = f"BS:{SWIZZLES[f['bank_swizzle']]}" if f["bank_swizzle"] else ""
    last = " *"[f["last"]]
    if operation.name.startswith("LDS_") and "lds_op" in f:
        queue = ["OQAP"] if operation.name.endswith("_RET") else []
        offset = f" +{word.lds_offset}" if word.lds_offset else ""
        return f"  {operation.name} {last} {', '.join([*queue, *sources])}{offset} {predicate}".rstrip()
    name = operation.name + "_SAT" * f["clamp"]
    if not operation.source_count and not word.writes:
        return f"  {name} {last}".rstrip()
    masks = "ExecMask," * f.get("update_exec_mask", 0) + "Pred," * f.get("update_pred", 0)
    operands = ", ".join([masks + _destination(word), *sources])
    return f"  {name} {last} {operands}, {predicate} {swizzle}".rstrip(" ,")


def literal_text(value: int) -> str:
    signed, real = struct.unpack("<if", struct.pack("<I", value) * 2)
    return f"{signed}({real:e})".replace("inf", "INF")


def _bundle(bundle: Bundle) -> Iterator[str]:
    yield from (alu_text(word) for word in bundle.words)
    for first, second in zip(bundle.literals[::2], bundle.literals[1::2], strict=True):
        yield f"{literal_text(first)}, {literal_text(second)}"


def _selected(word: FetchWord, prefix: str, channels: str) -> str:
    return "".join(SELECTS[word.fields[f"{prefix}_sel_{c}"]] for c in channels)


def fetch_text(word: FetchWord) -> str:
    """A fetch: a load of plain memory by its width, other fetches by the operation's name."""
    f, name = word.fields, word.operation.name
    if word.operation.kind in (FetchKind.VERTEX, FetchKind.SEMANTIC):
        return _vertex(word)
    if word.operation.kind is FetchKind.TEXTURE:
        types = "".join("UN"[f[f"coord_type_{c}"]] for c in "xyzw")
        return (
            f"  TEX_{name} T{f['dst_gpr']}.{_selected(word, 'dst', 'xyzw')},"
            f" T{f['src_gpr']}.{_selected(word, 'src', 'xyzw')} RID:{f['resource_id']} SID:{f['sampler_id']} CT:{types}"
        )
    if word.operation.kind is FetchKind.GLOBAL_SHARE:
        return (
            f"  {name} T{f['dst_gpr']}.{_selected(word, 'dst', 'xyzw')},"
            f" T{f['src_gpr']}.{_selected(word, 'src', 'xyz')} UAV:{f['uav_id']}"
        )
    return (
        f"  {name} T{f['dst_gpr']}.{_selected(word, 'dst', 'xyzw')}, T{f['src_gpr']}.{_selected(word, 'src', 'x')},"
        f" {f['array_base']} FORMAT:{f['data_format']}"
    )


def _vertex(word: FetchWord) -> str:
    f = word.fields
    selects = _selected(word, "dst", "xyzw")
    direct = f.get("lds_req", 0)
    source = f"T{f['src_gpr']}.{_selected(word, 'src', 'xy' if direct else 'x')}"
    target = "LDS" if direct else f"S{f['semantic_id']}" if "semantic_id" in f else f"T{f['dst_gpr']}"
    bits, components = BITS_OF_FORMAT.get(f["data_format"], (0, 0))
    if word.operation.name == "VFETCH" and bits and selects == "XYZW"[:components].ljust(4, "_"):
        return f"  VTX_READ_{bits} {target}.{selects.rstrip('_')}, {source}, {f['offset']}, #{f['buffer_id']}"
    return f"  {word.operation.name} {target}.{selects}, {source}, {f['offset']}, #{f['buffer_id']} FORMAT:{f['data_format']}"


def _constants(word: ControlWord, bank: int) -> str:
    mode = word.fields[f"kcache_mode{bank}"]
    first = 16 * word.fields[f"kcache_addr{bank}"]
    held = f"CB{word.fields[f'kcache_bank{bank}']}:{first}-{first + (16 if mode == 1 else 32)}" if mode else ""
    return f"KC{bank}[{held}]"


def control_text(word: ControlWord, generation: str) -> str:
    """A control-flow word."""
    f, name, role = word.fields, word.operation.name, word.operation.role
    if role is Role.ALU_CLAUSE:
        return f"{name} {f['count']}, @{f['addr']}, {_constants(word, 0)}, {_constants(word, 1)}"
    if role is Role.ALU_EXTENDED:
        return f"{name} {_constants(word, 2)}, {_constants(word, 3)}"
    if role in (Role.RAT, Role.EXPORT, Role.MEMORY_EXPORT):
        return _export(word, generation)
    if name == "NOP" and word.ends_program:
        return "CF_END"
    end = " END_OF_PROGRAM" if f.get("end_of_program", 0) else ""
    if role is Role.FETCH_CLAUSE:
        return f"{name} {f['count']} @{f['addr']}{end}"
    if role is Role.PLAIN:
        return name + end
    pops = f" POP:{f['pop_count']}" if role is Role.JUMP else ""
    return f"{name} @{f['addr']}{pops}{end}"


def _export(word: ControlWord, generation: str) -> str:
    f, name = word.fields, word.operation.name
    end = f", {f['end_of_program']}" if generation == EVERGREEN else ""
    if word.operation.role is Role.EXPORT:
        selects = "".join(SELECTS[f[f"sel_{c}"]] for c in "xyzw")
        return f"{name} {f['array_base']}, T{f['rw_gpr']}.{selects}{end}"
    components = "".join(c for i, c in enumerate(CHANNELS) if f["comp_mask"] >> i & 1)
    data = f"T{f['rw_gpr']}.{components}"
    if word.operation.role is Role.MEMORY_EXPORT:
        return f"{name} {f['array_base']}, {data}, T{f['index_gpr']}{end}"
    target = f" RAT({f['rat_id']})" if f["rat_id"] else ""
    return f"{name} {word.rat_operation}{target} {data}, T{f['index_gpr']}.X{end}"


def format_program(program: Listing) -> list[str]:
    """The lines of a program: control-flow words, then each clause below a line with its address."""
    lines = [control_text(word, program.generation) for word in program.control]
    for clause in program.clauses.values():
        lines.append(f"{'ALU' if clause.bundles else 'Fetch'} clause starting at {clause.address}:")
        lines += [line for bundle in clause.bundles for line in _bundle(bundle)]
        lines += [fetch_text(word) for word in clause.fetches]
    return lines

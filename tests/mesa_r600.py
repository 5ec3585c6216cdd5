"""What Mesa's ``r600`` driver prints of the programs it makes (``R600_DEBUG=vs,ps,cs…``), and our decoder's words in the same arrangement."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from warpwright.isa.r600.decode import decode_program
from warpwright.isa.r600.decoded_program import AluWord, Bundle, ControlWord, FetchWord, Listing, Source
from warpwright.isa.r600.layouts import CAYMAN, EVERGREEN
from warpwright.isa.r600.tables_control import Role
from warpwright.isa.r600.tables_fetch import FetchKind

GENERATION = {"E": EVERGREEN, "C": CAYMAN}
SELECTS = "xyzw01?_"
INLINE = {
    **{219: "LDS_OQ_A", 220: "LDS_OQ_B", 221: "LDS_OQ_A_POP", 222: "LDS_OQ_B_POP", 227: "TIME_HI", 228: "TIME_LO"},
    **{231: "HW_WAVE_ID", 232: "SIMD_ID", 233: "SE_ID"},
    **{248: "0", 249: "1.0", 250: "1", 251: "-1", 252: "0.5", 254: "PV", 255: "PS"},
}
WITH_CHANNEL = {219, 220, 221, 222, 254}


@dataclass
class Dump:
    """A program as Mesa printed it."""

    generation: str
    words: dict[int, int] = field(default_factory=dict)
    """Of 32 bits, by their number."""
    lines: dict[int, str] = field(default_factory=dict)
    """Text of the instruction that begins at a word."""

    @property
    def code(self) -> bytes:
        count = max(self.words) + 1
        count += count & 1
        return struct.pack(f"<{count}I", *(self.words.get(i, 0) for i in range(count)))


_LINE = re.compile(r"^ ?(\d{4,}) ((?:[0-9A-F]{8} ?){1,3})(.*)$")
_START = re.compile(r"^shader \d+ -- (\w)")


def dumps(text: str) -> Iterator[Dump]:
    """The programs in what Mesa printed."""
    found: Dump | None = None
    for line in text.splitlines():
        start = _START.match(line)
        if start is not None or line.startswith("bytecode"):
            if found is not None and found.words:
                yield found
            found = Dump(GENERATION[start[1]]) if start is not None else None
        row = _LINE.match(line)
        if found is None or row is None:
            continue
        at = int(row[1])
        words = [int(word, 16) for word in row[2].split()]
        found.words |= dict(enumerate(words, at))
        if len(words) > 1:
            found.lines[at] = plain(row[3])
    if found is not None and found.words:
        yield found


def plain(text: str) -> str:
    """A line without padding and without the bundle's number."""
    text = re.sub(r"^\s*\d+ (?=[xyzwt]:)", "", text.strip())
    return re.sub(r"\s+", " ", text).strip()


# --- our words as Mesa prints them ------------------------------------------------------------------------------
def printed(program: Listing) -> Iterator[tuple[int, str, int]]:
    """Number of the first word of 32 bits, text and encoding of every instruction."""
    extended: ControlWord | None = None
    for word in program.control:
        if word.operation.role is Role.ALU_EXTENDED:
            extended = word
            yield 2 * word.address, "ALU_EXT", word.encoding
            continue
        yield 2 * word.address, plain(control(word, program, extended)), word.encoding
        extended = None
    for clause in program.clauses.values():
        for bundle in clause.bundles:
            for alu in bundle.words:
                yield 2 * alu.address, plain(operation(alu, bundle, program.generation)), alu.encoding
        for fetch in clause.fetches:
            yield 2 * fetch.address, plain(fetched(fetch, program.generation)), fetch.encoding


def constants(word: ControlWord, extended: ControlWord | None) -> str:
    """What a clause locks of constant buffers."""
    texts = []
    for bank in range(4):
        fields = word.fields if bank < 2 else extended.fields if extended is not None else {}
        mode = fields.get(f"kcache_mode{bank}", 0)
        index = extended.fields[f"kcache_bank_index_mode{bank}"] if extended is not None else 0
        if mode:
            first = 16 * fields[f"kcache_addr{bank}"]
            indexed = f" CF_INDEX_{index - 1}" if index else ""
            texts.append(f"KC{bank}[CB{fields[f'kcache_bank{bank}']}:{first}-{first + 16 * mode}{indexed}]")
    return " ".join(texts)


def control(word: ControlWord, program: Listing, extended: ControlWord | None) -> str:
    """A control-flow word."""
    f, role = word.fields, word.operation.role
    name = word.operation.name
    if role is Role.ALU_CLAUSE:
        return f"{name} {f['count'] + 1} @{2 * f['addr']} {constants(word, extended)}"
    end = " EOP" * f.get("end_of_program", 0)
    valid = " VPM" * f.get("valid_pixel_mode", 0)
    if role is Role.FETCH_CLAUSE:
        return f"{name} {f['count'] + 1} @{2 * f['addr']}{valid}{end}"
    if role in (Role.EXPORT, Role.MEMORY_EXPORT, Role.RAT):
        return exported(word)
    condition = f" CND:{f['cond']:X}" if f["cond"] else ""
    pops = f" POP:{f['pop_count']:X}" if f["pop_count"] else ""
    stream = f" STREAM{f['count']}" if f["count"] and name in ("EMIT_VERTEX", "CUT_VERTEX") else ""
    return f"{name} @{2 * f['addr']}{condition}{pops}{stream}{valid}{end}"


def exported(word: ControlWord) -> str:
    """An export, or a write to memory."""
    f, name, role = word.fields, word.operation.name, word.operation.role
    count = f["burst_count"] + 1
    marks = " MARK" * f["mark"] + " NO_BARRIER" * (1 - f["barrier"]) + " EOP" * f.get("end_of_program", 0)
    first = f.get("array_base", 0)
    places = f"{first}-{first + count - 1}" if count > 1 else f"{first}"
    registers = f"R{f['rw_gpr']}-{f['rw_gpr'] + count - 1}" if count > 1 else f"R{f['rw_gpr']}"
    if role is Role.EXPORT:
        kind = ("PIXEL", "POS", "PARAM")[f["type"]]
        selects = "".join(SELECTS[f[f"sel_{c}"]] for c in "xyzw")
        return f"{name} {kind} {places} {registers}.{selects} ES:{f['elem_size']:X}{marks}"
    kind = ("WRITE", "WRITE_IND", "WRITE_ACK", "WRITE_IND_ACK")[f["type"]]
    target = f" RAT{f['rat_id']}" if role is Role.RAT else ""
    if role is Role.RAT:
        index = f"[IDX{f['rat_index_mode'] - 1}]" if f["rat_index_mode"] else ""
        target += f"{index} INST: {f['rat_inst']}"
    components = "".join(c if f["comp_mask"] >> i & 1 else "_" for i, c in enumerate("xyzw"))
    indexed = f" R{f['index_gpr']}" if f["type"] & 1 else ""
    size = f" AS:{f['array_size']}" if f["array_size"] != 0xFFF else ""
    return f"{name} {kind}{target} {places} {registers}.{components}{indexed} ES:{f['elem_size']}{size}{marks}"


def register(number: int, relative: bool, mode: int) -> str:
    """A register, or one of a clause's temporaries."""
    letter = "T" if number >= 124 else "R"
    if not relative:
        return f"{letter}{number}"
    base = {0: "+AR", 6: "+AR", 4: "+AL"}.get(mode, "")
    return f"{letter}{'G' * (mode >= 5)}[{number}{base}]"


def real(value: int) -> str:
    """A float as C prints it, with the sign of what is no number."""
    (number,) = struct.unpack("<f", struct.pack("<I", value))
    return f"{'-' * (value >> 31)}nan" if number != number else f"{number:f}"


def sourced(source: Source, mode: int, bundle: Bundle) -> str:
    """A source."""
    number, channel = source.select, "." + "xyzw"[source.channel]
    if number < 128:
        text = register(number, source.relative, mode) + channel
    elif number == 253:
        value = bundle.literals[source.channel]
        text = f"[0x{value:08X} {real(value)}]"
    elif number in INLINE:
        text = INLINE[number] + channel * (number in WITH_CHANNEL)
    elif number >= 448:
        text = f"Param{number - 448}"
    else:
        first, bank = next(
            b for b in ((128, "KC0"), (160, "KC1"), (256, "KC2"), (288, "KC3")) if 0 <= number - b[0] < 32
        )
        relative = {0: "+AR", 6: "+AR", 4: "+AL"}.get(mode, "") if source.relative else ""
        text = f"{bank}[{number - first}{relative}]{channel}"
    bar = "|" * source.absolute
    return f"{'-' * source.negate}{bar}{text}{bar}"


def operation(word: AluWord, bundle: Bundle, generation: str) -> str:
    """An operation of a bundle."""
    f = word.fields
    name = word.operation.name
    masks = "M" * f.get("update_exec_mask", 0) + "P" * f.get("update_pred", 0)
    predicate = ("", "", " 0", " 1")[f["pred_sel"]]
    modified = ("", "*2", "*4", "/2")[f.get("omod", 0)] + "_sat" * f.get("clamp", 0)
    if word.operation.name == "MOVA_INT" and generation == CAYMAN:
        target = {0: "AR", 2: "CF_IDX0", 3: "CF_IDX1"}[f["dst_gpr"]]
    elif word.writes:
        target = f"{register(f['dst_gpr'], bool(f['dst_rel']), f['index_mode'])}.{'xyzw'[f['dst_chan']]}"
    else:
        target = f"__.{'xyzw'[f['dst_chan']]}"
    sources = ", ".join(sourced(s, f["index_mode"], bundle) for s in word.sources)
    swizzle = f" BS:{f['bank_swizzle']}" if f["bank_swizzle"] else ""
    return f"{word.slot}:{masks}{predicate} {name}{modified} {target}{', ' * bool(sources)}{sources}{swizzle}"


def selected(word: FetchWord, prefix: str, channels: str) -> str:
    return "".join(SELECTS[word.fields[f"{prefix}_sel_{c}"]] for c in channels)


def indexed(mode: int) -> str:
    return ("", "CF_INDEX_0", "CF_INDEX_1")[mode]


def fetched(word: FetchWord, generation: str) -> str:
    """A fetch."""
    f, kind = word.fields, word.operation.kind
    # Mesa names gradients of both kinds alike, and prints the source of a resource's size as it was before its bits were cut off.
    name = word.operation.name.removesuffix("_FINE")
    if kind is FetchKind.GLOBAL_SHARE:
        return shared(word)
    target = f"R{f['dst_gpr']}.{selected(word, 'dst', 'xyzw')}"
    if kind is FetchKind.TEXTURE:
        return texture(word, name, target)
    source = f"R{f['src_gpr']}.{selected(word, 'src', 'xy' if kind is FetchKind.MEMORY else 'x')}"
    if name == "GET_BUFFER_RESINFO":
        source = source.replace(".w", "._")
    offset = f" +{f['offset']}b" if f.get("offset") else ""
    fetch_type = ("VERTEX", "INSTANCE", "", "")[f.get("fetch_type", 2)]
    count = f.get("mega_fetch_count", -1)
    parts = [f"{name} {target}, {source}{offset}, RID:{f.get('buffer_id', 0)} {fetch_type}"]
    if count > 0 and generation == EVERGREEN:
        parts.append(f"MFC:{count}")
    if f.get("buffer_index_mode"):
        parts.append(f"SQ_{indexed(f['buffer_index_mode'])}")
    if kind is FetchKind.MEMORY:
        parts += ["UNCACHED"] * f["uncached"] + [f"INDEXED:{f['indexed']}"] * f["indexed"]
        parts.append(f"ELEM_SIZE:{f['elem_size']}")
        parts += [f"BURST_COUNT:{f['burst_count']}"] * bool(f["burst_count"])
        parts.append(f"ARRAY_BASE:{f['array_base']} ARRAY_SIZE:{f['array_size']}")
    formats = (
        f"FMT(DTA:{f['data_format']} NUM:{f['num_format_all']} COMP:{f['format_comp_all']} MODE:{f['srf_mode_all']})"
    )
    return " ".join([*parts, f"UCF:{f.get('use_const_fields', 0)}", formats])


def texture(word: FetchWord, name: str, target: str) -> str:
    """A texture fetch."""
    f = word.fields
    parts = [f"{name} {target}, R{f['src_gpr']}.{selected(word, 'src', 'xyzw')}, RID:{f['resource_id']}"]
    parts[-1] += f", SID:{f['sampler_id']}"
    parts += [f"SQ_{indexed(f['sampler_index_mode'])}"] * bool(f["sampler_index_mode"])
    parts += [f"LB:{f['lod_bias']}"] * bool(f["lod_bias"])
    parts.append("CT:" + "".join("UN"[f[f"coord_type_{c}"]] for c in "xyzw"))
    parts += [f"O{c.upper()}:{f[f'offset_{c}']}" for c in "xyz" if f[f"offset_{c}"]]
    return " ".join(parts)


def shared(word: FetchWord) -> str:
    """An access to global data share."""
    f, name = word.fields, word.operation.name
    is_write = name == "TF_WRITE"
    target = "" if is_write else f" R{f['dst_gpr']}.{selected(word, 'dst', 'xyzw')}"
    second = "" if is_write else f", R{f['second_src_gpr']}."
    unordered = f" UAV: {f['uav_id']}" if f["alloc_consume"] else ""
    index = f"[{indexed(f['uav_index_mode'])}]" if f["alloc_consume"] and f["uav_index_mode"] else ""
    return f"{name}{target or ' '}, R{f['src_gpr']}.{selected(word, 'src', 'xyz')}{second}{unordered}{index}"


def differences(dump: Dump) -> list[str]:
    """Where our decoding of a program and Mesa's text differ; lines of both.

    Raises:
        UndefinedWord: a word does not decode.
    """
    program = decode_program(dump.code, dump.generation)
    found = []
    ours: set[int] = set()
    for at, text, encoding in printed(program):
        ours.add(at)
        count = 4 if encoding >> 64 or dump.lines.get(at, "") == "" else 2
        bits = sum(dump.words.get(at + i, 0) << 32 * i for i in range(count))
        if encoding != bits & ((1 << 32 * count) - 1) and encoding != bits & ((1 << 64) - 1):
            found.append(f"{at}: encoded again {encoding:#x}, not {bits:#x}")
        theirs = dump.lines.get(at)
        if theirs is None:
            found.append(f"{at}: {text}: not in Mesa's text")
        elif theirs != text:
            found.append(f"{at}: {text}\n      {theirs}")
    found += [f"{at}: {dump.lines[at]}: not decoded" for at in dump.lines if at not in ours]
    return found

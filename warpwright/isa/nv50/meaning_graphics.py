"""Instructions of vertex, geometry and pixel programs: attributes, interpolation, quads, textures, discard, emitted vertices.

Facts: envytools' documentation of the Tesla ISA (docs/hw/graph/tesla/cuda/misc.rst, texture.rst, control.rst).  No
public model reproduces an interpolation bit for bit; here it is two fused multiply-adds, followed by a product if the
instruction names a register.
"""

from __future__ import annotations

from warpwright.isa.nv50.attributes import WORD, input_word, interface, parameter, put_output, row_address, wide
from warpwright.isa.nv50.decode import tokens_of
from warpwright.isa.nv50.emitter import Nv50Emitter, address, for_lanes, get, lane_number, unsupported
from warpwright.isa.nv50.fields import Token
from warpwright.isa.nv50.meaning import finish_float, float_source, graphics_meaning, put, source, written
from warpwright.isa.nv50.meaning_float import plain
from warpwright.isa.nv50.stage_words import CENTROID, EMITTED, FACING_AT, KILLED, OUTPUT, PLANE, POSITION
from warpwright.isa.nv50.texture_request import KINDS, SAMPLES, SIZE, TextureRequest
from warpwright.isa.ops import ATTRIBUTES, Access
from warpwright.isa.program import Instruction, Kind, Operand

PLANE_BYTES = 16
"""Words of an attribute: its value at the origin, its slopes along x and y, and the provoking vertex's value."""


# --- attributes -----------------------------------------------------------------------------------
@graphics_meaning("ld_a")
def ld_a(i: Instruction, b: Nv50Emitter) -> None:
    d, o = i.operands
    put(b, d, for_lanes(b, i, d, input_word(b, o)))


@graphics_meaning("st_o")
def st_o(i: Instruction, b: Nv50Emitter) -> None:
    o, data = i.operands
    put_output(b, o, source(b, data))


# --- pixels ---------------------------------------------------------------------------------------
@graphics_meaning("interp")
def interp(i: Instruction, b: Nv50Emitter) -> None:
    """Evaluate an attribute's plane at the sample or the centroid; ``flat`` returns the provoking vertex's value."""
    interface(b, "interp")
    d, v, *scale = i.operands
    planes = b.add(parameter(b, "planes"), get(b, PLANE))
    if v.base is None and v.value == FACING_AT:
        offset = parameter(b, "facing")
    else:
        offset = b.mul(b.lshr(address(b, v), b.const(2)), b.const(PLANE_BYTES))
        if v.base is not None:
            offset = b.binary("umin", offset, parameter(b, "facing"))
    at = b.add(planes, offset)
    if "flat" in i.modifiers:
        put(b, d, b.op("load", "i32", wide(b, b.add(at, b.const(12))), attr=WORD))
        return
    words = b.op("load", "i32x4", wide(b, at), attr=Access("global", 16, cache=ATTRIBUTES))
    first, along_x, along_y = (b.bitcast(b.op("extract", "i32", words, attr=n), "f32") for n in range(3))
    x, y = (b.bitcast(get(b, r), "f32") for r in (CENTROID if "cent" in i.modifiers else POSITION))
    value = b.op("fma", "f32", x, along_x, b.op("fma", "f32", y, along_y, first, attr="rn"), attr="rn")
    if scale:
        value = b.op("fmul", "f32", plain(b, value), float_source(b, scale[0]), attr="rn")
    put(b, d, plain(b, value))


@graphics_meaning("discard")
def discard(i: Instruction, b: Nv50Emitter) -> None:
    """Discard the pixel.  Its thread continues, because the quad's derivatives need it, and ends when all four pixels
    are discarded."""
    known = interface(b, "discard")
    mine = b.and_(b.lshr(b.op("active", "i32"), lane_number(b)), b.const(1))
    killed = b.or_(get(b, KILLED), mine)
    row = b.const(known.output_slots)
    b.op("store", "void", row_address(b, "outputs", row, "output_row_bytes"), b.const(1), attr=WORD)
    b.op("set_reg", "void", killed, attr=KILLED)
    quad = killed
    for step in (1, 2):
        quad = b.and_(quad, b.op("shuffle", "i32", quad, b.xor(lane_number(b), b.const(step))))
    b.op("exit", "void", b.icmp("ne", quad, b.const(0)))


@graphics_meaning("quadop")
def quadop(i: Instruction, b: Nv50Emitter) -> None:
    """Combine each lane's second source with the first source of one lane of the quad; each lane has its own
    operation."""
    start = i.modifiers.index("f32") + 1
    operations, lane = i.modifiers[start : start + 4], i.modifiers[start + 4]
    o1, o2 = written(i)[2]
    number = lane_number(b)
    if lane[0] == "l":
        from_lane = b.or_(b.and_(number, b.const(28)), b.const(int(lane[1])))
    else:
        from_lane = b.xor(number, b.const(1 if lane == "dx" else 2))
    theirs = b.bitcast(b.op("shuffle", "i32", source(b, o1), from_lane), "f32")
    theirs, own = b.op("ftz", "f32", theirs), float_source(b, o2)
    results = {
        "add": lambda: plain(b, b.op("fadd", "f32", theirs, own, attr="rn")),
        "sub": lambda: plain(b, b.op("fadd", "f32", theirs, b.op("fneg", "f32", own), attr="rn")),
        "subr": lambda: plain(b, b.op("fadd", "f32", own, b.op("fneg", "f32", theirs), attr="rn")),
        "mov2": lambda: own,
    }
    made = {name: results[name]() for name in sorted(set(operations))}
    value = made[operations[0]]
    for n in range(1, 4):
        if operations[n] != operations[0]:
            here = b.icmp("eq", b.and_(number, b.const(3)), b.const(n))
            value = b.select(here, made[operations[n]], value)
    finish_float(b, i, value)


@graphics_meaning("quadon", "quadpop")
def quadon(i: Instruction, b: Nv50Emitter) -> None:
    """All lanes of a quad run; they do so here anyway unless the program has diverged."""


# --- geometry -------------------------------------------------------------------------------------
@graphics_meaning("emit")
def emit(i: Instruction, b: Nv50Emitter) -> None:
    """Complete the vertex; a vertex beyond the declared maximum is dropped."""
    known = interface(b, "emit")
    count, most = get(b, EMITTED), parameter(b, "most_vertices")
    more = b.icmp("ult", count, most)
    step = b.mul(b.const(known.output_slots), parameter(b, "output_row_bytes"))
    b.op("set_reg", "void", b.select(more, b.add(count, b.const(1)), count), attr=EMITTED)
    b.op("set_reg", "void", b.select(more, b.add(get(b, OUTPUT), step), get(b, OUTPUT)), attr=OUTPUT)


@graphics_meaning("restart")
def restart(i: Instruction, b: Nv50Emitter) -> None:
    """The next vertex begins a new strip."""
    interface(b, "restart")
    b.op("store", "void", row_address(b, "cuts", get(b, EMITTED), "output_row_bytes"), b.const(1), attr=WORD)


# --- textures -------------------------------------------------------------------------------------
def _vectors(i: Instruction, tokens: list[Token]) -> tuple[list[Operand], list[Operand]]:
    """Destinations (# where nothing is written) and coordinates."""
    groups: list[list[Operand]] = []
    inside = False
    for token in tokens:
        if token == "{":
            groups.append([])
        inside = (inside or token == "{") and token != "}"
        if inside and isinstance(token, Operand):
            groups[-1].append(token)
    if len(groups) == 2:
        return groups[0], groups[1]
    return groups[0], [o for o in i.operands[-1:] if o.kind is Kind.REGISTER]


@graphics_meaning("tex", "texsize")
def tex(i: Instruction, b: Nv50Emitter) -> None:
    """A texture instruction of any kind: the texture unit returns four words, of which the named ones are written."""
    known = interface(b, "a texture instruction")
    _, tokens = tokens_of(i.encoding, known.context)
    to, coordinates = _vectors(i, tokens)
    unit, sampler = (next(o.index for o in i.operands if o.kind is Kind.SPECIAL and o.name[0] == c) for c in "ts")
    kind = KINDS.index(next(m for m in i.modifiers if m in KINDS))
    if kind == SAMPLES:
        raise unsupported("texcsaa reads coverage samples, which are not provided; sample a resolved image")
    offsets = [o.value for o in i.operands if o.kind is Kind.IMMEDIATE]
    x, y, z = [(v ^ 0x80000000) - 0x80000000 for v in offsets] if len(offsets) == 3 else (0, 0, 0)
    request = TextureRequest(
        kind=kind,
        unit=unit,
        sampler=sampler,
        arguments=len(coordinates),
        cube="cube" in i.modifiers,
        derivatives=kind != SIZE and (known.stage == "fp" or "deriv" in i.modifiers),
        x=x,
        y=y,
        z=z,
    )
    words = b.op("texture", "i32x4", *(get(b, o.index) for o in coordinates), attr=request)
    for n, o in enumerate(to):
        if o.kind is Kind.REGISTER:
            put(b, o, b.op("extract", "i32", words, attr=n))

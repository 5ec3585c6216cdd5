"""LLVM IR of OpenCL C's functions on images.

LLVM's back end selects one texture fetch, TEX_SAMPLE.  The others are written as that one with a number in its first offset, for which :mod:`finish` substitutes
them, as it does for random accesses.  The chip's level of detail of two gradients is computed here: the back end cannot keep the two fetches that would set them
beside the one that samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warpwright.isa.r600.compiler.opencl_images import (
    ADDRESSES,
    FIRST_BUFFER,
    FIRST_READ,
    FIRST_RETURN,
    FORMAT_AT,
    HEIGHT_AT,
    KINDS,
    LAYERS_AT,
    LEVELS_AT,
    LINEAR,
    NORMALIZED,
    PARAMETER,
    RESOURCE_BIT,
    SAMPLER_BIT,
    TARGET_BIT,
    WIDTH_AT,
    ImageKind,
)
from warpwright.isa.r600.launch_words import PARAMETERS_AT
from warpwright.isa.r600.meaning_memory import RETURNS_AT

GLOBAL, IMPLICIT, CONSTANT_BUFFER = 1, 7, 8
FETCHES = ("SAMPLE_LZ", "LD", "SAMPLE_L", "BUFFER", "RETURNED")
"""The fetch by the number in TEX_SAMPLE's first offset; the last two are fetches from a buffer, and of what a random access has returned."""
FIRST_SIGNED, FIRST_UNSIGNED = 0x10D7, 0x10DA
"""OpenCL's channel data types of 8-bit integers; those of 16 and 32 bits follow."""
_FUNCTION = re.compile(
    r"_Z\d+(?P<name>(?:read|write|get)_image\w*?)\d+ocl_(?P<kind>image\w+?)_(?P<access>ro|wo|rw)(?P<rest>11ocl_sampler)?(?P<types>\w*)$"
)
_DECLARED = re.compile(r"^declare [^\n]*?@(?P<name>_Z\d+(?:read|write|get)_image\w+)\([^\n]*$", re.MULTILINE)
_NAMES = re.compile(r"^declare [^\n]*?@(_Z\d+(?:read|write|get)_image\w+)\(", re.MULTILINE)
_BODY = re.compile(r"^define [^\n]*?@(?P<name>[\w.$]+)\([^\n]*\{\n(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)
_TRANSLATED = re.compile(r"^declare [^\n]*@__translate_sampler_initializer\([^\n]*$", re.MULTILINE)
RESULTS = {"f": "float", "i": "i32", "ui": "i32"}
LETTERS = {"f": "f", "i": "i", "ui": "j"}
"""Scalars in mangled names; ``S0_`` repeats the place's type."""
SIZES = {
    "get_image_width": WIDTH_AT,
    "get_image_height": HEIGHT_AT,
    "get_image_depth": LAYERS_AT,
    "get_image_array_size": LAYERS_AT,
    "get_image_channel_data_type": FORMAT_AT,
    "get_image_channel_order": FORMAT_AT,
    "get_image_num_mip_levels": LEVELS_AT,
}


_POINTER = f"ptr addrspace({GLOBAL})"
COMMON = f"""
define linkonce_odr i32 @ww.image.word(i32 %handle, i32 %field) alwaysinline {{
  %offset = and i32 %handle, 65535
  %place = add i32 %offset, %field
  %at = add i32 %place, {PARAMETERS_AT}
  %p = inttoptr i32 %at to ptr addrspace({CONSTANT_BUFFER})
  %word = load i32, ptr addrspace({CONSTANT_BUFFER}) %p, align 4
  ret i32 %word
}}
define linkonce_odr i32 @ww.sampler.number(i32 %handle) alwaysinline {{
  %flag = and i32 %handle, {PARAMETER}
  %is = icmp ne i32 %flag, 0
  %high = lshr i32 %handle, {SAMPLER_BIT}
  %given = and i32 %high, 255
  %half = lshr i32 %handle, 1
  %address = and i32 %half, 7
  %linear = and i32 %handle, {LINEAR}
  %filters = icmp ne i32 %linear, 0
  %first = select i1 %filters, i32 {len(ADDRESSES)}, i32 0
  %own = add i32 %address, %first
  %number = select i1 %is, i32 %given, i32 %own
  ret i32 %number
}}
define linkonce_odr i1 @ww.sampler.normalized(i32 %handle) alwaysinline {{
  %flag = and i32 %handle, {PARAMETER}
  %is = icmp ne i32 %flag, 0
  br i1 %is, label %parameter, label %constant
parameter:
  %given = call i32 @ww.image.word(i32 %handle, i32 0)
  br label %constant
constant:
  %word = phi i32 [ %handle, %0 ], [ %given, %parameter ]
  %bit = and i32 %word, {NORMALIZED}
  %found = icmp ne i32 %bit, 0
  ret i1 %found
}}
declare <4 x float> @llvm.r600.tex(<4 x float>, i32, i32, i32, i32, i32, i32, i32, i32, i32)
declare float @llvm.log2.f32(float)
"""


class _Lines:
    """Lines of a function, with names of its own for values."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def let(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def vector(self, type: str, words: list[str]) -> str:
        """Four words as a vector."""
        found = "poison"
        for n, word in enumerate(words):
            found = self.let(f"insertelement <4 x {type}> {found}, {type} {word}, i32 {n}")
        return found

    def parts(self, type: str, name: str, count: int) -> list[str]:
        """The components of an argument."""
        if count == 1:
            return [name]
        width = 4 if count == 3 else count
        return [self.let(f"extractelement <{width} x {type}> {name}, i32 {n}") for n in range(count)]


def _place(kind: ImageKind, parts: list[str], zero: str) -> list[str]:
    """A place's components as the chip takes them: the layer is the third coordinate, and of fetches from rows also the second.

    The back end cannot select a pair that is widened by zeros, so a third coordinate that a plane does not have is its second one.
    """
    if kind.coordinates == 2:
        parts = [*parts, parts[1]]
    return parts + [zero] * (4 - len(parts))


def _vector_type(type: str, count: int) -> str:
    width = 4 if count == 3 else count
    return type if width == 1 else f"<{width} x {type}>"


def _read(f: _Lines, match: re.Match[str], kind: ImageKind, detail: str) -> tuple[str, str]:
    """Parameters after the image, and the result, of a read.

    Args:
        detail: ``level`` or ``gradients`` if the function takes these, else empty.
    """
    samples = match["rest"] is not None
    scalar = "float" if detail or match["types"].endswith("f") else "i32"
    type = _vector_type(scalar, kind.coordinates)
    handle = f.let(f"ptrtoint {_POINTER} %image to i32")
    high = f.let(f"lshr i32 {handle}, {RESOURCE_BIT}")
    resource = f.let(f"and i32 {high}, 255")
    parts = f.parts(scalar, "%place", kind.coordinates)
    if not samples:
        if match["access"] == "rw":
            return f"{type} %place", _read_target(f, handle, _place(kind, parts, "0"))
        words = [f.let(f"bitcast i32 {part} to float") for part in parts]
        where = f.vector("float", _place(kind, words, "0.0"))
        if kind.buffer:
            resource = f.let(f"add i32 {resource}, {FIRST_BUFFER}")
        return f"{type} %place", _fetch(f, where, resource, "0", kind, fetch="BUFFER" if kind.buffer else "LD")
    sampler = f.let(f"ptrtoint {_POINTER} %sampler to i32")
    number = f.let(f"call i32 @ww.sampler.number(i32 {sampler})")
    given = f"{_POINTER} %sampler, {type} %place"
    if scalar == "i32":
        # Coordinates of texels; with normalised ones OpenCL gives no meaning to them.
        parts = [f.let(f"sitofp i32 {part} to float") for part in parts]
        return given, _fetch(f, f.vector("float", _place(kind, parts, "0.0")), resource, number, kind)
    place, fetch = _place(kind, parts, "0.0"), "SAMPLE_L" if detail else "SAMPLE_LZ"
    if detail == "level":
        given, place[3] = f"{given}, float %level", "%level"
    elif detail == "gradients":
        slope = _vector_type("float", kind.dimensions)
        given, place[3] = f"{given}, {slope} %h, {slope} %v", _level_of_gradients(f, handle, kind)
    where = f.vector("float", place)
    test = f.let(f"call i1 @ww.sampler.normalized(i32 {sampler})")
    f.lines += [f"  br i1 {test}, label %normalized, label %texels", "normalized:"]
    first = _fetch(f, where, resource, number, kind, fetch=fetch, normalized=True)
    f.lines += ["  br label %end", "texels:"]
    second = _fetch(f, where, resource, number, kind, fetch=fetch)
    f.lines += ["  br label %end", "end:"]
    return given, f.let(f"phi <4 x float> [ {first}, %normalized ], [ {second}, %texels ]")


def _level_of_gradients(f: _Lines, handle: str, kind: ImageKind) -> str:
    """The level at which the longer gradient is as long as a texel."""
    lengths = []
    for name in ("%h", "%v"):
        total = ""
        for n, slope in enumerate(f.parts("float", name, kind.dimensions)):
            size = f.let(f"call i32 @ww.image.word(i32 {handle}, i32 {WIDTH_AT + 4 * n})")
            step = f.let(f"fmul float {slope}, {f.let(f'uitofp i32 {size} to float')}")
            square = f.let(f"fmul float {step}, {step}")
            total = f.let(f"fadd float {total}, {square}") if total else square
        lengths.append(total)
    longer = f.let(f"fcmp ogt float {lengths[0]}, {lengths[1]}")
    length = f.let(f"select i1 {longer}, float {lengths[0]}, float {lengths[1]}")
    return f.let(f"fmul float {f.let(f'call float @llvm.log2.f32(float {length})')}, 0.5")


def _read_target(f: _Lines, handle: str, place: list[str]) -> str:
    """A read of an image that the kernel also writes: a random access returns the texel to the thread's place in the buffer of returned values.

    The load of that word only orders the fetch after the access: its value is unused.
    """
    target = f.let(f"lshr i32 {handle}, {TARGET_BIT}")
    slot = f.let("call i32 @ww.slot()")
    number = f.let(f"sub i32 {FIRST_READ}, {target}")
    data, where = f.vector("i32", ["0", slot, "0", "0"]), f.vector("i32", place)
    f.lines.append(f"  call void @llvm.r600.rat.store.typed(<4 x i32> {data}, <4 x i32> {where}, i32 {number})")
    offset = f.let(f"shl i32 {slot}, 2")
    pointer = f.let(f"inttoptr i32 {f.let(f'or disjoint i32 {offset}, {RETURNS_AT}')} to ptr addrspace({IMPLICIT})")
    words = [f"{slot}", f.let(f"load i32, ptr addrspace({IMPLICIT}) {pointer}")]
    after = f.vector("float", [*[f.let(f"bitcast i32 {word} to float") for word in words], "0.0", "0.0"])
    resource = f.let(f"add i32 {target}, {FIRST_RETURN}")
    return _fetch(f, after, resource, "0", ImageKind(1), fetch="RETURNED")


def _fetch(
    f: _Lines,
    where: str,
    resource: str,
    sampler: str,
    kind: ImageKind,
    *,
    fetch: str = "SAMPLE_LZ",
    normalized: bool = False,
) -> str:
    """A texture fetch; a layer is never normalised."""
    types = [int(normalized and n < kind.dimensions) for n in range(4)]
    values = [FETCHES.index(fetch), 0, 0, resource, sampler, *types]
    return f.let(f"call <4 x float> @llvm.r600.tex(<4 x float> {where}, {', '.join(f'i32 {v}' for v in values)})")


def _write(f: _Lines, kind: ImageKind, suffix: str, first_target: int) -> str:
    """A typed store; type of the place."""
    handle = f.let(f"ptrtoint {_POINTER} %image to i32")
    target = f.let(f"lshr i32 {handle}, {TARGET_BIT}")
    number = f.let(f"add i32 {target}, {first_target}")
    parts = f.parts("i32", "%place", kind.coordinates)
    where = f.vector("i32", _place(kind, parts, "0"))
    if suffix == "f":
        data = f.let("bitcast <4 x float> %value to <4 x i32>")
    else:
        data = _nearest(f, handle, signed=suffix == "i")
    f.lines.append(f"  call void @llvm.r600.rat.store.typed(<4 x i32> {data}, <4 x i32> {where}, i32 {number})")
    return _vector_type("i32", kind.coordinates)


def _nearest(f: _Lines, handle: str, signed: bool) -> str:
    """The integers of a texel that are nearest to a value's: a typed store would keep their lower bits."""
    format = f.let(f"call i32 @ww.image.word(i32 {handle}, i32 {FORMAT_AT})")
    kind = f.let(f"sub i32 {format}, {FIRST_SIGNED if signed else FIRST_UNSIGNED}")
    bits = f.let(f"shl i32 8, {f.let(f'and i32 {kind}, 3')}")
    excess = f.let(f"and i32 {f.let(f'sub i32 32, {bits}')}, 31")
    most = f.let(f"lshr i32 {0x7FFFFFFF if signed else -1}, {excess}")
    limits = [("slt" if signed else "ult", most)]
    if signed:
        limits.append(("sgt", f.let(f"xor i32 {most}, -1")))
    words = []
    for word in f.parts("i32", "%value", 4):
        for relation, limit in limits:
            word = f.let(f"select i1 {f.let(f'icmp {relation} i32 {word}, {limit}')}, i32 {word}, i32 {limit}")
        words.append(word)
    return f.vector("i32", words)


def _query(f: _Lines, name: str, kind: ImageKind) -> tuple[str, str]:
    """Type and value of one of an image's properties."""
    handle = f.let(f"ptrtoint {_POINTER} %image to i32")

    def word(at: int) -> str:
        return f.let(f"call i32 @ww.image.word(i32 {handle}, i32 {at})")

    if name == "get_image_dim":
        words = [word(WIDTH_AT), word(HEIGHT_AT), *[word(LAYERS_AT), "0"] * (kind.dimensions == 3)]
        found = "poison"
        for n, one in enumerate(words):
            found = f.let(f"insertelement <{len(words)} x i32> {found}, i32 {one}, i32 {n}")
        return f"<{len(words)} x i32>", found
    at = SIZES[name]
    found = word(HEIGHT_AT if kind.buffer and at == WIDTH_AT else at)
    if name == "get_image_channel_order":
        found = f.let(f"lshr i32 {found}, 16")
    elif name == "get_image_channel_data_type":
        found = f.let(f"and i32 {found}, 65535")
    return "i32", found


def _details(kind: ImageKind) -> dict[str, str]:
    """Mangled types of a read with a sampler, and what it says of the level of detail."""
    width = 4 if kind.coordinates == 3 else kind.coordinates
    place = f"Dv{width}_f" if width > 1 else "f"
    if kind.dimensions == 1:
        slopes = "ff"
    elif kind.dimensions == 2 and kind.layered:
        slopes = "Dv2_fS2_"
    else:
        slopes = "S1_S1_"
    return {f"{place[:-1]}i": "", place: "", f"{place}f": "level", f"{place}{slopes}": "gradients"}


def definition(name: str, first_target: int) -> str | None:
    """LLVM IR of one of OpenCL C's functions on images; None if the chip has no way to do what it does here.

    Args:
        name: mangled.
        first_target: number of the typed store that stands for the first target.
    """
    match = _FUNCTION.match(name)
    kind = KINDS.get(match["kind"]) if match is not None else None
    if match is None or kind is None:
        return None
    plain, types, f = match["name"], match["types"], _Lines()
    stem, _, suffix = plain.partition("image")
    whole = next(iter(_details(kind)))
    reads = _details(kind) if match["rest"] else {whole: ""}
    if stem == "read_" and suffix in RESULTS and types in reads:
        given, found = _read(f, match, kind, reads[types])
        if RESULTS[suffix] == "i32":
            found = f.let(f"bitcast <4 x float> {found} to <4 x i32>")
        type = f"<4 x {RESULTS[suffix]}>"
    elif stem == "write_" and suffix in RESULTS and types in (f"{whole}Dv4_{LETTERS[suffix]}", f"{whole}S0_"):
        given = f"{_write(f, kind, suffix, first_target)} %place, <4 x {RESULTS[suffix]}> %value"
        type, found = "void", ""
    elif plain in SIZES or plain == "get_image_dim":
        (type, found), given = _query(f, plain, kind), ""
    else:
        return None
    head = f"define linkonce_odr {type} @{name}({_POINTER} %image{', ' if given else ''}{given}) alwaysinline {{"
    return "\n".join((head, *f.lines, f"  ret {type} {found}".rstrip(), "}", ""))


def reads_levels(text: str) -> bool:
    """Whether a module has functions that read other levels than the first, or their number."""
    for name in _NAMES.findall(text):
        match = _FUNCTION.match(name)
        kind = KINDS.get(match["kind"]) if match is not None else None
        if match is not None and kind is not None:
            details = _details(kind) if match["rest"] else {}
            if match["name"] == "get_image_num_mip_levels" or details.get(match["types"]):
                return True
    return False


def with_images(text: str, first_target: int) -> str:
    """A module with definitions in place of the declarations of functions on images, which LLVM can fold."""
    if _DECLARED.search(text) is None:
        return text
    translated = (
        f"define linkonce_odr {_POINTER} @__translate_sampler_initializer(i32 %value) alwaysinline {{\n"
        f"  %p = inttoptr i32 %value to {_POINTER}\n  ret {_POINTER} %p\n}}"
    )
    text = _TRANSLATED.sub(translated, text)
    return _DECLARED.sub(lambda m: definition(m["name"], first_target) or m[0], text) + COMMON


def refused(text: str, kernel: str) -> str:
    """The first function on images that a kernel calls and that has no definition; empty if there is none."""
    without = set(_NAMES.findall(text))
    bodies = {m["name"]: m["body"] for m in _BODY.finditer(text)} if without else {}
    waiting, seen = [kernel], set()
    while waiting:
        name = waiting.pop()
        if name in without:
            return readable(name)
        if name not in seen:
            seen.add(name)
            waiting += _called(bodies.get(name, ""))
    return ""


def _called(body: str) -> Iterator[str]:
    return (m[1] for m in re.finditer(r"@([\w.$]+)\(", body))


def readable(name: str) -> str:
    """``read_imagef of image2d_depth_t`` of a mangled name."""
    match = _FUNCTION.match(name)
    if match is None:
        return re.sub(r"^_Z\d+", "", name)
    sampler = "a sampler and " if match["rest"] else ""
    return f"{match['name']} of {match['kind']}_t with {sampler}{match['types']}"

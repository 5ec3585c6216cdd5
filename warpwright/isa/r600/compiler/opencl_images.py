"""Images and samplers of OpenCL C: which parameters and functions a module has, and LLVM IR of those functions.

A kernel gets a parameter's *handle*, a constant in place of clang's pointer: the offset of the image's record among the launch's words in bits 0 to 15, the number of
its resource in bits 16 to 23, and from bit 24 on the number of its random access target.  A sampler's handle is the sampler itself, or for a parameter the offset
of its word, its number from bit 16 on and ``PARAMETER``.  LLVM folds handles to the constants that its instructions need, once the functions are inlined.

LLVM's back end selects one texture fetch, TEX_SAMPLE.  The others are written as that one with a number in its first offset, for which :mod:`finish` substitutes
them, as it does for random accesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from warpwright.errors import UnsupportedError
from warpwright.isa.r600.bindings import (
    CLAMP_BORDER,
    CLAMP_LAST,
    MIP_NONE,
    MIRROR,
    WRAP,
    Bindings,
    BoundImage,
    Sampler,
)
from warpwright.isa.r600.launch_words import PARAMETERS_AT

GLOBAL, CONSTANT_BUFFER = 1, 8
WIDTH_AT, HEIGHT_AT, LAYERS_AT, FORMAT_AT = 8, 12, 16, 28
"""Offsets in an image's record; the last word is OpenCL's channel data type, with the channel order from bit 16 on."""
MOST_IMAGES, MOST_TARGETS, MOST_SAMPLERS = 128, 8, 16
"""OpenCL's least numbers of a kernel's images that are read, images that are written, and samplers."""
RESOURCE_BIT, TARGET_BIT, SAMPLER_BIT, PARAMETER = 16, 24, 16, 1 << 30
FIRST_SAMPLER_PARAMETER = 10
"""Samplers before it are those of OpenCL C's constants: five modes of addressing, with and without a filter."""
NORMALIZED, LINEAR = 1, 0x20
ADDRESSES = (CLAMP_LAST, CLAMP_LAST, CLAMP_BORDER, WRAP, MIRROR)
"""The chip's mode by OpenCL's: none (any will do), clamp to edge, clamp, repeat, mirrored repeat."""
MOST_DETAIL = 0xFFF
FETCHES = ("SAMPLE_LZ", "LD")
"""The fetch by the number in TEX_SAMPLE's first offset."""
FLOAT_FORMAT, NUMBER = 0x23, 2


@dataclass(frozen=True, slots=True)
class ImageKind:
    """A type of images."""

    dimensions: int
    layered: bool = False

    @property
    def coordinates(self) -> int:
        """Components of a place, with the layer."""
        return self.dimensions + self.layered

    @property
    def name(self) -> str:
        """Its name in OpenCL C, without ``_t``."""
        return f"image{self.dimensions}d{'_array' * self.layered}"


KINDS = {kind.name: kind for kind in (ImageKind(1), ImageKind(1, True), ImageKind(2), ImageKind(2, True), ImageKind(3))}
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
}


# --- parameters -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ImageParameter:
    """A kernel's parameter that is an image."""

    kind: ImageKind
    number: int
    """Of its resource."""
    target: int
    """Of its random access target among the kernel's; -1 if the kernel only reads it."""

    def handle(self, offset: int) -> int:
        """The constant that the kernel gets."""
        return offset | self.number << RESOURCE_BIT | max(self.target, 0) << TARGET_BIT


@dataclass(frozen=True, slots=True)
class SamplerParameter:
    """A kernel's parameter that is a sampler."""

    number: int

    def handle(self, offset: int) -> int:
        """The constant that the kernel gets."""
        return offset | (FIRST_SAMPLER_PARAMETER + self.number) << SAMPLER_BIT | PARAMETER


def special_parameters(
    types: list[str], accesses: list[str], where: str
) -> dict[int, ImageParameter | SamplerParameter]:
    """The images and samplers among a kernel's parameters, by position.

    Args:
        types: names in OpenCL C.
        accesses: ``read_only``, ``write_only``, ``read_write`` or ``none``.

    Raises:
        UnsupportedError: for a type that the texture path does not have here, or too many of them.
    """
    found: dict[int, ImageParameter | SamplerParameter] = {}
    images = targets = samplers = 0
    for n, (type, access) in enumerate(zip(types, accesses, strict=True)):
        if type == "sampler_t":
            found[n] = SamplerParameter(samplers)
            samplers += 1
        elif type.startswith("image"):
            kind = KINDS.get(type.removesuffix("_t"))
            if kind is None:
                raise UnsupportedError(f"{where}: parameter {n + 1}: {type} has no meaning on Cypress and Cayman here")
            if access == "read_write":
                raise UnsupportedError(
                    f"{where}: parameter {n + 1}: read_write {type}: the chip's reads do not see writes"
                )
            writes = access == "write_only"
            found[n] = ImageParameter(kind, images, targets if writes else -1)
            images, targets = images + 1, targets + writes
    if images > MOST_IMAGES or targets > MOST_TARGETS or samplers > MOST_SAMPLERS:
        raise UnsupportedError(
            f"{where}: {images} images, {targets} of them written, and {samplers} samplers: a kernel has at most {MOST_IMAGES}, {MOST_TARGETS} and {MOST_SAMPLERS}"
        )
    return found


def sampler_of(value: int) -> Sampler:
    """The chip's sampler of OpenCL C's, whose number says addresses and filter."""
    linear, wrap = bool(value & LINEAR), ADDRESSES[value >> 1 & 7]
    return Sampler((wrap,) * 3, linear, linear, MIP_NONE, 1, 0, MOST_DETAIL, 0, 0)


def constant_samplers() -> dict[int, Sampler]:
    """The samplers that a program may name itself, by number."""
    each = [(address, linear) for linear in (0, LINEAR) for address in range(len(ADDRESSES))]
    return {n: sampler_of(address << 1 | linear) for n, (address, linear) in enumerate(each)}


def assumed_bindings(parameters: dict[int, ImageParameter | SamplerParameter]) -> Bindings:
    """Bindings of a kernel before a launch: images of four floats, which a launch replaces."""
    samplers = constant_samplers()
    textures, targets = {}, {}
    for one in parameters.values():
        if isinstance(one, SamplerParameter):
            samplers[FIRST_SAMPLER_PARAMETER + one.number] = sampler_of(0)
            continue
        image = BoundImage(0, one.kind.dimensions, one.kind.layered, FLOAT_FORMAT, NUMBER, False, 1, (0, 1, 2, 3))
        textures[one.number] = image
        if one.target >= 0:
            targets[1 + one.target] = image
    return Bindings(textures=textures, samplers=samplers, targets=targets)


# --- functions --------------------------------------------------------------------------------------------------
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


def _read(f: _Lines, match: re.Match[str], kind: ImageKind) -> tuple[str, str]:
    """Types of the parameters after the image, and the result, of a read."""
    samples, coordinate = match["rest"] is not None, match["types"]
    scalar = "float" if coordinate.endswith("f") else "i32"
    type = _vector_type(scalar, kind.coordinates)
    handle = f.let(f"ptrtoint {_POINTER} %image to i32")
    high = f.let(f"lshr i32 {handle}, {RESOURCE_BIT}")
    resource = f.let(f"and i32 {high}, 255")
    parts = f.parts(scalar, "%place", kind.coordinates)
    if not samples:
        words = [f.let(f"bitcast i32 {part} to float") for part in parts]
        where = f.vector("float", _place(kind, words, "0.0"))
        return type, _fetch(f, where, resource, "0", kind, fetch="LD")
    sampler = f.let(f"ptrtoint {_POINTER} %sampler to i32")
    number = f.let(f"call i32 @ww.sampler.number(i32 {sampler})")
    if scalar == "i32":
        parts = [f.let(f"sitofp i32 {part} to float") for part in parts]
    where = f.vector("float", _place(kind, parts, "0.0"))
    given = f"{_POINTER} %sampler, {type}"
    if scalar == "i32":
        # Coordinates of texels; with normalised ones OpenCL gives no meaning to them.
        return given, _fetch(f, where, resource, number, kind)
    test = f.let(f"call i1 @ww.sampler.normalized(i32 {sampler})")
    f.lines += [f"  br i1 {test}, label %normalized, label %texels", "normalized:"]
    first = _fetch(f, where, resource, number, kind, normalized=True)
    f.lines += ["  br label %end", "texels:"]
    second = _fetch(f, where, resource, number, kind)
    f.lines += ["  br label %end", "end:"]
    return given, f.let(f"phi <4 x float> [ {first}, %normalized ], [ {second}, %texels ]")


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


def _write(f: _Lines, kind: ImageKind, type: str, first_target: int) -> str:
    """A typed store; type of the place."""
    handle = f.let(f"ptrtoint {_POINTER} %image to i32")
    target = f.let(f"lshr i32 {handle}, {TARGET_BIT}")
    number = f.let(f"add i32 {target}, {first_target}")
    parts = f.parts("i32", "%place", kind.coordinates)
    where = f.vector("i32", _place(kind, parts, "0"))
    data = f.let(f"bitcast <4 x {type}> %value to <4 x i32>")
    f.lines.append(f"  call void @llvm.r600.rat.store.typed(<4 x i32> {data}, <4 x i32> {where}, i32 {number})")
    return _vector_type("i32", kind.coordinates)


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
    found = word(SIZES[name])
    if name == "get_image_channel_order":
        found = f.let(f"lshr i32 {found}, 16")
    elif name == "get_image_channel_data_type":
        found = f.let(f"and i32 {found}, 65535")
    return "i32", found


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
    prefix = f"Dv{4 if kind.coordinates == 3 else kind.coordinates}_" if kind.coordinates > 1 else ""
    if (
        stem == "read_"
        and suffix in RESULTS
        and types in (f"{prefix}i", f"{prefix}f")
        and (match["rest"] or types[-1] == "i")
    ):
        given, found = _read(f, match, kind)
        if RESULTS[suffix] == "i32":
            found = f.let(f"bitcast <4 x float> {found} to <4 x i32>")
        type = f"<4 x {RESULTS[suffix]}>"
        given += " %place"
    elif stem == "write_" and suffix in RESULTS and types in (f"{prefix}iDv4_{LETTERS[suffix]}", f"{prefix}iS0_"):
        given = f"{_write(f, kind, RESULTS[suffix], first_target)} %place, <4 x {RESULTS[suffix]}> %value"
        type, found = "void", ""
    elif plain in SIZES or plain == "get_image_dim":
        (type, found), given = _query(f, plain, kind), ""
    else:
        return None
    head = f"define linkonce_odr {type} @{name}({_POINTER} %image{', ' if given else ''}{given}) alwaysinline {{"
    return "\n".join((head, *f.lines, f"  ret {type} {found}".rstrip(), "}", ""))


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

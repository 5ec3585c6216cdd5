"""A module of kernels in assembly of Cypress and Cayman (``isa/r600/assemble.py``), for programs that no compiler
generates.

The text of a kernel begins with directives for the launch::

    .kernel copy(u64 out, u64 in, u32 n)
    .shared 1024                 # bytes of local data share
    .registers 8
    .image 3 in 64 32 4          # resource 3: 64 by 32 texels of four channels from the address in parameter "in"
    .image 4 in 64 64 1 7        # with seven levels, one after the other
    .anisotropy 4 16             # SAMPLE_G takes the mean of up to 16 places

Parameters are words of the constant buffer from byte 36 on: the first one's lower word is ``KC0[2].y``; a ``u64`` begins at an even word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.machine_code_module import MachineCodeModule
from warpwright.engine.ptx_module import load_ptx
from warpwright.engine.r600_module import GENERATION_OF
from warpwright.errors import UnsupportedError
from warpwright.isa.program import Parameter
from warpwright.isa.r600.assemble import AssemblyError, assemble
from warpwright.isa.r600.bindings import CLAMP_LAST, MIP_LINEAR, MIP_NONE, Bindings, BoundImage, FixedLevel, Sampler
from warpwright.isa.r600.load import R600Program, program_from_code
from warpwright.isa.r600.lower import highest_register
from warpwright.isa.r600.meaning_share import SHARE_BYTES
from warpwright.toolchain.cubin import Kernel as CubinKernel

_HEAD = ".version 7.0\n.target sm_50\n.address_size 64\n"
_SIGNATURE = re.compile(r"\.kernel\s+(\w+)\s*\(([^)]*)\)\s*$")


@dataclass
class AssemblyKernel:
    """The text of one kernel."""

    name: str
    parameters: dict[str, str] = field(default_factory=dict)
    """Types by name."""
    shared_bytes: int = 0
    registers: int = 0
    images: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    anisotropy: dict[int, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """The kernel in PTX, without its code."""
        listed = ", ".join(f".param .{type} {name}" for name, type in self.parameters.items())
        return f".visible .entry {self.name}({listed})\n{{\nret;\n}}\n"


def is_assembly(source: object) -> bool:
    """Whether a source is assembly: it begins with a kernel's directive."""
    return isinstance(source, str) and re.match(r"(\s|#[^\n]*\n)*\.kernel\s", source) is not None


def kernels_of(text: str) -> dict[str, AssemblyKernel]:
    """The kernels of a text.

    Raises:
        AssemblyError: naming the line of an invalid directive.
    """
    found: dict[str, AssemblyKernel] = {}
    kernel = AssemblyKernel("")
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.split("#")[0].strip()
        # Keep the line numbers for messages.
        kernel.lines.append("" if plain.startswith(".") else line)
        if not plain.startswith("."):
            continue
        word, *rest = plain.split()
        signature = _SIGNATURE.match(plain)
        if signature is not None:
            pairs = [p.split() for p in signature[2].split(",") if p.strip()]
            kernel = AssemblyKernel(signature[1], {name: type for type, name in pairs}, lines=[""] * number)
            found[kernel.name] = kernel
        elif word in (".shared", ".registers") and len(rest) == 1:
            setattr(kernel, "shared_bytes" if word == ".shared" else "registers", int(rest[0]))
        elif word == ".image" and len(rest) in (5, 6) and rest[1] in kernel.parameters:
            kernel.images[int(rest[0])] = (rest[1], tuple(int(n) for n in rest[2:]))
        elif word == ".anisotropy" and len(rest) == 2:
            kernel.anisotropy[int(rest[0])] = int(rest[1])
        else:
            raise AssemblyError(f"line {number}: {plain}: no directive")
    return found


@dataclass(frozen=True, slots=True)
class Assembled:
    """A kernel's machine code."""

    program: R600Program
    code: bytes


@dataclass(slots=True)
class R600AssemblyModule(MachineCodeModule):
    """Assembly on an AMD chip, created by :func:`load_assembly`."""

    kernels: dict[str, AssemblyKernel] = field(default_factory=dict)
    share_address: int = 0
    """Device address of the chip's global data share."""

    @property
    def source(self) -> None:
        """Assembly has no source lines."""
        return

    def make(self, kernel: CubinKernel) -> Assembled:
        """Assemble a kernel.

        Raises:
            UnsupportedError: naming the line that is no instruction.
        """
        text, generation = self.kernels[kernel.name], GENERATION_OF[self.arch]
        try:
            code = assemble("\n".join(text.lines), generation)
        except AssemblyError as error:
            raise UnsupportedError(f"kernel {kernel.name} ({generation}): {error}") from None
        program = program_from_code(code, generation, kernel.name, images=images_of(text, kernel))
        self.describe(program, kernel, text)
        return Assembled(program, code)

    def describe(self, program: R600Program, kernel: CubinKernel, text: AssemblyKernel) -> None:
        """Add the directives of its text, and the launch's values, to a program."""
        program.parameters = [Parameter(p.ordinal, p.offset_bytes, p.size_bytes) for p in kernel.parameters]
        program.parameter_size_bytes = kernel.parameter_size_bytes
        program.registers = text.registers or highest_register(program.items) + 1
        program.shared_static_bytes = text.shared_bytes
        program.barriers = 1
        if not self.share_address and any(i.opcode.startswith("GDS_") for i in program.instructions):
            self.share_address = self.memory.allocate(SHARE_BYTES, "global data share").address
        program.global_share_address = self.share_address


FLOAT_FORMATS = {1: 0x0E, 4: 0x23}
"""Data formats of texels by their number of channels."""
NUMBER = 2
"""The number format of floats, which also keeps words that are not."""
MOST_DETAIL = 0xFFF


def images_of(text: AssemblyKernel, kernel: CubinKernel) -> Bindings:
    """The images of a kernel, each with a sampler that filters and takes the nearest texel inside."""
    offsets = {name: p.offset_bytes for name, p in zip(text.parameters, kernel.parameters, strict=True)}
    images, samplers = {}, {}
    for number, (name, sizes) in text.images.items():
        width, height, channels, levels = (*sizes, 1)[:4]
        fixed, at = [], 0
        for n in range(levels):
            fixed.append(FixedLevel(max(width >> n, 1), max(height >> n, 1), at))
            at += 4 * channels * fixed[-1].width * fixed[-1].height
        selects = (0, 1, 2, 3) if channels == 4 else (0, 4, 4, 4)
        kinds = FLOAT_FORMATS[channels], NUMBER, False, levels, selects
        images[number] = BoundImage(offsets[name], 2, False, *kinds, fixed=tuple(fixed))
        mip = MIP_LINEAR if levels > 1 else MIP_NONE
        most = text.anisotropy.get(number, 1)
        samplers[number] = Sampler((CLAMP_LAST,) * 3, True, True, mip, most, 0, MOST_DETAIL, 0, 0)
    return Bindings(textures=images, samplers=samplers)


def load_assembly(text: str, arch: int, memory: DeviceMemory, name: str = "kernel.r600") -> R600AssemblyModule:
    """Read assembly.

    Raises:
        UnsupportedError: for a text with invalid directives.
    """
    try:
        kernels = kernels_of(text)
    except AssemblyError as error:
        raise UnsupportedError(f"{name}: {error}") from None
    plain = load_ptx(_HEAD + "".join(k.signature for k in kernels.values()), arch, memory, name)
    module = R600AssemblyModule.of(plain)
    module.kernels = kernels
    return module

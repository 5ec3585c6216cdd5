"""PTX that chips before compute capability 5.0 lack: refused by name, or executed as their own code did it.

Programs for these chips are compiled for the oldest target that NVRTC supports, which is 5.0, so that two kinds of
instructions appear that Fermi does not have.  Features that the program requests (shuffles, matrix products,
asynchronous
copies) are refused.  Instructions that the compiler selects for ordinary programs (``lop3``, funnel shifts,
``ld.global.nc``, branch tables), and votes in the only spelling of CUDA 12, have equivalents on Fermi and are executed;
``schedule_fermi.py`` counts the instructions of these equivalents.

Source: PTX ISA 8.8, "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.isa.ptx.syntax import Instruction

OPCODES: dict[str, str] = {
    **dict.fromkeys(("shfl", "fns"), "3.0"),
    **dict.fromkeys(("vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2", "vset2"), "3.0"),
    **dict.fromkeys(("vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4"), "3.0"),
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), "5.2"),
    **dict.fromkeys(("dp2a", "dp4a"), "6.1"),
    **dict.fromkeys(("match", "nanosleep", "fence", "wmma", "bmsk", "szext"), "7.0"),
    **dict.fromkeys(("mma", "ldmatrix", "movmatrix", "tanh"), "7.5"),
    **dict.fromkeys(("cp", "mbarrier", "redux", "createpolicy", "applypriority", "discard"), "8.0"),
    **dict.fromkeys(("wgmma", "stmatrix", "elect", "mapa", "getctarank", "tensormap"), "9.0"),
    **dict.fromkeys(("griddepcontrol", "setmaxnreg"), "9.0"),
}
"""Compute capability that an instruction requires with any modifiers."""
ATOMICS = ("atom", "red")
MEMORY = ("ld", "st", *ATOMICS)
ORDERED = ("relaxed", "acquire", "release", "acq_rel", "mmio")
HALF_TYPES = {"f16": "5.3", "f16x2": "5.3", "bf16": "8.0", "bf16x2": "8.0"}
WIDE_TYPES = ("u64", "s64", "b64")
WIDE_OPERATIONS = ("min", "max", "and", "or", "xor")
CALLS = {
    "__cuda_syscall": "3.5",
    "cudaGraphSetConditional": "9.0",
    "cudaCGGetIntrinsicHandle": "6.0",
    "cudaGraphKernelNode": "9.0",
}
"""Name prefixes of driver functions that launch kernels or synchronise a grid."""


def needed(opcode: str, modifiers: Sequence[str]) -> str:
    """The compute capability that an instruction requires if it is more than 2.0; empty otherwise."""
    if opcode in OPCODES:
        return OPCODES[opcode]
    own = set(modifiers)
    if opcode in MEMORY and own & {*ORDERED}:
        return "7.0"
    if opcode in ATOMICS:
        return _atomic(own)
    if opcode != "cvt":
        for type, capability in HALF_TYPES.items():
            if type in own:
                return capability
    if "f32x2" in own:
        return "10.0"
    if "cluster" in own:
        return "9.0"
    return "8.0" if opcode in ("min", "max") and own & {"NaN", "xorsign"} else ""


def _atomic(own: set[str]) -> str:
    if own & {"f16", "f16x2", "bf16", "bf16x2"}:
        return "7.0"
    if own & {"cta", "sys"} or "f64" in own:
        return "6.0"
    return "3.2" if own & {*WIDE_TYPES} and own & {*WIDE_OPERATIONS} else ""


def lacks(i: Instruction, arch: int) -> str:
    """Why a chip does not execute an instruction; empty if it does, and for chips that NVRTC supports."""
    if not 20 <= arch < 50:
        return ""
    capability = needed(i.opcode, i.modifiers)
    if i.opcode == "call":
        capability = next((v for name, v in CALLS.items() if f"{name}" in i.text), "")
    return f"it needs compute capability {capability}, and this chip has {arch // 10}.{arch % 10}" if capability else ""

"""Sections of compiled code lie anywhere in the address space: none refers to another by a distance of 32 bits.

A simulated device maps tens of gigabytes, so the holes that LLVM's linker finds may lie on both sides of it; a distance
that does not fit ends the process.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

import warpwright as ww
from warpwright.engine.jit import codegen, object_code, shared_library

PLT32 = 4
SHORT = {2, PLT32, 9, 10, 11, 41, 42}
"""x86-64's relocations of 32 bits but in GOT32 (psABI): PC32, PLT32, GOTPCREL and its kin, 32, 32S."""


def short_references(data: bytes) -> list[str]:
    """Where an object's code or data refers to another section (or object) by 32 bits."""
    elf = ELFFile(io.BytesIO(data))
    symbols: Any = elf.get_section_by_name(".symtab")
    found = []
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection):
            continue
        for relocation in section.iter_relocations():
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            # Calls of another object's functions go through a stub that the linker makes beside the code.
            stub = relocation["r_info_type"] == PLT32 and symbol["st_shndx"] == "SHN_UNDEF"
            short = relocation["r_info_type"] in SHORT and not stub
            if short and symbol["st_shndx"] != section["sh_info"]:
                found.append(f"{section.name} + {relocation['r_offset']:#x}: {symbol.name}")
    return found


@pytest.mark.skipif(
    "x86" not in object_code.make_target(None).triple, reason="AArch64's sections are kept together by llvmlite"
)
def test_no_section_refers_to_another_by_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    objects: list[bytes] = []
    load = object_code.load_object

    def keep(data: bytes, target: Any) -> Any:
        objects.append(data)
        return load(data, target)

    for module in (codegen, shared_library):
        monkeypatch.setattr(module, "load_object", keep)
    shared = shared_library.Library(object_code.make_target(None), 32)
    shared.link(["ww_mufu_rcp"])
    gpu = ww.GPU("h200", timing="off")
    kernel = gpu.compile("""
        __constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
        extern "C" __global__ void mix(float *x, int n) {
            __shared__ float all[64];
            int t = threadIdx.x;
            all[t] = x[t] / x[(t + 1) % n];
            __syncthreads();
            switch (n % 7) {
                case 0: x[t] = sinf(all[63 - t]); break;
                case 1: x[t] = all[t ^ 1] + 2; break;
                case 2: x[t] = sqrtf(all[t]); break;
                case 3: x[t] = table[t & 7]; break;
                case 4: x[t] = atomicAdd(&x[64], 1.0f); break;
                case 5: x[t] = __shfl_xor_sync(~0u, all[t], 5); break;
            }
        }""")["mix"]
    for n in (64, 65):
        kernel[1, 64](np.ones(65, np.float32), n)
    assert len(objects) >= 3
    assert [place for data in objects for place in short_references(data)] == []


@pytest.mark.skipif("x86" not in object_code.make_target(None).triple, reason="the assembly is x86-64's")
def test_a_short_reference_is_found() -> None:
    target = object_code.make_target(None)
    text = 'module asm ".text"\nmodule asm "callq far"\ndefine void @far() {\n  ret void\n}\n'
    assert len(short_references(object_code.to_object(text, target))) == 1

"""LLVM IR to R600 machine code, through the back end inside llvmlite.

LLVM aborts its process if it cannot select an instruction, so each kernel is compiled in a separate process. Only a few passes run before the back end, because
the IR is already optimised. Functions of the ``helpers`` module are opaque to those passes, so that lanes which exchange values there stay together; they are
inlined afterwards.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm

from warpwright.errors import UnsupportedError
from warpwright.toolchain.cache import cache_key, default_cache
from warpwright.toolchain.r600_rewrites import WIDENED, rewritten

CPUS = {"evergreen": "cypress", "cayman": "cayman"}
"""LLVM's name of the chip for each generation of encodings."""
TRIPLE = "r600--"
TIMEOUT_SECONDS = 300
_PGM_RESOURCES = 0x288D4
"""Register of compute programs in LLVM's ``.AMDGPU.config``: registers in bits 0 to 7, stack entries in 8 to 15."""
_NO_BITS = 8
"""Type of an ELF section without contents in the file."""
_LOCAL_ALLOCATION = 0x288E8
"""Register of compute programs: words of local data share."""
_REVISION = "5"
"""Part of the cache key; change it with the passes below and with the rewrites."""


class ObjectCode(NamedTuple):
    """A kernel's machine code."""

    code: bytes
    registers: int
    """Registers of four channels per thread."""
    stack_entries: int
    """Entries of the stack of execution masks."""
    local_bytes: int
    """Local data share of the program's own variables."""


def compile_ir(text: str, helpers: str, generation: str) -> ObjectCode:
    """Compile a module with one kernel.

    Args:
        text: LLVM IR.
        helpers: definitions of functions that ``text`` declares; may be empty.
        generation: evergreen or cayman.

    Raises:
        UnsupportedError: LLVM cannot compile the kernel; includes LLVM's message.
    """
    request = json.dumps((text, helpers, CPUS[generation]))
    key = cache_key((_REVISION, llvmlite.__version__, request))

    def made() -> bytes:
        try:
            return _in_a_process(request)
        except UnsupportedError as error:
            if WIDENED not in str(error):
                raise
        return _in_a_process(json.dumps((text, helpers, CPUS[generation], True)))

    return object_code(default_cache().made("r600", key, made))


def _in_a_process(request: str) -> bytes:
    command = [sys.executable, "-m", "warpwright.toolchain.r600"]
    try:
        child = subprocess.run(
            command, input=request.encode(), capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(f"LLVM's R600 back end did not finish within {TIMEOUT_SECONDS} s") from None
    if child.returncode == 0:
        return child.stdout
    raise UnsupportedError(f"LLVM's R600 back end cannot compile it: {_reason(child.stderr.decode(errors='replace'))}")


def _reason(messages: str) -> str:
    """The first line that LLVM printed, or the last line of a traceback."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    failed = re.search(r"Assertion `(.*)' failed", messages)
    if failed is not None:
        return f"its assertion {failed[1]} failed"
    told = next((line for line in lines if "LLVM ERROR" in line or "error:" in line), "")
    told = told or next(
        (line for line in lines if "Error: " in line), lines[-1] if lines else "it ended without a message"
    )
    return told.removeprefix("LLVM ERROR: ").removeprefix("RuntimeError: ")


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, inline: bool) -> None:
    """Run the passes before the back end."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    if inline:
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_aggressive_dce_pass()
    passes.add_lower_switch_pass()
    passes.run(module, builder)


def emit_object(text: str, helpers: str, cpu: str, copies_pairs: bool = False) -> bytes:
    """Compile the kernel to an ELF; ends the process if LLVM aborts.

    Args:
        copies_pairs: rewrite pairs that become the beginning of four elements.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, opt=2)
    module = _parsed(text, machine)
    optimise(module, machine, inline=False)
    if helpers:
        module.link_in(_parsed(helpers, machine))
        optimise(module, machine, inline=True)
    text = str(module)
    ready = rewritten(text, copies_pairs)
    return machine.emit_object(module if ready == text else llvm.parse_assembly(ready))


def _parsed(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parse a module for the target, whose pointers have 32 bits."""
    module = llvm.parse_assembly(f'target datalayout = "{machine.target_data}"\n{text}')
    module.verify()
    return module


def object_code(elf: bytes) -> ObjectCode:
    """The code in a 32-bit ELF, and what its configuration says."""
    sections = _sections(elf)
    found = sections.get(".AMDGPU.config", b"")
    words = struct.unpack(f"<{len(found) // 4}I", found[: len(found) // 4 * 4])
    registers = dict(zip(words[::2], words[1::2], strict=False))
    resources = registers.get(_PGM_RESOURCES, 0)
    return ObjectCode(sections[".text"], resources & 255, resources >> 8 & 255, 4 * registers.get(_LOCAL_ALLOCATION, 0))


def variable_images(text: str, generation: str) -> dict[str, bytes]:
    """Initial contents of the variables of a module without functions.

    Raises:
        UnsupportedError: LLVM cannot write them; includes LLVM's message.
    """
    request = json.dumps((f'target triple = "{TRIPLE}"\n{text}\n', "", CPUS[generation]))
    key = cache_key((_REVISION, llvmlite.__version__, request))
    elf = default_cache().made("r600", key, lambda: _in_a_process(request))
    sections, contents = _sections(elf), list(_sections(elf).values())
    found = {}
    for name, value, size, _, _, section in struct.iter_unpack("<3I2BH", sections[".symtab"]):
        if size:
            names = sections[".strtab"]
            symbol = names[name : names.index(b"\0", name)].decode()
            found[symbol] = contents[section][value : value + size]
    return found


def _sections(elf: bytes) -> dict[str, bytes]:
    """Contents by name, in file order; sections without contents in the file are zeros."""
    (headers_at,) = struct.unpack_from("<I", elf, 32)
    size, count, names = struct.unpack_from("<3H", elf, 46)
    headers = [struct.unpack_from("<10I", elf, headers_at + i * size) for i in range(count)]
    found = {}
    for name, kind, _, _, offset, length, *_ in headers:
        at = headers[names][4] + name
        contents = bytes(length) if kind == _NO_BITS else elf[offset : offset + length]
        found[elf[at : elf.index(b"\0", at)].decode()] = contents
    return found


def main() -> None:
    sys.stdout.buffer.write(emit_object(*json.load(sys.stdin)))


if __name__ == "__main__":
    main()

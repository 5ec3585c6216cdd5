"""Instructions of a coalesced group's barrier on V100, by assembler: ``bar.warp.sync`` with a mask, in straight-line code after a divergent branch.

``python -m bench.machine.warp_barrier_code [PTXAS …]`` assembles PTX of several versions with each assembler, with separate linking (``-c``, the paper's ``-dc``) and without, and counts the instructions. Without
arguments, it uses the installed assembler.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from warpwright.isa.sass.decode import decode_section
from warpwright.toolchain.elf_reader import ElfFile
from warpwright.toolchain.ptxas import find_assembler

BARRIERS = 16
VERSIONS, TARGETS, OPTIONS = ("6.0", "6.3", "7.2"), ("sm_60", "sm_70"), (("-c",), ("-c", "-O1"), (), ("-O1",))
_PTX = """
.version {version}
.target {target}
.address_size 64
.visible .entry coalesced(.param .u64 out, .param .u32 most)
{{
    .reg .pred %others;
    .reg .b32 %mask, %begin, %end, %lane, %most;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    ld.param.u32 %most, [most];
    mov.u32 %lane, %laneid;
    mov.u32 %begin, 0;
    mov.u32 %end, 0;
    setp.gt.u32 %others, %lane, %most;
    @%others bra DONE;
    vote.sync.ballot.b32 %mask, 1, 0xffffffff;
    mov.u32 %begin, %clock;
{barriers}
    mov.u32 %end, %clock;
DONE:
    st.global.u32 [%out], %begin;
    st.global.u32 [%out+4], %end;
    ret;
}}
"""


def instructions(assembler: Path, version: str, target: str, options: tuple[str, ...]) -> list[str]:
    """Opcodes between the reads of the clock, from the assembler's code for sm_70."""
    barriers = "    bar.warp.sync %mask;\n" * BARRIERS
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "coalesced.ptx"), Path(folder, "coalesced.cubin")
        source.write_text(_PTX.format(version=version, target=target, barriers=barriers))
        subprocess.run([assembler, "-arch=sm_70", *options, source, "-o", cubin], check=True)
        sections = ElfFile(cubin.read_bytes(), cubin.name).sections
    code = decode_section(bytes(next(s for s in sections if s.name == ".text.coalesced").data), 70)
    first, last = (at for at, one in enumerate(code) if "SR_CLOCKLO" in str(one))
    return [".".join((one.opcode, *one.modifiers)) for one in code[first + 1 : last]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ptxas", nargs="*", type=Path, help="assemblers")
    installed = find_assembler()
    for assembler in parser.parse_args().ptxas or [installed]:
        said = subprocess.run([assembler, "--version"], capture_output=True, text=True, check=True).stdout
        print(next(line for line in said.splitlines() if "release" in line))
        for version in VERSIONS:
            for target in TARGETS:
                for options in OPTIONS:
                    code = instructions(assembler, version, target, options)
                    kinds = ", ".join(f"{count / BARRIERS:g} {name}" for name, count in Counter(code).items())
                    print(f"  PTX {version} {target} {' '.join(options):7s} {len(code) / BARRIERS:g}: {kinds}")


if __name__ == "__main__":
    main()

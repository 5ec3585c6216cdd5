"""Every instruction of the kernel corpus, decoded and printed, against NVIDIA's disassembler."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.sass_oracle import disassemble_cubin, disassemble_words, find_nvdisasm
from warpwright.isa.program import Kind
from warpwright.isa.sass import UnknownEncoding, decode, format_instruction, program_from_cubin
from warpwright.isa.sass.decode import decode_section, find_row, words_of
from warpwright.toolchain.compile import compile_source, link
from warpwright.toolchain.compile_errors import CompileError
from warpwright.toolchain.cubin import Module, read_cubin
from warpwright.toolchain.nvjitlink import InputKind
from warpwright.toolchain.relocation import code_layout

KERNELS = Path(__file__).parent / "kernels"
NVDISASM = find_nvdisasm()
needs_oracle = pytest.mark.skipif(NVDISASM is None, reason="nvdisasm is not installed (set WARPWRIGHT_NVDISASM)")

COMPACT = r"""
extern "C" __device__ int printf(const char *, ...);
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int triple(int x) { return 3 * x; }
__device__ __noinline__ int flip(int x) { return ~x; }
__device__ int (*table[2])(int) = {triple, flip};
__constant__ int coefficients[64];
__device__ int counter;
extern "C" __global__ void calls(int *out, int n) {
    out[threadIdx.x] = fibonacci(n) + table[n & 1](n);
    printf("%d\n", atomicAdd(&counter, 1));
}
extern "C" __global__ void mixed(int *out, const float *a, const double *d, unsigned long long *w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int tile[256];
    int local[16];
    for (int k = 0; k < n; k++) local[k & 15] = out[k] * coefficients[k & 63];
    tile[threadIdx.x] = local[n & 15] / (n | 1) + local[i & 15] % 7;
    __syncthreads();
    switch (tile[255 - threadIdx.x] & 7) {
    case 0: out[i] = (int)(a[i] / a[i + 1]); break;
    case 1: out[i] = (int)(d[i] / d[i + 1]); break;
    case 2: w[i] = w[i] / (w[i + 1] | 1); break;
    case 3: out[i] = __popc(n) + __clz(i) + __ffs(n); break;
    case 4: out[i] = (int)(sinf(a[i]) * 100.f); break;
    case 5: atomicMax(out, i); break;
    case 6: out[i] = __shfl_xor_sync(~0u, i, 3) + __ballot_sync(~0u, i > n); break;
    default: while (atomicCAS(out, 0, 1)) {} atomicExch(out, 0);
    }
}
"""


def cubins(arch: int) -> list[tuple[str, bytes]]:
    """Cubins of the compact source and of every corpus file that compiles for the chip."""
    found = [("compact.cu", compile_source(COMPACT, arch, name="compact.cu").cubin), ("compact.ptx", linked(arch)[1])]
    for path in sorted(KERNELS.glob("*.cu")):
        try:
            found.append((path.name, compile_source(path, arch).cubin))
        except CompileError:
            # A few sources use instructions that older chips do not have.
            assert arch < 80, path
    return found


@needs_oracle
@pytest.mark.parametrize("arch", [70, 80, 90])
def test_corpus_prints_as_nvidia_prints_it(arch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert NVDISASM is not None
    words: dict[int, str] = {}
    for name, data in cubins(arch):
        for code in read_cubin(data, name).code.values():
            words.update(dict.fromkeys(words_of(code), name))
    texts = disassemble_words(NVDISASM, arch, list(words), tmp_path)
    wrong = []
    forms: Counter[tuple[str, int]] = Counter()
    for position, (word, text) in enumerate(zip(words, texts, strict=True)):
        try:
            printed = format_instruction(decode(word, arch, 16 * position))
        except UnknownEncoding as error:
            printed = str(error)
        if printed != text:
            wrong.append(f"{words[word]} {word:032x}: {text!r}, not {printed!r}")
            continue
        found = find_row(word, arch)
        assert found is not None
        forms[(found[0].opcode, found[1].number)] += 1
    with capsys.disabled():
        opcodes = {opcode for opcode, _ in forms}
        print(f"\nsm_{arch}: {len(words)} distinct words, {len(opcodes)} opcodes, {len(forms)} opcode forms")
    assert not wrong, f"{len(wrong)} of {len(words)} differ:\n" + "\n".join(wrong[:20])


@needs_oracle
@pytest.mark.parametrize("arch", [70, 80, 90])
def test_labels_of_a_whole_cubin(arch: int, tmp_path: Path) -> None:
    assert NVDISASM is not None
    module, data = linked(arch)
    cubin = tmp_path / "compact.cubin"
    cubin.write_bytes(data)
    compared = 0
    for section, (texts, labels) in disassemble_cubin(NVDISASM, cubin).items():
        symbols = {f.offset: f.name for f in module.functions.values() if f.section == section}
        for instruction in decode_section(module.code[section], arch):
            text = re.sub(r"\s+\(\*.*", "", texts[instruction.address])
            if "@" in text.lstrip("@") or (instruction.opcode == "CALL" and "ABS" in instruction.modifiers):
                continue  # relocated: the listing shows the symbol
            names = {**labels, **symbols} if instruction.opcode in ("CALL", "RET") else labels
            assert format_instruction(instruction, names) == text
            compared += 1
    assert compared > 500


def linked(arch: int) -> tuple[Module, bytes]:
    """The compact source through PTX and nvJitLink, which leaves functions in sections of their own."""
    ptx = compile_source(COMPACT, arch, name="compact.cu").ptx
    assert ptx is not None
    made = link([(InputKind.PTX, ptx.encode(), "compact.ptx")], arch, options=["-lineinfo"])
    return made.module, made.cubin


@pytest.mark.ci
@pytest.mark.parametrize("arch", [70, 80, 90])
def test_programs_hold_everything_that_a_kernel_calls(arch: int) -> None:
    for module in (compile_source(COMPACT, arch, name="compact.cu").module, linked(arch)[0]):
        program = program_from_cubin(module, "calls")
        assert (program.name, program.arch) == ("calls", arch)
        assert [i.address for i in program.instructions] == list(range(0, 16 * len(program.instructions), 16))
        end = 16 * len(program.instructions)
        targets = [o for i in program.instructions for o in i.operands if o.kind is Kind.LABEL]
        assert len(targets) > 5
        assert all(0 <= o.value <= end for o in targets if not o.name)
        sections = module.reachable("calls")
        assert end >= sum(len(module.code[s]) for s in sections)
        assert program.parameters[0].size_bytes == 8
        assert program.parameter_base_bytes == (0x210 if arch == 90 else 0x160)
        assert any(i.line is not None for i in program.instructions)


@pytest.mark.parametrize("arch", [70, 80, 90])
def test_absolute_calls_become_offsets_or_names(arch: int) -> None:
    module, _ = linked(arch)
    assert len(module.reachable("calls")) > 1
    bases = {section: base + 0x7000_0000 for section, base in code_layout(module, "calls").items()}
    program = program_from_cubin(module, "calls", bases=bases)
    base = program.code_base
    assert base == bases[module.find("calls").section]
    starts = {start - base for start in bases.values()}
    called = [i.operands[-1] for i in program.instructions if i.opcode == "CALL" and i.operands[-1].kind is Kind.LABEL]
    assert [o.name for o in called if o.name] == ["vprintf"]
    assert any(o.value in starts for o in called if not o.name)
    # Return addresses of absolute calls are virtual: code base plus offset.
    moved = [o.value for i in program.instructions if i.opcode == "MOV" for o in i.operands if o.kind is Kind.IMMEDIATE]
    assert any(base <= value < base + 16 * len(program.instructions) for value in moved)

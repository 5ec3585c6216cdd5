"""Reading cubins: parameters, memory, control flow, lines, relocations, and files that are no cubins."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwright.toolchain import (
    CompiledModule,
    CubinError,
    InputKind,
    Kernel,
    Module,
    code_layout,
    compile_source,
    link,
    link_ptx,
    read_cubin,
    relocate,
)
from warpwright.toolchain.callgraph import calls_itself, direct_calls
from warpwright.toolchain.elf_reader import ElfFile
from warpwright.toolchain.lines import is_toolkit_file

ARCHITECTURES = (70, 80, 90)

SOURCE = """\
__constant__ float coeff[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__constant__ int zero_bank[4];
__device__ int counter = 5;
__device__ int zeroed[10];
__device__ int* to_counter = &counter;
__device__ int* to_zeroed = &zeroed[3];
struct Odd { int a; char b[13]; };
__device__ __noinline__ float helper(float x, int n) { return x * n + coeff[n & 7]; }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ inline float inlined(float x) {
  return x * 3.5f +
         __fdividef(1.0f, x);
}
typedef int (*Function)(int);
__device__ __noinline__ int f1(int x) { return x + 1; }
__device__ __noinline__ int f2(int x) { return x * 77; }
__device__ Function table[2] = {f1, f2};
extern "C" __global__ void parameters(char c, short s, int i, double d, Odd p, const float* in, float* out) {
  out[0] = c + s + i + d + p.b[3] + in[0];
}
extern "C" __global__ void shared_both(const float* in, float* out, int n) {
  __shared__ float tile[64];
  extern __shared__ float dynamic[];
  tile[threadIdx.x] = in[threadIdx.x];
  dynamic[threadIdx.x] = in[n];
  __syncthreads();
  out[threadIdx.x] = inlined(tile[n] + dynamic[n ^ 1]);
}
extern "C" __global__ void globals(int* out) {
  counter += *to_counter + zeroed[threadIdx.x & 3] + *to_zeroed;
  out[0] = zero_bank[threadIdx.x & 3];
}
extern "C" __global__ void calls(int n, float* out) { out[threadIdx.x] = helper(n, n + 1); }
extern "C" __global__ void recursive(int n, int* out) { out[threadIdx.x] = fib(n); }
extern "C" __global__ void indirect(int n, int* out) { out[threadIdx.x] = table[n](threadIdx.x); }
extern "C" __global__ void prints(int n) { printf("hello %d\\n", n); }
extern "C" __global__ void __launch_bounds__(128, 4) switches(int n, int* out) {
  int x = out[threadIdx.x];
  switch (n) {
    case 0: x = x * x + 1; break;
    case 1: x = x / 3; break;
    case 2: x ^= 0x55; out[5] = x; break;
    case 3: x = __popc(x); break;
    case 4: x = x % 7; break;
    case 5: x = __clz(x); out[9] = 1; break;
    case 6: x = x * 11 - 4; break;
    case 7: x = atomicAdd(&out[3], x); break;
    case 8: x = __brev(x); break;
  }
  out[threadIdx.x] = x;
}
extern "C" __global__ void local_array(int n, int* out) {
  int a[32];
  for (int i = 0; i < 32; i++) a[i] = out[i];
  for (int i = 0; i < n; i++) a[out[i] & 31] += i;
  out[0] = a[n];
}
extern "C" __global__ void named_barriers(int* out) {
  asm volatile("bar.sync 3, 64;");
  out[0] = 1;
}
extern "C" __global__ void slow_division(double* p) { p[0] = p[1] / p[2]; }
"""


def line_of(text: str) -> int:
    """Number of the line of SOURCE that holds a text."""
    return next(i for i, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPWRIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@lru_cache(maxsize=8)
def compiled(arch: int) -> CompiledModule:
    return compile_source(SOURCE, arch, name="kernels.cu")


def kernel(arch: int, name: str) -> Kernel:
    return compiled(arch).find(name)


def address_map(module: Module) -> dict[str, int]:
    found = {".nv.global": 0x7F0000001000, ".nv.global.init": 0x7F0000002000, ".nv.constant3": 0x7F0000003000}
    return found | dict.fromkeys(module.undefined, 0x1_0000_0000)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameters(arch: int) -> None:
    k = kernel(arch, "parameters")
    assert [(p.ordinal, p.offset_bytes, p.size_bytes) for p in k.parameters] == [
        (0, 0, 1), (1, 2, 2), (2, 4, 4), (3, 8, 8), (4, 16, 20), (5, 40, 8), (6, 48, 8)
    ]  # fmt: skip
    assert k.parameter_size_bytes == 56
    assert k.parameter_base_bytes == (0x210 if arch == 90 else 0x160)
    assert k.arch == arch == compiled(arch).module.arch
    # Bank 0 leaves room for the parameters.
    assert len(k.constant_banks[0]) >= k.parameter_base_bytes + k.parameter_size_bytes


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameters_beyond_four_kib(arch: int) -> None:
    source = "struct B { char c[20000]; }; __global__ void f(char q, B b, int* p, short s) { *p = b.c[*p] + s + q; }"
    k = compile_source(source, arch).find("f")
    assert [(p.ordinal, p.offset_bytes, p.size_bytes) for p in k.parameters] == [
        (0, 0, 1), (1, 1, 20000), (2, 20008, 8), (3, 20016, 2)
    ]  # fmt: skip
    assert len(k.constant_banks[0]) >= k.parameter_base_bytes + k.parameter_size_bytes


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_resources(arch: int) -> None:
    both = kernel(arch, "shared_both")
    assert both.shared_static_bytes - both.shared_reserved_bytes == 256
    assert both.shared_reserved_bytes == (1024 if arch == 90 else 0)
    assert both.barriers == 1
    assert kernel(arch, "named_barriers").barriers == 4
    assert kernel(arch, "calls").barriers == 0
    local = kernel(arch, "local_array")
    assert local.frame_bytes == local.stack_bytes == 128
    assert not local.recursive
    bounded = kernel(arch, "switches")
    assert (bounded.max_threads_per_block, bounded.max_block) == (128, (128, 1, 1))
    assert both.max_threads_per_block == 1024
    assert 8 <= bounded.registers <= 128
    assert kernel(arch, "prints").externs == ("vprintf",)
    assert set(compiled(arch).module.undefined) == {"vprintf"}


def test_required_block_and_cluster() -> None:
    ptx = compile_source("__global__ void __launch_bounds__(64) f(int* p) { *p = 1; }", 80).ptx
    assert ptx is not None
    k = link_ptx(ptx.replace(".maxntid 64", ".reqntid 64"), 80).find("f")
    assert (k.required_block, k.max_block, k.max_threads_per_block) == ((64, 1, 1), None, 64)
    cluster = compile_source("__global__ void __cluster_dims__(2, 1, 1) f(int* p) { *p = 1; }", 90).find("f")
    assert cluster.cluster == (2, 1, 1)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_recursion_is_found(arch: int) -> None:
    k = kernel(arch, "recursive")
    assert k.recursive
    assert k.stack_bytes >= 1024
    assert not any(kernel(arch, n).recursive for n in ("calls", "indirect", "prints", "slow_division"))


def test_recursion_that_the_linker_states() -> None:
    ptx = compiled(80).ptx
    assert ptx is not None
    module = link([(InputKind.PTX, ptx.encode(), "k.ptx")], 80)
    assert module.find("recursive").recursive
    assert not module.find("calls").recursive


def test_call_graph() -> None:
    assert not calls_itself(0, [0, 64, 128], [(16, 64), (80, 128), (32, 128)])
    assert calls_itself(0, [0, 64, 128], [(16, 64), (80, 128), (144, 64)])
    assert calls_itself(0, [0, 64], [(16, 64), (80, 64)])
    assert not calls_itself(0, [0, 64], [(80, 64)])
    assert direct_calls(b"", 80) == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_direct_calls_lead_to_functions(arch: int) -> None:
    k = kernel(arch, "calls")
    functions = compiled(arch).module.functions
    called = functions["$calls$_Z6helperfi"]
    assert called.section == k.section
    assert [target for _, target in direct_calls(k.code, arch)] == [called.offset]
    assert not called.is_kernel
    assert functions["calls"].is_kernel


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_switch_tables(arch: int) -> None:
    k = kernel(arch, "switches")
    assert k.indirect_branches
    for branch, targets in k.indirect_branches:
        # BRX is opcode 0x949.
        assert int.from_bytes(k.code[branch : branch + 2], "little") & 0xFFF == 0x949
        assert len(targets) >= 2
        assert all(0 <= t < len(k.code) and t % 16 == 0 for t in targets)
    listed = {t for _, targets in k.indirect_branches for t in targets}
    # The table that BRX reads lies in bank 2 and holds the same offsets.
    table = struct.unpack(f"<{len(k.constant_banks[2]) // 4}I", k.constant_banks[2])
    assert listed <= set(table)
    # EXIT is opcode 0x94d.
    assert all(int.from_bytes(k.code[e : e + 2], "little") & 0xFFF == 0x94D for e in k.exit_offsets)
    assert k.exit_offsets


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_variables(arch: int) -> None:
    module = compiled(arch).module
    v = module.variables
    assert (v["coeff"].section, v["coeff"].size) == (".nv.constant3", 32)
    assert (v["zeroed"].section, v["zeroed"].size) == (".nv.global", 40)
    assert (v["counter"].section, v["counter"].size) == (".nv.global.init", 4)
    bank = kernel(arch, "calls").constant_banks[3]
    assert struct.unpack_from("<8f", bank, v["coeff"].offset) == (1, 2, 3, 4, 5, 6, 7, 8)
    assert struct.unpack_from("<4i", bank, v["zero_bank"].offset) == (0, 0, 0, 0)
    assert struct.unpack_from("<i", module.data[".nv.global.init"], v["counter"].offset) == (5,)
    assert module.data[".nv.global"] == bytes(len(module.data[".nv.global"]))
    assert len(module.data[".nv.global"]) >= 40


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_pointers_in_data_and_address_tables_are_relocated(arch: int) -> None:
    module = compiled(arch).module
    addresses = address_map(module)
    image = relocate(module, addresses, code_layout(module))
    data, v = image.data[".nv.global.init"], module.variables
    counter = addresses[".nv.global.init"] + v["counter"].offset
    assert struct.unpack_from("<Q", data, v["to_counter"].offset) == (counter,)
    assert struct.unpack_from("<Q", data, v["to_zeroed"].offset) == (addresses[".nv.global"] + v["zeroed"].offset + 12,)
    pointers = struct.unpack(f"<{len(image.data['.nv.constant4']) // 8}Q", image.data[".nv.constant4"])
    assert counter in pointers
    assert addresses["vprintf"] in pointers
    # A variable's own address wins over its section's.
    moved = relocate(module, addresses | {"counter": 0x1234}, code_layout(module))
    assert struct.unpack_from("<Q", moved.data[".nv.global.init"], v["to_counter"].offset) == (0x1234,)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_addresses_in_code_are_relocated(arch: int) -> None:
    # Linked code names variables and functions in its instructions.
    ptx = compiled(arch).ptx
    assert ptx is not None
    module = link([(InputKind.PTX, ptx.encode(), "k.ptx")], arch).module
    bases = code_layout(module, start=0x1_2345_6000)
    addresses = address_map(module)
    image = relocate(module, addresses, bases)
    low_high: dict[str, dict[str, int]] = {}
    checked = 0
    for r in module.relocations:
        if r.section not in module.code:
            continue
        word = int.from_bytes(image.code[r.section][r.offset : r.offset + 16], "little")
        home = bases.get(r.target_section, addresses.get(r.target_section, addresses.get(r.symbol, 0)))
        wanted = home + r.target_offset + r.addend
        if r.type == 56:
            assert word >> 32 & 0xFFFFFFFF == wanted & 0xFFFFFFFF
        elif r.type == 57:
            assert word >> 32 & 0xFFFFFFFF == wanted >> 32
        elif r.type == 58:
            assert (word >> 34 & (1 << 47) - 1) << 2 == wanted
        else:
            assert r.type == 75
            assert ((word >> 34 & (1 << 47) - 1) << 8 | word >> 16 & 0xFF) << 2 == wanted
        # Nothing else of the instruction changes: its opcode is the unpatched one.
        assert word & 0xFFF == int.from_bytes(module.code[r.section][r.offset : r.offset + 2], "little") & 0xFFF
        checked += 1
        low_high.setdefault(r.symbol, {})[str(r.type)] = wanted
    assert checked > 20
    assert {"counter", "_Z6helperfi", "vprintf"} <= set(low_high)


def test_reachable_code_follows_calls_and_tables() -> None:
    ptx = compiled(80).ptx
    assert ptx is not None
    module = link([(InputKind.PTX, ptx.encode(), "k.ptx")], 80).module
    assert module.reachable("calls") == [".text.calls", ".text._Z6helperfi"]
    assert sorted(module.reachable("indirect")) == [".text._Z2f1i", ".text._Z2f2i", ".text.indirect"]
    assert module.reachable("globals") == [".text.globals"]
    bases = code_layout(module, "calls", start=100)
    assert list(bases.values()) == [128, 128 + -(-len(module.code[".text.calls"]) // 128) * 128]


def test_relocation_errors() -> None:
    module = compiled(80).module
    with pytest.raises(CubinError) as error:
        relocate(module, {"vprintf": 0}, code_layout(module))
    assert str(error.value).startswith("kernels.cu: .nv.constant4 at ")
    assert str(error.value).endswith("but addresses gives it none.")
    known = dict.fromkeys((".nv.global", ".nv.global.init", ".nv.constant3"), 0)
    with pytest.raises(CubinError) as error:
        relocate(module, known, code_layout(module))
    assert "names vprintf, which the module does not define. Link it with the file that does" in str(error.value)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_lines(arch: int) -> None:
    k = kernel(arch, "switches")
    lines = {k.lines.user_line(at) for at in range(0, len(k.code), 16)}
    assert {file for file, _ in filter(None, lines)} == {"kernels.cu"}
    first = line_of("switches(")
    numbers = {line for _, line in filter(None, lines)}
    assert numbers <= set(range(first, first + 17))
    assert {line_of("case 7:"), line_of("x = out[threadIdx.x];")} & numbers or line_of("switch (n)") in numbers
    # The last EXIT belongs to the closing brace.
    assert k.lines.user_line(k.exit_offsets[-1]) in {("kernels.cu", first + 15), ("kernels.cu", first + 14)}
    atomic = [
        at
        for at in range(0, len(k.code), 16)
        if int.from_bytes(k.code[at : at + 2], "little") & 0xFFF in (0x3A8, 0x9A8)
    ]
    assert {k.lines.user_line(at) for at in atomic} == {("kernels.cu", line_of("atomicAdd"))}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_lines_of_inlined_code_know_their_call(arch: int) -> None:
    k = kernel(arch, "shared_both")
    call = ("kernels.cu", line_of("inlined(tile"))
    inlined = [row for row in k.lines.rows if row.inlined_at]
    assert {row.inlined_at for row in inlined} == {(call,)}
    assert {row.line for row in inlined} <= {line_of("return x * 3.5f"), line_of("__fdividef")}
    # BAR.SYNC is opcode 0xb1d.
    (barrier,) = [
        at for at in range(0, len(k.code), 16) if int.from_bytes(k.code[at : at + 2], "little") & 0xFFF == 0xB1D
    ]
    assert k.lines.user_line(barrier) == ("kernels.cu", line_of("__syncthreads"))


@pytest.mark.ci
def test_lines_skip_the_toolkit(tmp_path: Path) -> None:
    source = (
        "#include <cooperative_groups.h>\n__global__ void f(int* p) {\n"
        "  p[0] = cooperative_groups::this_grid().thread_rank();\n"
        "  cooperative_groups::this_thread_block().sync();\n  p[3] = 1;\n}\n"
    )
    k = compile_source(source, 80, name="groups.cu").find("f")
    places = {k.lines.user_line(at) for at in range(0, len(k.code), 16)}
    assert places == {("groups.cu", line) for line in (2, 3, 4, 5, 6)}
    assert any(is_toolkit_file(row.file) for row in k.lines.rows)
    (tmp_path / "mine.h").write_text("__device__ inline int twice(int x) {\n  return x * clock();\n}\n")
    source = '#include "mine.h"\n__global__ void f(int* p) {\n  *p = twice(*p);\n}\n'
    k = compile_source(source, 80, name="a/b.cu", include_folders=[tmp_path]).find("f")
    assert (str(tmp_path / "mine.h"), 2) in {k.lines.user_line(at) for at in range(0, len(k.code), 16)}


def test_no_line_information() -> None:
    ptx = compiled(80).ptx
    assert ptx is not None
    bare = "\n".join(t for t in ptx.splitlines() if not t.strip().startswith((".loc\t", ".loc ", ".file")))
    k = link_ptx(bare, 80).find("calls")
    assert k.lines.user_line(0) is None or k.lines.at(0) is not None


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_pyelftools_reads_the_same(arch: int) -> None:
    data = compiled(arch).cubin
    ours, theirs = ElfFile(data, "ours"), ELFFile(io.BytesIO(data))
    assert [s.name for s in ours.sections] == [s.name for s in theirs.iter_sections()]
    assert [s.size for s in ours.sections] == [s["sh_size"] for s in theirs.iter_sections()]
    table = theirs.get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    assert [(s.value, s.size) for s in ours.symbols] == [(s["st_value"], s["st_size"]) for s in table.iter_symbols()]
    module = compiled(arch).module
    program = theirs.get_dwarf_info(relocate_dwarf_sections=False).line_program_for_CU
    assert program is not None
    assert sum(len(t.rows) for t in module.line_tables.values()) > 50


def error_of(data: bytes) -> str:
    with pytest.raises(CubinError) as error:
        read_cubin(data, "x.cubin")
    return str(error.value)


def test_files_that_are_no_cubins() -> None:
    good = compiled(80).cubin
    assert error_of(b"") == (
        "x.cubin is not a cubin: it does not begin with the ELF magic number. "
        "Give CUDA C++, PTX, or a cubin (nvcc -cubin)."
    )
    assert error_of(good[:40]) == "x.cubin is cut short: 40 bytes, less than an ELF header."
    assert error_of(good[:-1]).startswith("x.cubin is cut short: ")
    host = bytearray(good)
    struct.pack_into("<H", host, 18, 62)
    assert error_of(bytes(host)) == (
        "x.cubin is an ELF file for machine 62, not CUDA (190): it is host code. "
        "Pass the cubin that it contains (cuobjdump -xelf all)."
    )
    small = bytearray(good)
    small[4] = 1
    assert error_of(bytes(small)) == (
        "x.cubin is not a 64-bit little-endian ELF file, so it holds no code for these chips."
    )
    old = bytearray(good)
    struct.pack_into("<I", old, 48, 0x500532)
    assert error_of(bytes(old)) == (
        "x.cubin holds machine code for sm_50; this release reads sm_60 to sm_90: compile for one of those or give PTX."
    )


def test_the_flags_of_newer_cubins() -> None:
    # From CUDA 13 on, EI_OSABI is 0x41 and the architecture stands in bits 8 to 15.
    data = bytearray(compiled(90).cubin)
    data[7], data[8] = 0x41, 8
    struct.pack_into("<I", data, 48, 0x0A005A04)
    assert read_cubin(bytes(data)).arch == 90


def use(data: bytes) -> None:
    """Do with a file what a loader does; a refusal is fine."""
    with contextlib.suppress(CubinError):
        module = read_cubin(data)
        for k in module.kernels.values():
            module.reachable(k.name)
            k.lines.user_line(0)
        relocate(module, address_map(module), code_layout(module))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 30), st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=12))
def test_damage_never_raises_anything_else(cut: int, changes: list[tuple[int, int]]) -> None:
    data = bytearray(compiled(90).cubin)
    for place, value in changes:
        data[place % len(data)] = value
    if cut % 4 == 0:
        del data[cut % len(data) :]
    use(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_in_the_tables_never_raises_anything_else(data: st.DataObject) -> None:
    good = compiled(80).cubin
    elf = ElfFile(good, "good")
    damaged = bytearray(good)
    # Headers, section table, attributes, symbols, relocations and lines are where structure lies.
    (table,) = struct.unpack_from("<Q", good, 40)
    regions = [(0, 64), (table, len(elf.sections) * 64)]
    names = (".nv.info", ".symtab", ".rel", ".debug_line", ".strtab", ".shstrtab")
    for i, section in enumerate(elf.sections):
        if section.data and section.name.startswith(names):
            regions.append((struct.unpack_from("<Q", good, table + 64 * i + 24)[0], len(section.data)))
    for _ in range(data.draw(st.integers(1, 6))):
        start, size = data.draw(st.sampled_from(regions))
        damaged[start + data.draw(st.integers(0, size - 1))] = data.draw(st.integers(0, 255))
    use(bytes(damaged))


def test_cubins_of_cuda_13_name_their_ptx_in_a_note() -> None:
    from types import SimpleNamespace

    from warpwright.toolchain.cubin import _virtual_architecture

    # nvcc 13.0 -cubin -gencode arch=compute_75,code=sm_80
    note = bytes.fromhex("0c00000008000000e80300004e564944494120436f72700002004b0082000000")
    made: Any = SimpleNamespace(os_abi=0x41, flags=0x6005004, by_name={".note.nv.cuinfo": SimpleNamespace(data=note)})
    assert _virtual_architecture(made) == 75
    made.by_name[".note.nv.cuinfo"].data = note[:26]
    assert _virtual_architecture(made) == 0
    made.by_name.clear()
    assert _virtual_architecture(made) == 0

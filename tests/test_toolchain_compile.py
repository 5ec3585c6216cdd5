"""CUDA C++ and PTX to machine code: what compiles, what the errors say word for word, and recognising inputs."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from warpwright.errors import KernelNotFoundError, WarpwrightError
from warpwright.toolchain import (
    ArchitectureError,
    CompileError,
    CubinError,
    DiskCache,
    InputKind,
    LinkError,
    MissingToolError,
    architecture,
    compile_source,
    link,
    link_ptx,
    load,
    nvjitlink,
    nvrtc,
    ptxas,
    wheels,
)
from warpwright.toolchain.demangle import plain_name

SAXPY = """
template <class T> __global__ void saxpy(int n, T a, const T* x, T* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
namespace ns { __global__ void plain(int* p) { p[0] = 1; } }
extern "C" __global__ void unmangled(int* p) { p[0] = 2; }
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> DiskCache:
    return DiskCache(tmp_path_factory.mktemp("cache"))


HEADERS = [
    "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cuda_pipeline.h", "cuda_runtime.h", "cuda.h",
    "math_constants.h", "device_launch_parameters.h", "stdint.h", "cstdint", "stdio.h", "stdlib.h", "math.h", "cmath",
    "float.h", "limits.h", "assert.h", "cuda/std/cstdint",
]  # fmt: skip


@pytest.mark.parametrize("arch", [70, 80, 90])
def test_headers_that_kernels_include_compile(arch: int, cache: DiskCache) -> None:
    source = "".join(f"#include <{h}>\n" for h in HEADERS) + "__global__ void f(int* p) { *p = INT32_MAX; }"
    assert compile_source(source, arch, cache=cache).find("f").registers > 0


@pytest.mark.ci
@pytest.mark.parametrize("header", ["cooperative_groups.h", "cuda/barrier", "cuda/std/array"])
def test_heavy_headers_compile(header: str, cache: DiskCache) -> None:
    source = f"#include <stdint.h>\n#include <{header}>\n__global__ void f(int64_t* p) {{ *p = 1; }}"
    assert compile_source(source, 80, cache=cache).find("f").registers > 0


def test_tensor_core_code_compiles(cache: DiskCache) -> None:
    source = """
    #include <mma.h>
    using namespace nvcuda;
    __global__ void gemm(const half* a, const half* b, float* c) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
      wmma::fill_fragment(fc, 0.0f);
      wmma::load_matrix_sync(fa, a, 16);
      wmma::load_matrix_sync(fb, b, 16);
      wmma::mma_sync(fc, fa, fb, fc);
      wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
    }"""
    for arch in (70, 80, 90):
        assert compile_source(source, arch, cache=cache).find("gemm").registers > 16


def test_templates_are_instantiated_by_name_expressions(cache: DiskCache) -> None:
    module = compile_source(SAXPY, 80, name_expressions=["saxpy<float>", "ns::plain"], cache=cache)
    assert module.lowered_names == {"saxpy<float>": "_Z5saxpyIfEviT_PKS0_PS0_", "ns::plain": "_ZN2ns5plainEPi"}
    assert module.find("saxpy<float>").name == "_Z5saxpyIfEviT_PKS0_PS0_"
    both = compile_source(SAXPY, 80, name_expressions=["saxpy<double>", "saxpy<float>"], cache=cache)
    assert [p.size_bytes for p in both.find("saxpy< double >").parameters] == [4, 8, 8, 8]
    assert [p.size_bytes for p in both.find("saxpy<float>").parameters] == [4, 4, 8, 8]


def test_kernels_are_found_by_symbol_and_plain_name(cache: DiskCache) -> None:
    module = compile_source(SAXPY, 80, name_expressions=["saxpy<float>", "saxpy<int>"], cache=cache)
    assert module.find("unmangled").name == "unmangled"
    assert module.find("plain").name == module.find("ns::plain").name == "_ZN2ns5plainEPi"
    with pytest.raises(KernelNotFoundError) as missing:
        module.find("nothing")
    assert str(missing.value) == ("kernel.cu has no kernel nothing; its kernels are: ns::plain, saxpy, unmangled.")
    with pytest.raises(KernelNotFoundError, match=r"has 2 kernels named saxpy: .* such as saxpy<float>\.$"):
        module.find("saxpy")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("saxpy", "saxpy"),
        ("_Z5saxpyIfEviT_PKS0_PS0_", "saxpy"),
        ("_ZN2ns5plainEPi", "ns::plain"),
        ("_ZN1a1bIiLi3EE6kernelIfEEvT_", "a::b::kernel"),
        ("_ZN1a1bIiLin12ES0_E1kIfEEvT2_", "a::b::k"),
        ("_ZN12_GLOBAL__N_11kEv", "(anonymous namespace)::k"),
        ("_ZL6hiddenPi", "hidden"),
        ("_Z", "_Z"),
        ("_Z99x", "_Z99x"),
        ("_ZN3abc", "abc"),
    ],
)
def test_plain_names(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


def test_compile_error_shows_line_and_caret(cache: DiskCache) -> None:
    source = "__global__ void f(int* p) {\n    p[0] = undefined_thing + 1;\n\tfloat2 x = 3;\n  int unused;\n}\n"
    with pytest.raises(CompileError) as error:
        compile_source(source, 80, name="bad.cu", cache=cache)
    assert str(error.value) == (
        "bad.cu does not compile for sm_80:\n"
        'bad.cu:2:12: error: identifier "undefined_thing" is undefined\n'
        "    2 |     p[0] = undefined_thing + 1;\n"
        "      |            ^\n"
        'bad.cu:3:13: error: no suitable constructor exists to convert from "int" to "float2"\n'
        "    3 | \tfloat2 x = 3;\n"
        "      | \t           ^"
    )
    assert isinstance(error.value, WarpwrightError)
    assert "177-D" in error.value.log
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.diagnostics, again.log) == (str(error.value), error.value.diagnostics, error.value.log)


def test_compile_error_in_a_template_says_how_it_was_reached(cache: DiskCache) -> None:
    source = "template <class T> __device__ T g(T x) { return x.foo; }\n__global__ void f(int* p) { p[0] = g(3); }\n"
    with pytest.raises(CompileError) as error:
        compile_source(source, 80, cache=cache)
    assert str(error.value) == (
        "kernel.cu does not compile for sm_80:\n"
        'kernel.cu:1:49: error: expression must have class type but it has type "int"\n'
        "    1 | template <class T> __device__ T g(T x) { return x.foo; }\n"
        "      |                                                 ^\n"
        'note: detected during instantiation of "T g(T) [with T=int]" at line 2'
    )


def test_error_in_inline_assembly_is_shown_at_its_statement(cache: DiskCache) -> None:
    source = '__global__ void f(int* p) {\n  p[0] = 1;\n  asm volatile("mov.bogus %0, 1;" : "=r"(p[3]));\n}\n'
    with pytest.raises(CompileError) as error:
        compile_source(source, 80, name="asm.cu", cache=cache)
    assert str(error.value).startswith(
        "asm.cu does not compile for sm_80:\n"
        "asm.cu:3: error: Unknown modifier '.bogus' (PTX: mov.bogus %r1, 1;)\n"
        '    3 |   asm volatile("mov.bogus %0, 1;" : "=r"(p[3]));\n'
    )


def test_errors_without_a_line(cache: DiskCache) -> None:
    with pytest.raises(CompileError) as error:
        compile_source("__device__ int g(int);\n__global__ void f(int* p) { *p = g(1); }", 80, cache=cache)
    assert str(error.value) == "kernel.cu does not compile for sm_80:\nerror: Unresolved extern function '_Z1gi'"
    with pytest.raises(CompileError) as error:
        compile_source("__global__ void f() {}", 80, options=["--bogus"], cache=cache)
    assert str(error.value) == ("kernel.cu does not compile for sm_80:\nerror: unrecognized option --bogus found")


def test_host_code_gets_a_hint(cache: DiskCache) -> None:
    with pytest.raises(CompileError) as error:
        compile_source("__global__ void f() {}\nint main() { cudaDeviceSynchronize(); }\n", 80, cache=cache)
    assert str(error.value).endswith(
        "note: only device code is compiled here: keep host code (main, cudaMalloc, <<<...>>>) in a file of its own "
        "or between #ifndef __CUDACC_RTC__ and #endif."
    )


def test_code_that_does_not_say_where_it_runs(cache: DiskCache) -> None:
    source = (
        "constexpr int twice(int x) { return 2 * x; }\n"
        "__global__ void f(long long* p) {\n"
        "  auto high = [](auto a, auto b) { return (long long)(((__int128)a * b) >> 64); };\n"
        "  p[0] = high(p[1], p[2]) + twice(3);\n}\n"
    )
    assert compile_source(source, 80, cache=cache).warnings == ()


def test_warnings_are_kept_through_the_cache(tmp_path: Path) -> None:
    source = "__global__ void f(int* p) {\n  int unused;\n  *p = 1;\n}\n"
    for _ in range(2):
        module = compile_source(source, 70, name="warn.cu", cache=DiskCache(tmp_path))
        assert [str(w) for w in module.warnings] == [
            'warn.cu:2:7: warning: variable "unused" was declared but never referenced\n'
            "    2 |   int unused;\n      |       ^"
        ]


def test_options_and_defines_reach_the_compiler(cache: DiskCache, tmp_path: Path) -> None:
    (tmp_path / "value.h").write_text("#define VALUE 7\n")
    source = (
        '#include "value.h"\n#if FLAG != 3 || !defined(BARE)\n#error\n#endif\n__global__ void f(int* p) { *p = VALUE; }'
    )
    module = compile_source(
        source, 80, options=["-DFLAG=3"], defines={"BARE": None}, include_folders=[tmp_path], cache=cache
    )
    assert module.find("f").registers
    heavy = "__global__ void f(float* p) { float a[64]; for (int i = 0; i < 64; i++) a[i] = p[i * 7];\n" + (
        "for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) p[i] += a[j] * p[i + j]; }"
    )
    free = compile_source(heavy, 80, cache=cache).find("f").registers
    bound = compile_source(heavy, 80, options=["--maxrregcount=24"], cache=cache).find("f").registers
    assert bound <= 24 < free


def test_an_edited_header_is_compiled_again(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    (tmp_path / "inner.h").write_text("__device__ int v() { return 1; }")
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    kernel = tmp_path / "k.cu"
    kernel.write_text('#include "outer.h"\n__global__ void f(int* p) { *p = v(); }')
    first = compile_source(kernel, 80, cache=cache)
    assert compile_source(kernel, 80, cache=cache).cubin == first.cubin
    (tmp_path / "inner.h").write_text("__device__ int v() { return 2; }")
    assert compile_source(kernel, 80, cache=cache).find("f").code != first.find("f").code


def test_ptx_gives_the_machine_code_that_its_source_gives(cache: DiskCache) -> None:
    for arch in (70, 80, 90, "90a"):
        module = compile_source(SAXPY, arch, name_expressions=["saxpy<float>"], cache=cache)
        assert module.ptx is not None
        again = link_ptx(module.ptx, arch, cache=cache)
        assert {n: k.code for n, k in again.kernels.items()} == {n: k.code for n, k in module.kernels.items()}


def test_link_error_shows_the_line_of_ptx(cache: DiskCache) -> None:
    ptx = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f(.param .u64 p)\n"
        "{\n  .reg .b32 %r<2>;\n  mov.bogus %r1, 1;\n  ret;\n}\n"
    )
    with pytest.raises(LinkError) as error:
        link_ptx(ptx, 80, name="bad.ptx", cache=cache)
    assert str(error.value) == (
        "bad.ptx was not assembled for sm_80:\n"
        "bad.ptx:7: error: Unknown modifier '.bogus'\n"
        "    7 |   mov.bogus %r1, 1;\n"
        "bad.ptx:7: error: Unexpected instruction types specified for 'mov'\n"
        "    7 |   mov.bogus %r1, 1;\n"
        "error: Ptx assembly aborted due to errors"
    )


def test_several_inputs_are_linked(cache: DiskCache) -> None:
    # Relocatable PTX: the second file defines what the first one calls.
    caller = nvrtc.compile_cuda(
        'extern "C" __device__ int g(int);\n__global__ void f(int* p) { *p = g(*p); }', "80", options=["-dc"]
    )
    callee = nvrtc.compile_cuda('extern "C" __device__ int g(int x) { return 3 * x; }', "80", options=["-dc"])
    inputs = [(InputKind.PTX, c.ptx.encode(), n) for c, n in ((caller, "f.ptx"), (callee, "g.ptx"))]
    module = link(inputs, 80)
    assert module.module.reachable(module.find("f").name) == [".text._Z1fPi", ".text.g"]
    with pytest.raises(LinkError) as error:
        link(inputs[:1], 80)
    assert str(error.value) == (
        "f.ptx was not linked for sm_80: internal error\nerror: Undefined reference to 'g' in 'f.ptx'"
    )
    with pytest.raises(LinkError, match=r"unrecognised option \(options: -arch=sm_80 -lineinfo -bogus\)"):
        link(inputs, 80, options=["-bogus"])


def test_load_recognises_each_form(cache: DiskCache, tmp_path: Path) -> None:
    made = load("__global__ void f(int* p) { *p = 1; }", 80, cache=cache)
    assert made.source is not None
    assert made.ptx is not None
    code = made.find("f").code
    (tmp_path / "k.cu").write_text(made.source)
    (tmp_path / "k.ptx").write_text(made.ptx)
    (tmp_path / "k.cubin").write_bytes(made.cubin)
    forms: list[str | bytes | Path] = [made.ptx, made.cubin, made.ptx.encode(), made.source.encode()]
    for name in ("k.cu", "k.ptx", "k.cubin"):
        forms += [tmp_path / name, str(tmp_path / name)]
    for form in forms:
        assert load(form, 80, cache=cache).find("f").code == code
    assert load(made.ptx, 90, cache=cache).module.arch == 90
    with pytest.raises(FileNotFoundError):
        load("missing.cu", 80, cache=cache)
    with pytest.raises(CubinError) as error:
        load(b"\x00\xff\xfe garbage", 80, cache=cache)
    assert str(error.value) == (
        "bytes is not a cubin (no ELF magic number) and not text: give CUDA C++, PTX, or a cubin."
    )


def test_a_cubin_for_another_chip_is_refused(cache: DiskCache) -> None:
    cubin = {a: compile_source("__global__ void f() {}", a, cache=cache).cubin for a in (70, 75, 80, "90a")}
    assert load(cubin[80], 86, cache=cache).module.arch == 80
    assert load(cubin["90a"], 90, cache=cache).module.target == "sm_90a"
    for made, chip, shown in ((80, 90, "sm_90"), (70, 80, "sm_80"), (75, 70, "sm_70")):
        with pytest.raises(ArchitectureError) as error:
            load(cubin[made], chip, name="saxpy.cubin", chip="it", cache=cache)
        assert str(error.value) == (
            f"saxpy.cubin holds machine code for sm_{made}; the chip it runs {shown}: "
            f"compile for sm_{chip} or give PTX."
        )


def test_features_of_one_architecture(cache: DiskCache) -> None:
    source = '__global__ void f() { asm volatile("setmaxnreg.inc.sync.aligned.u32 64;"); }'
    with pytest.raises(CompileError, match="setmaxnreg"):
        compile_source(source, 90, options=["-arch=sm_90"], cache=cache)
    assert compile_source(source, 90, cache=cache).module.target == "sm_90a"
    module = compile_source(source, 90, options=["-arch=sm_90a"], cache=cache)
    assert module.module.target == "sm_90a"
    assert module.ptx is not None
    assert load(module.ptx, 90, cache=cache).module.target == "sm_90a"
    with pytest.raises(ArchitectureError) as error:
        compile_source("__global__ void f() {}", 80, options=["--gpu-architecture=sm_90"], cache=cache)
    assert str(error.value) == (
        "kernel.cu holds machine code for sm_90; the chip runs sm_80: compile for sm_80 or give PTX."
    )


@pytest.mark.parametrize(("given", "name"), [(80, "80"), ("sm_80", "80"), ("compute_90", "90"), ("sm_90a", "90a")])
def test_architecture_names(given: int | str, name: str) -> None:
    assert architecture(given) == name


def test_unknown_architecture() -> None:
    with pytest.raises(ValueError, match=r"^'volta' is not an architecture: give a number such as 80"):
        architecture("volta")


def test_missing_wheels_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "nvidia_folders", lambda: ())
    for part, stem, package in (
        ("cuda_nvrtc", "libnvrtc", nvrtc.PACKAGE),
        ("nvjitlink", "libnvJitLink", nvjitlink.PACKAGE),
    ):
        with pytest.raises(MissingToolError) as error:
            wheels.find_library(part, stem, package, "this")
        assert str(error.value) == (
            f"{stem} was not found: this needs the PyPI package {package}. "
            f"Install it with: pip install '{package}>=12.9,<13'. Cubins run without it."
        )
    monkeypatch.setattr(ptxas, "find_assembler", lambda: None)
    with pytest.raises(MissingToolError, match="nvidia-cuda-nvcc-cu12"):
        ptxas.assemble("", "80")


def test_without_the_assembler_ptx_goes_through_nvjitlink(monkeypatch: pytest.MonkeyPatch, cache: DiskCache) -> None:
    module = compile_source(SAXPY, 80, name_expressions=["saxpy<float>"], cache=cache)
    assert module.ptx is not None
    monkeypatch.setattr(ptxas, "find_assembler", lambda: None)
    again = link_ptx(module.ptx, 80, cache=cache)
    assert set(again.kernels) == set(module.kernels)
    assert again.find("saxpy").lines.rows


def test_versions_are_known() -> None:
    assert nvrtc.version() >= (12, 9)
    assert nvjitlink.version() >= (12, 0)
    assert "nvidia-cuda-runtime-cu12=12." in wheels.header_versions()

"""Special functions and tensor-core sums against what an H200 gave (bench/silicon/data)."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from bench import libdevice, math_functions
from bench.silicon import mma_tiles, tiles
from warpwright.engine import numerics, silicon_mma
from warpwright.engine.jit import silicon, tensor_cores
from warpwright.engine.jit.wave import wave_of
from warpwright.engine.silicon_mufu import FUNCTIONS, HALVES, mufu

DATA = Path(__file__).parent.parent / "bench" / "silicon" / "data"


@pytest.fixture(scope="module")
def card() -> dict[str, np.ndarray]:
    with np.load(DATA / "mufu_sample.npz") as stored:
        return dict(stored)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_over_the_whole_range(card: dict[str, np.ndarray], name: str) -> None:
    arguments = (12345 + 16381 * 64 * np.arange(4096, dtype=np.uint64)).astype(np.uint32)
    np.testing.assert_array_equal(mufu(name, arguments), card[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_for_every_exponent(card: dict[str, np.ndarray], name: str) -> None:
    arguments = 262143 + 262144 * 8 * np.arange(2048, dtype=np.uint32)
    np.testing.assert_array_equal(mufu(name, arguments), card[f"{name}.exponents"])


@pytest.mark.parametrize("name", HALVES)
def test_function_of_every_half(card: dict[str, np.ndarray], name: str) -> None:
    np.testing.assert_array_equal(mufu(name, np.arange(1 << 16, dtype=np.uint32)), card[name])


def test_unknown_function() -> None:
    with pytest.raises(KeyError) as failure:
        mufu("sinh", np.zeros(1, np.uint32))
    assert failure.value.args[0].startswith("MUFU has no function 'sinh'; there are rcp, rsq, sqrt, ")


def test_operation_in_f64_is_the_upper_words() -> None:
    three = np.array([3.0], np.float64).view(np.uint64)
    result = numerics.mufu("rcp", "f64", three)
    assert result.view(np.float64)[0] == pytest.approx(1 / 3, rel=2**-20)
    assert int(result[0]) & 0xFFFFFFFF == 0


def fragments(kernel: str, words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C of registers [tile, register, lane]: what tiles.registers undoes."""
    element, _, k = tiles.KERNELS[kernel]
    lane = np.arange(32)
    group, thread, per = lane // 4, lane % 4, 1 if element == "tf32" else 2
    count_a, count_b = 2 * k // (4 * per), k // (4 * per)
    a, b = np.zeros((len(words), 16, k), np.uint32), np.zeros((len(words), k, 8), np.uint32)
    for part in range(per):
        for n in range(count_a):
            value = words[:, n] >> np.uint32(16 * part) & np.uint32(0xFFFF if per == 2 else 0xFFFFFFFF)
            a[:, group + 8 * (n % 2), thread * per + part + 4 * per * (n // 2)] = value
        for n in range(count_b):
            value = words[:, count_a + n] >> np.uint32(16 * part) & np.uint32(0xFFFF if per == 2 else 0xFFFFFFFF)
            b[:, thread * per + part + 4 * per * n, group] = value
    return a, b, tiles.result(kernel, words[:, count_a + count_b :])


@pytest.mark.parametrize("kernel", tiles.KERNELS)
def test_tensor_core_sums(kernel: str) -> None:
    element, accumulator, _ = tiles.KERNELS[kernel]
    with np.load(DATA / "mma_sample.npz") as stored:
        inputs, outputs = stored[f"{kernel}.in"], stored[f"{kernel}.out"]
    a, b, c = fragments(kernel, inputs)
    np.testing.assert_array_equal(tiles.registers(kernel, a, b, c), inputs)
    result = silicon_mma.matrix(90, element, accumulator, a, b, c)
    np.testing.assert_array_equal(result, tiles.result(kernel, outputs))


def test_generations_differ_in_bits_and_chunks() -> None:
    """1 + 15 * 2**-24 in f32: each product is lost alone beside 1, and kept where the adder has a bit for it."""
    a = np.full((16, 16), 0x0C00, np.uint16)  # 2**-12
    a[:, 0] = 0x3C00
    b = np.full((16, 8), 0x0C00, np.uint16)
    b[0] = 0x3C00
    c = np.zeros((16, 8), np.uint32)
    results = {arch: int(silicon_mma.matrix(arch, "f16", "f32", a, b, c)[0, 0]) for arch in (70, 80, 90)}
    assert results == {70: 0x3F800000, 80: 0x3F800007, 90: 0x3F800007}


def test_no_tensor_cores_before_volta() -> None:
    with pytest.raises(ValueError, match=r"^sm_61 has no tensor cores; the first is sm_70$"):
        silicon_mma.unit(61)


@pytest.mark.parametrize("kernel", tiles.KERNELS)
def test_interpreter_sums_as_the_card(kernel: str) -> None:
    """The operation itself, on the fragments: the interpreter's meaning."""
    element, accumulator, k = tiles.KERNELS[kernel]
    with np.load(DATA / "mma_sample.npz") as stored:
        inputs, outputs = stored[f"{kernel}.in"], stored[f"{kernel}.out"]
    n_c = outputs.shape[1]
    n_b = (inputs.shape[1] - n_c) // 3
    attr = (f"m16n8k{k}", element, accumulator, 2 * n_b, n_b, n_c, 90)
    with np.errstate(all="ignore"):
        for tile, want in zip(inputs, outputs, strict=True):
            np.testing.assert_array_equal(np.stack(numerics.mma(attr, list(tile))), want)


@pytest.mark.parametrize("arch", [70, 75, 80, 90])
@pytest.mark.parametrize("kernel", tiles.KERNELS)
def test_sums_of_values_are_the_sums_of_bits(kernel: str, arch: int) -> None:
    element, accumulator, _ = tiles.KERNELS[kernel]
    with np.load(DATA / "mma_sample.npz") as stored:
        a, b, c = fragments(kernel, stored[f"{kernel}.in"])

    def values(form: str, bits: np.ndarray) -> np.ndarray:
        if form == "tf32":
            return numerics.to_f64("f32", bits & np.uint32(0xFFFFE000))
        return numerics.to_f64(form, bits if form == "f32" else bits.astype(np.uint16))

    rows, columns = values(element, a)[:, :, None, :], np.swapaxes(values(element, b), 1, 2)[:, None, :, :]
    with np.errstate(all="ignore"):
        total = silicon_mma.sum_of_products(arch, element, accumulator, rows, columns, values(accumulator, c))
        bits = numerics.canonical_nan(accumulator, numerics.round_to(accumulator, total, "rn"))
    np.testing.assert_array_equal(bits, silicon_mma.matrix(arch, element, accumulator, a, b, c))


def compiled(text: str, declared: dict[str, str]) -> llvm.ExecutionEngine:
    """A module of the compiled engine's own functions, made callable."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten()
    )
    module = llvm.parse_assembly("\n".join(declared.values()) + "\n" + text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def aligned(rows: int) -> np.ndarray:
    """Rows of 32 words that begin at a multiple of 128 bytes."""
    space = np.zeros(rows * 32 + 32, np.uint32)
    first = -space.ctypes.data % 128 // 4
    return space[first : first + rows * 32].reshape(rows, 32)


@pytest.mark.parametrize("name", FUNCTIONS + HALVES)
def test_compiled_function(card: dict[str, np.ndarray], name: str) -> None:
    text, declared = silicon.function(f"ww_mufu_{name}", wave_of(32))
    text += f"""
define void @go(ptr %p) {{
  %x = load <32 x i32>, ptr %p, align 64
  %y = call <32 x i32> @ww_mufu_{name}(<32 x i32> %x)
  store <32 x i32> %y, ptr %p, align 64
  ret void
}}
"""
    engine = compiled(text, declared)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("go"))
    arguments = np.arange(2048, dtype=np.uint32) * np.uint32(32 if name in HALVES else 262144 * 8)
    arguments += np.uint32(0 if name in HALVES else 262143)
    want = card[name][::32] if name in HALVES else card[f"{name}.exponents"]
    buffer = aligned(1)
    for first in range(0, 2048, 32):
        buffer[0] = arguments[first : first + 32]
        run(buffer.ctypes.data)
        np.testing.assert_array_equal(buffer[0], want[first : first + 32])


def compiled_mma(name: str) -> Callable[[int], None]:
    """A matrix product's function, called with the address of its registers; it keeps its code alive."""
    text, declared = tensor_cores.mma_function(name, wave_of(32))
    text += f"define void @go(ptr %p) {{\n  call void @{name}(ptr %p)\n  ret void\n}}\n"
    engine = compiled(text, declared)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("go"))

    def run(address: int) -> None:
        assert engine
        function(address)

    return run


@pytest.mark.parametrize("kernel", tiles.KERNELS)
def test_compiled_sums(kernel: str) -> None:
    element, accumulator, k = tiles.KERNELS[kernel]
    with np.load(DATA / "mma_sample.npz") as stored:
        inputs, outputs = stored[f"{kernel}.in"], stored[f"{kernel}.out"]
    n_c = outputs.shape[1]
    n_b = (inputs.shape[1] - n_c) // 3
    name = f"ww_mma_m16n8k{k}_{element}_{accumulator}_{2 * n_b}_{n_b}_{n_c}_90"
    run = compiled_mma(name)
    buffer = aligned(16)
    for tile, want in zip(inputs, outputs, strict=True):
        buffer[: len(tile)] = tile
        run(buffer.ctypes.data)
        np.testing.assert_array_equal(buffer[:n_c], want)


def test_sums_of_8_bit_floats_on_sm_89_are_of_sixteen_products_and_13_bits() -> None:
    """From the literature (``engine/silicon_mma.py``): 16 times 2**-6 are lost beside 2**8, and kept when they come first."""
    one, sixteenth, eighth, small = 0x38, 0x58, 0x20, 0x08  # e4m3: 1, 16, 1/8, 2**-6
    large_first = np.array([[sixteenth] + [0] * 15 + [small] * 16], np.uint8)
    small_first = np.roll(large_first, 16, axis=1)
    others = {0: np.array([sixteenth] + [0] * 15 + [one] * 16, np.uint8)}
    others[1] = np.roll(others[0], 16)
    zero = np.zeros((1, 1), np.uint32)
    sums = [
        silicon_mma.matrix(89, "e4m3", "f32", a, others[n][:, None], zero).view(np.float32)[0, 0]
        for n, a in enumerate((large_first, small_first))
    ]
    assert sums == [256.0, 256.25]
    # An f32 result keeps 13 bits of its mantissa: 1 + 1/8 * 2**-6 * 8 fits, 2**-14 beside 1 does not.
    start = np.array([[np.float32(1 + 2.0**-14)]]).view(np.uint32)
    tiny = np.array([[eighth] * 8 + [0] * 8], np.uint8)
    kept = silicon_mma.matrix(89, "e4m3", "f32", tiny, np.full((16, 1), small, np.uint8), start).view(np.float32)
    assert kept[0, 0] == 1 + 2.0**-6


@pytest.mark.ci
def test_random_tiles_have_a_card_s_digests() -> None:
    """Instructions of some kinds of operands on 2**14 tiles; all of them: ``python -m bench.silicon.mma_tiles check``."""
    kinds = {
        (*p.types, p.selector >= 0): p
        for p in mma_tiles.products()
        if p.types[1] in ("e4m3", "f64", "b1", "s4", "bf16")
    }
    card = mma_tiles.load()
    for p, mine in mma_tiles.own_digests(list(kinds.values())[::6], 1):
        assert mine == card[p.kernel][:1], p.name


def test_functions_of_the_math_api_have_a_card_s_bits() -> None:
    """A few functions on 100,000 values; all of them: ``python -m bench.libdevice check``."""
    names = (
        "sincosf",
        "remquof",
        "__hfma2_relu_bfloat16",
        "__vabsdiffs4",
        "__float2half_rz",
        "__dp2a_hi",
        "normf",
        "__fdiv_ru",
    )
    chosen = [f for f in math_functions.functions() if f.name in names]
    card = json.loads(libdevice.DATA.read_text())
    found = libdevice.run("model", libdevice.compiled(chosen), chosen)
    assert len(found) == len(names)
    assert found == {name: card[name] for name in found}

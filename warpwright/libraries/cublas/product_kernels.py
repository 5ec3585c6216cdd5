"""Which kernel computes a matrix product on a chip, with which macros and grid, and its launch.

A plan depends on the product and the chip alone, so that ``bench/pytorch/products.py`` launches the same kernels on a real card.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from warpwright.engine.tensor_map import ELEMENT_TYPES, TENSOR_MAP_BYTES, TensorMap
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import unsupported
from warpwright.libraries.cublas.measured_products import time_of
from warpwright.libraries.cublas.products import ACTIVATIONS, POINTER_ARRAYS, Matrix, Product, Scalar, check
from warpwright.libraries.element_types import (
    C_32F,
    C_64F,
    R_8F_E4M3,
    R_8F_E5M2,
    R_8I,
    R_16BF,
    R_16F,
    R_32F,
    R_32I,
    R_64F,
    TYPES,
)
from warpwright.session import session


@dataclass(frozen=True, slots=True)
class Target:
    """The chip that a product is planned for."""

    arch: int
    """Compute capability: 90 for 9.0."""
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A launch of one of the libraries' kernels."""

    file: str
    """In ``libraries/cuda``."""
    name: str
    macros: dict[str, str | int]
    grid: tuple[int, int, int]
    threads: int
    arguments: tuple[bytes, ...]
    shared_bytes: int = 0


def run(product: Product, stream: int) -> None:
    """Submit a product to a stream.

    Raises:
        LibraryError: for sizes and types that there are none of.
    """
    check(product)
    if not (product.m and product.n and product.batch):
        return
    target = Target(library_kernels.architecture(), library_kernels.multiprocessors())
    planned = plan(product, target)
    code = _code(planned, product.library)
    time = None
    if session.library_model is not None:
        measured = _code(plan(measured_as(product), target), product.library)
        time = time_of(product, measured.digest(), library_kernels.chip_name())
    shape = (planned.grid, planned.threads, stream, planned.arguments, planned.shared_bytes)
    library_kernels.launch(code, planned.name, *shape, time)


def _code(planned: Plan, library: str) -> library_kernels.Code:
    return library_kernels.code(planned.file, library, KERNEL=planned.name, **planned.macros)


def measured_as(product: Product) -> Product:
    """The product without bias, activation and C: measurements are of such ones, and these change neither its main loop nor, by much, its ratio."""
    return replace(product, flags=product.flags & ~ACTIVATIONS, bias=0, aux=0, beta=Scalar(0), c=product.d)


def plan(product: Product, target: Target) -> Plan:
    """The kernel for a product that has elements.

    Raises:
        LibraryError: there is no kernel for its types.
    """
    kind = _tensor_kind(product, target)
    if kind is None:
        shape = _f32_shape(product, target)
        return _simt(product, target) if shape is None else _f32(product, shape)
    if _suits_wgmma_tf32(product, kind, target):
        return _wgmma_tf32(product, target)
    if _suits_wgmma(product, kind, target):
        return _wgmma(product, kind, target)
    return _mma(product, kind, target)


def _result_types(p: Product) -> dict[str, str | int]:
    """Macros for the types of an epilogue."""
    return {
        "C_TYPE": TYPES[p.c.type].name,
        "D_TYPE": TYPES[p.d.type].name,
        "BIAS_TYPE": TYPES[p.d.type if p.bias_type < 0 else p.bias_type].name,
        "SCALE": _scale_name(p),
        "ACTIVATIONS": int(bool(p.flags & ACTIVATIONS)),
        "DEVICE_SCALARS": int(bool(p.alpha.address or p.beta.address)),
        "SCALED": int(any(p.scales)),
        "ARRAYS": int(bool(p.flags & POINTER_ARRAYS)),
    }


def _scale_name(p: Product) -> str:
    return "float" if p.scale_type in (R_16F, R_32F, R_16BF) else TYPES[p.scale_type].name


_LETTERS = {
    R_32F: "s", R_64F: "d", R_16F: "h", R_16BF: "bf", C_32F: "c", C_64F: "z", R_8I: "i", R_32I: "i", R_8F_E4M3: "e4m3", R_8F_E5M2: "e5m2",
}  # fmt: skip


def _tiles(p: Product, tile_m: int, tile_n: int) -> tuple[int, int]:
    return -(-p.m // tile_m), -(-p.n // tile_n)


def _blocks(p: Product, tile_m: int, tile_n: int) -> int:
    along_m, along_n = _tiles(p, tile_m, tile_n)
    return along_m * along_n * p.batch


def _fills(p: Product, tile_m: int, tile_n: int, target: Target) -> bool:
    """Whether tiles of this size keep three quarters of the SMs at work."""
    return _blocks(p, tile_m, tile_n) * 4 >= target.multiprocessors * 3


# --- ordinary pipes ---------------------------------------------------------------------------------

_SIMT_TILES = {
    # Block tile, K of a step, thread tile: the first of which there are enough blocks for the chip, or the last.
    # On an H200, products of 4,096: 35 TFLOP/s with 128x256, 29 with 128x128; cuBLAS 51.
    "float": ((128, 256, 8, 8, 16), (128, 128, 8, 8, 8), (64, 64, 16, 8, 4), (32, 32, 16, 4, 4)),
    "int": ((64, 64, 16, 4, 4), (32, 32, 16, 4, 4)),
    "double": ((64, 64, 8, 4, 4), (32, 32, 8, 4, 4)),
    "c64": ((64, 64, 8, 4, 4), (32, 32, 8, 4, 4)),
    "c128": ((32, 32, 8, 2, 2),),
}


def _simt(p: Product, target: Target) -> Plan:
    sum_name = TYPES[p.a.type].sum_name
    scale_name = _scale_name(p)
    if (sum_name in ("c64", "c128")) != (scale_name in ("c64", "c128")):
        raise unsupported(f"products of {TYPES[p.a.type].name} scaled by {scale_name}")
    tiles = _SIMT_TILES[sum_name]
    enough = (tile for tile in tiles if _blocks(p, *tile[:2]) >= target.multiprocessors)
    tile_m, tile_n, tile_k, thread_m, thread_n = next(enough, tiles[-1])
    macros = {
        "A_TYPE": TYPES[p.a.type].name,
        "B_TYPE": TYPES[p.b.type].name,
        **_result_types(p),
        "SUM": sum_name,
        "TILE_M": tile_m,
        "TILE_N": tile_n,
        "TILE_K": tile_k,
        "THREAD_M": thread_m,
        "THREAD_N": thread_n,
    }
    name = f"warpwright_{_LETTERS[p.a.type]}gemm_{tile_m}x{tile_n}x{tile_k}"
    grid = (*_tiles(p, tile_m, tile_n), p.batch)
    return Plan("gemm.cu", name, macros, grid, tile_m // thread_m * (tile_n // thread_n), (p.arguments(),))


@dataclass(frozen=True, slots=True)
class F32Shape:
    """How ``cuda/gemm_f32.cu`` divides a product."""

    tile_m: int
    tile_n: int
    tile_k: int
    thread_m: int
    thread_n: int
    lanes_m: int
    stages: int
    blocks: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.tile_m // self.thread_m * (self.tile_n // self.thread_n)

    def shared_bytes(self, along_k: tuple[bool, bool]) -> int:
        """Of the stages, or of the sums that are stored at once, which take their place."""
        lines = (rows + 4 * along for rows, along in zip((self.tile_m, self.tile_n), along_k, strict=True))
        across = self.tile_n // (self.thread_n // 4)
        return max(self.stages * self.tile_k * sum(lines), across * (self.tile_m + 4)) * 4


_F32_SHAPES = (F32Shape(128, 256, 8, 8, 16, 8, 3, 1), F32Shape(128, 128, 8, 8, 8, 8, 4, 2))


def _f32_shape(p: Product, target: Target) -> F32Shape | None:
    """The shape for operands that are read in vectors, if there are tiles for most SMs."""
    if target.arch < 80 or p.a.type != R_32F or p.b.type != R_32F or _scale_name(p) != "float":
        return None
    if not (_is_aligned(p.a, p.flags) and _is_aligned(p.b, p.flags)):
        return None
    enough = (shape for shape in _F32_SHAPES if _fills(p, shape.tile_m, shape.tile_n, target))
    return next(enough, None)


def _f32(p: Product, shape: F32Shape) -> Plan:
    ops = _operations(p)
    macros = {
        **_result_types(p),
        "OP_OF_A": ops[0],
        "OP_OF_B": ops[1],
        "TILE_M": shape.tile_m,
        "TILE_N": shape.tile_n,
        "TILE_K": shape.tile_k,
        "THREAD_M": shape.thread_m,
        "THREAD_N": shape.thread_n,
        "LANES_M": shape.lanes_m,
        "STAGES": shape.stages,
        "BLOCKS": shape.blocks,
    }
    layout = "".join("nt"[op] for op in ops)
    name = f"warpwright_sgemm_{layout}_{shape.tile_m}x{shape.tile_n}x{shape.tile_k}"
    grid = (*_tiles(p, shape.tile_m, shape.tile_n), p.batch)
    return Plan(
        "gemm_f32.cu",
        name,
        macros,
        grid,
        shape.threads,
        (p.arguments(),),
        shape.shared_bytes((ops[0] != 0, ops[1] == 0)),
    )


# --- tensor cores: mma.sync -------------------------------------------------------------------------

_F16, _BF16, _TF32, _INT8, _F64, _F8 = range(6)
"""KIND of ``cuda/gemm_mma.cu`` and ``cuda/gemm_wgmma.cu``."""
_KINDS = {R_16F: _F16, R_16BF: _BF16, R_32F: _TF32, R_8I: _INT8, R_64F: _F64, R_8F_E4M3: _F8, R_8F_E5M2: _F8}
_LEAST_K_BYTES = 32
"""The depth of one instruction: shorter sums gain nothing from tensor cores."""


def _tensor_kind(p: Product, target: Target) -> int | None:
    """How tensor cores multiply these operands; None: they do not, or may not."""
    kind = _KINDS.get(p.a.type)
    if kind is None or _KINDS.get(p.b.type) != kind:
        return None
    if target.arch < 70 or (target.arch < 80 and kind != _F16):
        return None
    if kind == _TF32 and not p.tf32:
        return None
    if p.k * TYPES[p.a.type].size_bytes < _LEAST_K_BYTES or min(p.m, p.n) < 8:
        return None
    return kind if kind != _F8 or _suits_wgmma(p, kind, target) else None


def _is_aligned(matrix: Matrix, flags: int) -> bool:
    """Whether 16 bytes that follow each other in memory can be loaded at once, from each multiple of 16 bytes of a column."""
    size = TYPES[matrix.type].size_bytes
    together = (matrix.address, matrix.ld * size, matrix.stride * size)
    return not flags & POINTER_ARRAYS and not any(number % 16 for number in together)


def _operations(p: Product) -> tuple[int, int]:
    """0 as it is, 1 transposed, for both operands: real ones have no conjugates."""
    return min(p.a.op, 1), min(p.b.op, 1)


def _tensor_name(p: Product, kind: int, unit: str, tile_m: int, tile_n: int) -> str:
    letter = "tf32" if kind == _TF32 else _LETTERS[p.a.type]
    layout = "".join("nt"[op] for op in _operations(p))
    return f"warpwright_{letter}gemm_{unit}_{layout}_{tile_m}x{tile_n}"


@dataclass(frozen=True, slots=True)
class MmaShape:
    """How ``cuda/gemm_mma.cu`` divides a product."""

    tile_m: int
    tile_n: int
    warps_m: int
    warps_n: int
    slab_columns: int = 4

    def shared_bytes(self, element_bytes: int, along_k: tuple[bool, bool], stages: int, columns: int) -> int:
        """Of the stages, or of the sums that are stored at once, which take their place; ``columns`` are those of one multiply()."""
        tile_k, gap = 64 // element_bytes, max(16 // element_bytes, 4)
        lines = (
            rows * (tile_k + gap) if along else tile_k * (rows + gap)
            for rows, along in zip((self.tile_m, self.tile_n), along_k, strict=True)
        )
        across = min(self.slab_columns, self.tile_n // self.warps_n // columns) * columns * self.warps_n
        return max(stages * sum(lines) * element_bytes, across * (self.tile_m + 4) * max(4, element_bytes))


_LARGE_MMA, _SMALL_MMA = MmaShape(128, 128, 2, 2), MmaShape(64, 64, 2, 2)
_LARGE_DOUBLE_MMA, _SMALL_DOUBLE_MMA = MmaShape(128, 128, 4, 2), MmaShape(64, 64, 4, 2)
_STAGES, _STAGES_VOLTA, _STAGES_WIDE_F64 = 3, 2, 4
"""Tiles on their way: Volta's pass through registers."""


def _mma(p: Product, kind: int, target: Target) -> Plan:
    volta = target.arch < 80
    large = _blocks(p, _LARGE_MMA.tile_m, _LARGE_MMA.tile_n) >= target.multiprocessors
    wide = kind == _F64 and target.arch >= 90
    if kind == _F64:
        shape = _LARGE_DOUBLE_MMA if wide and large else _SMALL_DOUBLE_MMA
    else:
        shape = _LARGE_MMA if large else _SMALL_MMA
    aligned = _is_aligned(p.a, p.flags) and _is_aligned(p.b, p.flags)
    ops = _operations(p)
    stages = _STAGES_VOLTA if volta else _STAGES_WIDE_F64 if wide else _STAGES
    macros = {
        "KIND": kind,
        "A_TYPE": TYPES[p.a.type].name,
        **_result_types(p),
        "OP_OF_A": ops[0],
        "OP_OF_B": ops[1],
        "TILE_M": shape.tile_m,
        "TILE_N": shape.tile_n,
        "WARPS_M": shape.warps_m,
        "WARPS_N": shape.warps_n,
        "SLAB_COLUMNS": shape.slab_columns,
        "STAGES": stages,
        "ALIGNED": int(aligned),
        "VOLTA": int(volta),
        "WIDE_F64": int(wide),
    }
    name = _tensor_name(p, kind, "mma", shape.tile_m, shape.tile_n) + ("" if aligned else "_unaligned")
    grid = (*_tiles(p, shape.tile_m, shape.tile_n), p.batch)
    size = TYPES[p.a.type].size_bytes
    shared = shape.shared_bytes(size, (ops[0] != 0 or size == 1, ops[1] == 0 or size == 1), stages, 16 if volta else 8)
    return Plan("gemm_mma.cu", name, macros, grid, 32 * shape.warps_m * shape.warps_n, (p.arguments(),), shared)


# --- tensor cores: wgmma ----------------------------------------------------------------------------

_SWIZZLE_BYTES = 1024
"""After which swizzled lines repeat: where tiles may begin."""
_WGMMA_SLABS_BYTES, _WARP_COLUMNS = 8 * 4096, 16
"""What the epilogues of eight warps pass their columns of D through."""
_LINE_BYTES = 128
"""A line of a swizzled tile: what one stage has along K, and a box of TMA along the rows."""
_WGMMA_THREADS = 384


@dataclass(frozen=True, slots=True)
class WgmmaShape:
    """How ``cuda/gemm_wgmma.cu`` divides a product."""

    tile_m: int
    lefts: int
    """Blocks of 64 columns of D that each of two warpgroups computes."""
    stages: int
    rate: float
    """Elements of D that an SM computes in one time, relative to the first shape's, of long sums on an H200."""
    cluster: tuple[int, int] = (1, 2)
    """Blocks of a cluster along M, which share op(B), and along N, which share op(A)."""
    producers: int = 1
    """Threads that bring tiles."""

    @property
    def tile_n(self) -> int:
        """Columns of D that a block computes."""
        return 128 * self.lefts

    @property
    def shared_bytes(self) -> int:
        """Of the stages and of the epilogues, wherever tiles may begin."""
        return self.stages * (self.tile_m + self.tile_n) * _LINE_BYTES + _WGMMA_SLABS_BYTES + _SWIZZLE_BYTES

    def cluster_of(self, p: Product) -> tuple[int, int]:
        """The cluster for a product: its last tiles may be outside of D where there are many."""
        fits = all(
            tiles % blocks == 0 or tiles >= blocks * 4
            for tiles, blocks in zip(_tiles(p, self.tile_m, self.tile_n), self.cluster, strict=True)
        )
        return self.cluster if fits else (1, 1)

    def blocks(self, p: Product) -> int:
        """Tiles of one matrix of a batch in whole clusters."""
        along_m, along_n = (
            -(-tiles // blocks) * blocks
            for tiles, blocks in zip(_tiles(p, self.tile_m, self.tile_n), self.cluster_of(p), strict=True)
        )
        return along_m * along_n

    def time(self, p: Product, target: Target) -> float:
        """Of all tiles, in one unit for all shapes."""
        return -(-self.blocks(p) * p.batch // target.multiprocessors) * self.tile_m * self.tile_n / self.rate


_WGMMA_SHAPES = (
    WgmmaShape(256, 1, 4, rate=1.0),
    WgmmaShape(192, 2, 3, rate=1.05, cluster=(2, 1), producers=2),
    WgmmaShape(128, 1, 6, rate=0.93),
)
_SMALLEST_WGMMA = (128, 128)
_GROUP = 8
"""Tiles along M that blocks at work at one time take before the next along N."""
_SWIZZLE_128, _PROMOTE_TO_256 = 3, 3
"""CU_TENSOR_MAP_SWIZZLE_128B and CU_TENSOR_MAP_L2_PROMOTION_L2_256B."""
_MAP_TYPES = {size: ELEMENT_TYPES.index(name) for size, name in ((1, "u8"), (2, "f16"), (4, "tf32"))}
"""Element types of the operands' tensor maps. TMA rounds floats to TF32, copies other types unchanged, and fills elements outside the matrix with zeros."""
_F32_MAP = ELEMENT_TYPES.index("f32")
_PTX_TYPES = {R_16F: "f16", R_16BF: "bf16", R_32F: "tf32", R_8I: "s8", R_8F_E4M3: "e4m3", R_8F_E5M2: "e5m2"}


def _suits_wgmma(p: Product, kind: int, target: Target) -> bool:
    """Whether the operands are as TMA and wgmma read them: 16-bit types in any order, the others along K."""
    if target.arch != 90 or kind == _F64 or not (_is_aligned(p.a, p.flags) and _is_aligned(p.b, p.flags)):
        return False
    along_k = _operations(p) == (1, 0)
    return (kind in (_F16, _BF16) or along_k) and _blocks(p, *_SMALLEST_WGMMA) * 2 >= target.multiprocessors


def _is_plain(p: Product) -> bool:
    """Whether D is a multiple of the sums, which TMA can write."""
    scalars = p.beta.value == 0 and not (p.alpha.address or p.beta.address or any(p.scales))
    return scalars and not p.flags & ACTIVATIONS and _is_aligned(p.d, p.flags)


def _tensor_map(matrix: Matrix, inner: int, outer: int, batch: int, box_lines: int, rounds: bool = True) -> bytes:
    """Of a matrix with ``outer`` lines of ``inner`` elements, in boxes of swizzled lines; floats are rounded to TF32 unless it is the result."""
    size = TYPES[matrix.type].size_bytes
    described = TensorMap(
        address=matrix.address,
        type=_F32_MAP if size == 4 and not rounds else _MAP_TYPES[size],
        sizes=(inner, outer, batch if matrix.stride else 1),
        strides=(matrix.ld * size, matrix.stride * size),
        box=(_LINE_BYTES // size, box_lines, 1),
        steps=(1, 1, 1),
        swizzle=_SWIZZLE_128,
        promotion=_PROMOTE_TO_256,
    )
    described.check()
    return described.encode()


def _persistent_grid(p: Product, tiles: int, cluster: int, target: Target) -> tuple[int, int, int]:
    """A block for each SM, or for each tile."""
    blocks = min(tiles, max(target.multiprocessors // p.batch, cluster))
    return blocks // cluster * cluster, 1, p.batch


def _wgmma(p: Product, kind: int, target: Target) -> Plan:
    shape = min(_WGMMA_SHAPES, key=lambda one: one.time(p, target))
    cluster_m, cluster_n = shape.cluster_of(p)
    ops, tile_k, plain = _operations(p), _LINE_BYTES // TYPES[p.a.type].size_bytes, _is_plain(p)
    macros = {
        "KIND": kind,
        "A_TYPE": TYPES[p.a.type].name,
        "B_TYPE": TYPES[p.b.type].name,
        **_result_types(p),
        "A_PTX": f'"{_PTX_TYPES[p.a.type]}"',
        "B_PTX": f'"{_PTX_TYPES[p.b.type]}"',
        "OP_OF_A": ops[0],
        "OP_OF_B": ops[1],
        "TILE_M": shape.tile_m,
        "LEFTS": shape.lefts,
        "PRODUCERS": shape.producers,
        "STAGES": shape.stages,
        "CLUSTER_M": cluster_m,
        "CLUSTER_N": cluster_n,
        "GROUP": _GROUP,
        "PLAIN": int(plain),
    }
    map_a = _tensor_map(p.a, *((p.k, p.m) if ops[0] else (p.m, p.k)), p.batch, shape.tile_m if ops[0] else tile_k)
    map_b = _tensor_map(p.b, *((p.n, p.k) if ops[1] else (p.k, p.n)), p.batch, tile_k if ops[1] else shape.tile_n)
    map_d = _tensor_map(p.d, p.m, p.n, p.batch, _WARP_COLUMNS, rounds=False) if plain else bytes(TENSOR_MAP_BYTES)
    return Plan(
        "gemm_wgmma.cu",
        _tensor_name(p, kind, "wgmma", shape.tile_m, shape.tile_n),
        macros,
        _persistent_grid(p, shape.blocks(p), cluster_m * cluster_n, target),
        _WGMMA_THREADS,
        (p.arguments(), map_a, map_b, map_d),
        shape.shared_bytes,
    )


_TF32_TILE, _TF32_K = (128, 256), 32
_TF32_STAGES = 4
_TF32_SLABS_BYTES = 8 * 2560


def _suits_wgmma_tf32(p: Product, kind: int, target: Target) -> bool:
    """Whether ``cuda/gemm_wgmma_tf32.cu`` multiplies these operands: it reads A along M."""
    if target.arch != 90 or kind != _TF32 or _operations(p) != (0, 0):
        return False
    return _is_aligned(p.a, p.flags) and _is_aligned(p.b, p.flags) and _fills(p, *_TF32_TILE, target)


def _wgmma_tf32(p: Product, target: Target) -> Plan:
    tile_m, tile_n = _TF32_TILE
    along_m, along_n = _tiles(p, tile_m, tile_n)
    macros = {**_result_types(p), "STAGES": _TF32_STAGES, "CLUSTER": 1, "GROUP": _GROUP}
    map_a = _tensor_map(p.a, p.m, p.k, p.batch, _TF32_K)
    map_b = _tensor_map(p.b, p.k, p.n, p.batch, tile_n)
    return Plan(
        "gemm_wgmma_tf32.cu",
        _tensor_name(p, _TF32, "wgmma", tile_m, tile_n),
        macros,
        _persistent_grid(p, along_m * along_n, 1, target),
        _WGMMA_THREADS,
        (p.arguments(), map_a, map_b),
        _TF32_STAGES * (tile_m + tile_n) * _LINE_BYTES + _TF32_SLABS_BYTES + _SWIZZLE_BYTES,
    )

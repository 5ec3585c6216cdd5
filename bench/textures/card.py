"""Run the cases through CUDA's driver interface.

On any machine with the package installed::

    python -m bench.textures.card prepare --to build/textures
On the machine with the card (needs NumPy and NVIDIA's driver)::

    python -m bench.textures.card run --from build/textures --out build/textures_h200

``run`` writes every result (``results.npz``) and the times (``times.json``).  ``store`` keeps what the repository has of them: a
CRC-32 of each case, whole results where ours differ (``--known``: results of ``warpwright run … run``), surfaces, queries, times.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, DeviceError
from bench.textures.cases import COUNT, FORMATS, Case, cases, contents, coordinates, level_shape

LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
"""CUDA_ARRAY3D_*."""
_ARRAY, _MIPMAPPED, _LINEAR, _PITCHED = range(4)
_HOST, _TO_ARRAY = 1, 3


class Textures:
    """Arrays and texture objects of one driver."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.alive: list[Any] = []

    def _describe(self, case: Case, extra: int = 0) -> bytes:
        sizes = (*case.shape, 0, 0)[:3]
        if case.layered and len(case.shape) == 2:
            sizes = (case.shape[0], 0, case.shape[1])
        flags = (
            (LAYERED if case.layered else 0) | (CUBEMAP if case.cube else 0) | (GATHER if case.gather else 0) | extra
        )
        return struct.pack("<QQQiII4x", *sizes, FORMATS[case.format][0], case.channels, flags)

    def array(self, case: Case, extra: int = 0) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.card.call("cuArray3DCreate_v2", ctypes.byref(made), ctypes.c_char_p(self._describe(case, extra)))
        self.fill(made, contents(case), case)
        return made

    def mipmapped(self, case: Case) -> ctypes.c_void_p:
        made, level = ctypes.c_void_p(), ctypes.c_void_p()
        self.card.call(
            "cuMipmappedArrayCreate",
            ctypes.byref(made),
            ctypes.c_char_p(self._describe(case)),
            ctypes.c_uint(case.levels),
        )
        for n in range(case.levels):
            self.card.call("cuMipmappedArrayGetLevel", ctypes.byref(level), made, ctypes.c_uint(n))
            self.fill(level, contents(case, n), case)
        return made

    def fill(self, array: ctypes.c_void_p, data: np.ndarray, case: Case) -> None:
        self.copy(array, data, to_array=True)

    def copy(self, array: ctypes.c_void_p, data: np.ndarray, to_array: bool) -> None:
        """All of an array; ``data`` has its texels outermost dimension first, channels last."""
        flat = np.ascontiguousarray(data)
        row = flat.shape[-1] * flat.shape[-2] * flat.itemsize
        outer = flat.shape[:-2]
        # A layered 1D array has its layers in depth.
        depth, height = (1, *outer)[-2:] if len(outer) else (1, 1)
        if len(outer) == 1 and self._layers_of_rows(array, outer[0]):
            depth, height = outer[0], 1
        host = struct.pack("<4QI4xQQQQQQ", 0, 0, 0, 0, _HOST, flat.ctypes.data, 0, 0, 0, row, height)
        device = struct.pack("<4QI4xQQQQQQ", 0, 0, 0, 0, _TO_ARRAY, 0, 0, array.value or 0, 0, 0, 0)
        both = (host, device) if to_array else (device, host)
        raw = b"".join(both) + struct.pack("<3Q", row, height, depth)
        self.card.call("cuMemcpy3D_v2", ctypes.c_char_p(raw))
        if not to_array:
            data[...] = flat

    def _layers_of_rows(self, array: ctypes.c_void_p, rows: int) -> bool:
        place = ctypes.create_string_buffer(40)
        self.card.call("cuArray3DGetDescriptor_v2", place, array)
        _, height, depth, *_ = struct.unpack_from("<QQQiII", place)
        return bool(height == 0 and depth == rows)

    def texture(self, case: Case) -> int:
        """A texture object of a case."""
        if case.kind == "mipmapped":
            resource = struct.pack("<i4xQ", _MIPMAPPED, self.mipmapped(case).value or 0)
        elif case.kind == "array":
            resource = struct.pack("<i4xQ", _ARRAY, self.array(case).value or 0)
        else:
            data = contents(case)
            number, kind = FORMATS[case.format]
            size = np.dtype(kind).itemsize * case.channels
            if case.kind == "linear":
                buffer = self.card.upload(data)
                resource = struct.pack("<i4xQiIQ", _LINEAR, buffer.address, number, case.channels, data.nbytes)
            else:
                pitch = 512
                padded = np.zeros((case.shape[1], pitch), np.uint8)
                padded[:, : case.shape[0] * size] = data.reshape(case.shape[1], -1).view(np.uint8)
                buffer = self.card.upload(padded)
                resource = struct.pack(
                    "<i4xQiIQQQ", _PITCHED, buffer.address, number, case.channels, case.shape[0], case.shape[1], pitch
                )
            self.alive.append(buffer)
        flags = (
            (1 if case.integer else 0)
            | (2 if case.normalized else 0)
            | (0x10 if case.srgb else 0)
            | (0x40 if case.seamless else 0)
        )
        sampler = struct.pack(
            "<3iiIIifff4f48x",
            *case.address,
            int(case.linear),
            flags,
            0,
            int(case.mip_linear),
            case.bias,
            *case.clamp,
            *case.border,
        )
        made = ctypes.c_uint64()
        self.card.call(
            "cuTexObjectCreate",
            ctypes.byref(made),
            ctypes.c_char_p(resource.ljust(144, b"\0")),
            ctypes.c_char_p(sampler),
            None,
        )
        return made.value

    def surface(self, case: Case) -> tuple[int, ctypes.c_void_p]:
        """A surface object and its array."""
        array = self.array(case, SURFACE)
        made = ctypes.c_uint64()
        resource = struct.pack("<i4xQ", _ARRAY, array.value or 0)
        self.card.call("cuSurfObjectCreate", ctypes.byref(made), ctypes.c_char_p(resource.ljust(144, b"\0")))
        return made.value, array


def fetch_all(card: Card, cubin: bytes) -> dict[str, np.ndarray]:
    """Results by case: uint32 (COUNT, 4)."""
    module, textures = card.load(cubin), Textures(card)
    results = {}
    out = card.alloc(COUNT * 16)
    for case in cases():
        try:
            handle = textures.texture(case)
        except DeviceError as error:
            print(case.name, error, file=sys.stderr)
            continue
        where = card.upload(coordinates(case))
        out.zero()
        module.launch(case.kernel, COUNT // 128, 128, (np.uint64(handle), where, out, np.int32(COUNT)))
        results[case.name] = out.read(np.uint32, COUNT * 4).reshape(COUNT, 4)
        where.free()
    return results


SURFACES = (
    ("s2_4_clamp", "u8", 4, np.uint32, 1), ("s2_4_zero", "f32", 1, np.uint32, 1), ("s2_8_clamp", "f16", 4, np.uint32, 2),
    ("s2_16_zero", "f32", 4, np.uint32, 4), ("s2_2_clamp", "u16", 1, np.uint16, 1), ("s2_1_zero", "u8", 1, np.uint8, 1),
)  # fmt: skip
FORMATTED = tuple((f, c) for f in FORMATS for c in (1, 2, 4))


def surface_cases(card: Card, cubin: bytes) -> dict[str, np.ndarray]:
    """Reads, and arrays after writes."""
    module, textures = card.load(cubin), Textures(card)
    found: dict[str, np.ndarray] = {}
    rng = np.random.default_rng(11)
    n = 256
    where = np.stack([rng.integers(-3, 19, n), rng.integers(-2, 10, n)]).astype(np.int32)
    # No two writes to one place: the last one to come would win.
    lines = np.stack([np.arange(n) % 20 - 2, np.arange(n) // 20 - 2]).astype(np.int32)
    for kernel, form, channels, kind, words in SURFACES:
        case = Case("t2", form, channels, (16, 8))
        handle, array = textures.surface(case)
        place, out = card.upload(where), card.alloc(n * np.dtype(kind).itemsize * words)
        module.launch(kernel, 2, 128, (np.uint64(handle), place, out, np.int32(n)))
        found[f"{kernel} read"] = out.read(kind, n * words)
        values = rng.integers(0, np.iinfo(kind).max, n * words, kind)
        inner = np.array(lines)
        if "clamp" in kernel:
            inner = (
                np.stack([np.arange(n) % 16, np.arange(n) // 16 % 8])
                .astype(np.int32)[:, :128]
                .repeat(2, 1)[:, ::2]
                .repeat(2, 1)
            )
            values = values.reshape(n, words)[::2].repeat(2, 0).reshape(-1)
        place.write(inner)
        module.launch(f"{kernel}_w", 2, 128, (np.uint64(handle), place, card.upload(values), np.int32(n)))
        after = np.zeros(level_shape(case, 0), FORMATS[form][1])
        textures.copy(array, after, to_array=False)
        found[f"{kernel} written"] = after
    for form, channels in FORMATTED:
        case = Case("t2", form, channels, (16, 16))
        handle, array = textures.surface(case)
        grid = np.stack([np.arange(n) % 16, np.arange(n) // 16]).astype(np.int32)
        values = rng.uniform(-2, 2, (n, 4)).astype(np.float32).view(np.uint32)
        values[::3] = rng.integers(0, 2**32, (len(values[::3]), 4), np.uint32)
        values[1::3] = rng.integers(-300, 300, (len(values[1::3]), 4)).astype(np.int32).view(np.uint32)
        module.launch("sust_p", 2, 128, (np.uint64(handle), card.upload(grid), card.upload(values), np.int32(n)))
        after = np.zeros(level_shape(case, 0), FORMATS[form][1])
        textures.copy(array, after, to_array=False)
        found[f"sust.p {form}x{channels}"] = after.view(np.uint8)
    return found


def queries(card: Card, cubin: bytes) -> dict[str, np.ndarray]:
    module, textures = card.load(cubin), Textures(card)
    found = {}
    for case in (
        Case("t1", "f32", 1, (16,)), Case("t2", "u8", 4, (13, 7), normalized=True), Case("t3", "s16", 2, (5, 6, 7)), Case("a2", "f16", 4, (16, 8, 5), layered=True),
        Case("a1", "f32", 2, (16, 5), layered=True), Case("cube", "u16", 1, (8, 8, 6), cube=True, normalized=True), Case("acube", "s8", 1, (8, 8, 18), cube=True, layered=True),
        Case("l2", "f32", 1, (16, 16), kind="mipmapped", levels=5, clamp=(0.0, 99.0), normalized=True), Case("fetch", "s32", 4, (1000,), kind="linear", integer=True),
        Case("t2", "f32", 1, (48, 7), kind="pitch2d"),
    ):  # fmt: skip
        out = card.alloc(64)
        out.zero()
        module.launch("txq_sizes", 1, 1, (np.uint64(textures.texture(case)), out, out, np.int32(0)))
        found[case.name] = out.read(np.uint32, 16)
    return found


TIMED = {
    "time2": [
        Case("t2", f, c, (64, 64), linear=linear)
        for f, c in (("f32", 1), ("u8", 1), ("f16", 1))
        for linear in (False, True)
    ],
    "time2x4": [
        Case("t2", f, c, (64, 64), linear=linear)
        for f, c in (("f32", 4), ("u8", 4), ("f16", 4), ("f32", 2))
        for linear in (False, True)
    ],
    "time1i": [Case("fetch", f, 1, (4096,), kind="linear") for f in ("f32",)],
    "time3": [Case("t3", "f32", 1, (16, 16, 16), linear=linear) for linear in (False, True)],
}


def times(card: Card, cubin: bytes) -> list[dict[str, Any]]:
    """Cycles of 64 steps by warps of one block: one fetch a step (chain) or four (many)."""
    module, textures = card.load(cubin), Textures(card)
    rows = []
    for kernel, list_ in TIMED.items():
        for case in list_:
            handle = textures.texture(case)
            for way in ("chain", "many"):
                for warps in (1,) if way == "chain" else (1, 4, 8, 16, 32):
                    for x, step in ((2.3, 0.0), (2.3, 1.0), (2.3, 0.25)):
                        out, values = card.alloc(32 * 8), card.alloc(1024 * 4)
                        for _ in range(2):
                            module.launch(
                                f"{kernel}_{way}",
                                1,
                                32 * warps,
                                (np.uint64(handle), np.float32(x), np.float32(step), out, values),
                            )
                        cycles = out.read(np.int64, warps)
                        rows.append(
                            {
                                "kernel": f"{kernel}_{way}",
                                "case": case.name,
                                "warps": warps,
                                "step": step,
                                "cycles": [int(v) for v in cycles],
                            }
                        )
    return rows


DATA = Path(__file__).parents[1] / "data" / "h200"


def store(origin: Path, known: Path | None) -> None:
    """The repository's data from a card's results."""
    results = dict(np.load(origin / "results.npz"))
    ours = dict(np.load(known / "results.npz")) if known is not None else {}
    whole = {name: value for name, value in results.items() if name in ours and not np.array_equal(ours[name], value)}
    kept = {f"whole {name}": value for name, value in whole.items()}
    names = sorted(results)
    kept["names"] = np.array(names)
    kept["crc32"] = np.array([zlib.crc32(results[name].tobytes()) for name in names], np.uint32)
    for part in ("surfaces", "queries"):
        if (origin / f"{part}.npz").exists():
            kept |= {f"{part} {name}": value for name, value in np.load(origin / f"{part}.npz").items()}
    np.savez_compressed(DATA / "textures.npz", **kept)
    times = json.loads((origin / "times.json").read_text())
    rows = ",\n".join(json.dumps(row) for row in times["rows"])
    about = json.dumps(times["about"])
    (DATA / "textures.json").write_text(f'{{"about": {about},\n"rows": [\n{rows}\n]}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "run", "store"))
    parser.add_argument("--to", type=Path, default=Path("build/textures"))
    parser.add_argument("--from", dest="origin", type=Path, default=Path("build/textures"))
    parser.add_argument("--out", type=Path, default=Path("build/textures_h200"))
    parser.add_argument("--chip", default="h200")
    parser.add_argument("--known", type=Path, default=None)
    given = parser.parse_args()
    if given.action == "store":
        store(given.origin, given.known)
        return
    if given.action == "prepare":
        from warpwright import GPU

        given.to.mkdir(parents=True, exist_ok=True)
        source = Path(__file__).with_name("kernels.cu")
        (given.to / "kernels.cubin").write_bytes(
            GPU(given.chip, timing="off").compile(source.read_text(), name=str(source)).cubin
        )
        return
    given.out.mkdir(parents=True, exist_ok=True)
    cubin = (given.origin / "kernels.cubin").read_bytes()
    card = Card()
    began = time.perf_counter()
    about = card.describe()
    for name, work in (("results", fetch_all), ("surfaces", surface_cases), ("queries", queries)):
        try:
            np.savez_compressed(given.out / f"{name}.npz", **work(card, cubin))
        except DeviceError as error:
            print(name, error, file=sys.stderr)
        print(name, round(time.perf_counter() - began, 1), "s", file=sys.stderr)
    (given.out / "times.json").write_text(json.dumps({"about": about, "rows": times(card, cubin)}))


if __name__ == "__main__":
    main()

"""Rates of fetches by pattern and format, what a fetch brings into L1, levels from slopes, surface reductions: on a card.

python -m bench.textures.rates prepare --to build/textures
python -m bench.textures.rates run --from build/textures --out build/textures_h200      # on the machine with the card
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card
from bench.textures.card import _ARRAY, Textures
from bench.textures.cases import CLAMP, FORMATS, Case, level_shape

LANES = np.arange(32)
PATTERNS = {
    **{f"{w}x{32 // w}": (LANES % w, LANES // w) for w in (32, 16, 8, 4, 2, 1)},
    "quads 16x2": (LANES // 4 * 2 + LANES % 2, LANES // 2 % 2),
    **{f"step {s}": (LANES * s, LANES * 0) for s in (2, 4, 8, 16)},
    **{f"row step {s}": (LANES * 0, LANES * s) for s in (2, 4)},
    **{f"{w}x{32 // w} step 2": (LANES % w * 2, LANES // w * 2) for w in (8, 4)},
    "one": (LANES * 0, LANES * 0),
    "halves": (LANES * 0, LANES // 16),
    "random 8": (np.random.default_rng(1).integers(0, 8, 32), np.random.default_rng(2).integers(0, 8, 32)),
    "random 32": (np.random.default_rng(3).integers(0, 32, 32), np.random.default_rng(4).integers(0, 32, 32)),
    "random 128": (np.random.default_rng(5).integers(0, 128, 32), np.random.default_rng(6).integers(0, 128, 32)),
}
"""Texel of each lane."""
SIZE = 128


def rates(card: Card, module: Any, textures: Textures) -> list[dict[str, Any]]:
    """Cycles of a warp's fetch on one SM with 16 warps; a warp's texels are arranged by the pattern."""
    rows = []
    out, kept = card.alloc(64), card.alloc(4096)

    def note(kernel: str, case: Case, name: str, x: np.ndarray, y: np.ndarray, warps: int, offset: float) -> None:
        at = np.zeros((3, 1024), np.float32)
        warp = np.arange(1024) // 32
        at[0] = np.tile(x, 32) + offset + warp % 4 * 2
        at[1] = np.tile(y, 32) + offset + warp // 4 * 2
        at[2] = offset + warp % 4
        place = card.upload(at)
        least = []
        for rounds in (8, 24):
            best = 1 << 40
            for _ in range(3):
                args = [handle, place, np.float32(1), np.int32(rounds), out, kept]
                module.launch(kernel, 1, 32 * warps, args)
                best = min(best, int(out.read(np.uint32, 1)[0]))
            least.append(best)
        place.free()
        each = (least[1] - least[0]) / (16 * 4 * warps)
        rows.append({"kernel": kernel, "case": case.name, "pattern": name, "warps": warps, "cycles": round(each, 3)})

    for form, channels in (("f32", 1), ("u8", 1), ("u8", 4), ("f16", 4), ("f32", 2), ("f32", 4)):
        for linear in (False, True):
            case = Case("t2", form, channels, (SIZE + 64, SIZE + 64), linear=linear, content="codes")
            handle = np.uint64(textures.texture(case))
            for name, (x, y) in PATTERNS.items():
                note("rate2x4" if channels > 1 else "rate2", case, name, x, y, 16, 0.75 if linear else 0.5)
            for warps in (1, 2, 4, 8, 32):
                note(
                    "rate2x4" if channels > 1 else "rate2",
                    case,
                    "32x1",
                    *PATTERNS["32x1"],
                    warps,
                    0.75 if linear else 0.5,
                )
    for linear in (False, True):
        case = Case("t3", "f32", 1, (64, 64, 16), linear=linear, content="codes")
        handle = np.uint64(textures.texture(case))
        for name in ("32x1", "8x4", "4x8", "1x32", "one"):
            note("rate3", case, name, *PATTERNS[name], 16, 0.75 if linear else 0.5)
    case = Case("fetch", "f32", 1, (8192,), kind="linear", content="codes")
    handle = np.uint64(textures.texture(case))
    for name in ("32x1", "one", "step 2", "step 4", "step 8", "step 16"):
        note("rate1i", case, name, *PATTERNS[name], 16, 0.5)
    case = Case("t2", "f32", 1, (128, 192), kind="pitch2d", content="codes")
    handle = np.uint64(textures.texture(case))
    for name in ("32x1", "8x4", "4x8", "1x32", "random 32"):
        note("rate2", case, name, *PATTERNS[name], 16, 0.5)
    return rows


def empty(textures: Textures, form: str, channels: int, size: int) -> int:
    """A texture object of a square array that nobody wrote."""
    made, handle = ctypes.c_void_p(), ctypes.c_uint64()
    raw = struct.pack("<QQQiII4x", size, size, 0, FORMATS[form][0], channels, 0)
    textures.card.call("cuArray3DCreate_v2", ctypes.byref(made), ctypes.c_char_p(raw))
    resource = struct.pack("<i4xQ", _ARRAY, made.value or 0)
    sampler = struct.pack("<3iiIIifff4f48x", CLAMP, CLAMP, CLAMP, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0, 0, 0, 0)
    textures.card.call(
        "cuTexObjectCreate", ctypes.byref(handle), ctypes.c_char_p(resource.ljust(144, b"\0")), ctypes.c_char_p(sampler), None
    )  # fmt: skip
    return handle.value


def neighbours(card: Card, module: Any, textures: Textures) -> dict[str, np.ndarray]:
    """Cycles of a fetch (dx, dy) texels from one that came from memory, by format; shape (dy, dx)."""
    found = {}
    for form, channels, wide, high in (
        ("f32", 1, 80, 40),
        ("u8", 1, 160, 40),
        ("f16", 1, 80, 40),
        ("f32", 4, 40, 40),
        ("f32", 2, 40, 40),
    ):
        size = 16384 if channels == 1 else 8192
        handle = np.uint64(empty(textures, form, channels, size))
        out = card.alloc(2 * wide * high)
        module.launch(
            "neighbours", 1, 1, [handle, np.int32(size // 128), np.int32(wide), np.int32(high), np.int32(128), out]
        )
        found[f"neighbours {form}x{channels}"] = out.read(np.uint16, wide * high).reshape(high, wide)
    return found


def slopes() -> dict[str, tuple[str, np.ndarray]]:
    """Kernel and slopes in texels, shape (2 or 4, 16384): x by x, y by x, x by y, y by y."""
    n = 128
    a = np.repeat(1 + 3 * np.arange(n) / n, n)
    b = np.tile(1 + 3 * np.arange(n) / n, n)
    small = np.tile(4 * np.arange(n) / n, n)
    none = np.zeros(n * n)
    rng = np.random.default_rng(9)
    drawn = rng.uniform(-6, 6, (4, n * n))
    drawn[:, ::2] = np.exp2(rng.uniform(-3, 3, (4, n * n // 2))) * rng.choice([-1, 1], (4, n * n // 2))
    return {
        "apart": ("g2_f", np.stack([a, none, none, b])),
        "one": ("g2_f", np.stack([a, small, none, none])),
        "along": ("g2_f", np.stack([a, none, b, none])),
        "along zero": ("g2_f", np.stack([a, none, small, none])),
        "three": ("g2_f", np.stack([a, small, none, 0 * a + 2])),
        "same": ("g2_f", np.stack([a, small, a, small])),
        "drawn": ("g2_f", drawn),
        "single": ("g1_f", np.stack([a, b])),
        "single zero": ("g1_f", np.stack([a, small])),
        "single drawn": ("g1_f", drawn[:2]),
    }


def level_case(flat: bool) -> Case:
    """A texture whose texels contain their level."""
    return Case(
        "g1" if flat else "g2", "f32", 1, (64,) if flat else (64, 64), kind="mipmapped", levels=7, linear=True,
        mip_linear=True, normalized=True, clamp=(0.0, 99.0), content="level",
    )  # fmt: skip


def levels(card: Card, fetches: Any, textures: Textures) -> dict[str, np.ndarray]:
    """256ths of a level that the card took for slopes."""
    found = {}
    for name, (kernel, given) in slopes().items():
        flat = kernel == "g1_f"
        case = level_case(flat)
        handle = np.uint64(textures.texture(case))
        count = given.shape[1]
        start = np.full((1 if flat else 2, count), 0.4)
        place = card.upload(np.concatenate([start, given / 64]).astype(np.float32))
        out = card.alloc(count * 16)
        fetches.launch(kernel, count // 128, 128, [handle, place, out, np.int32(count)])
        value = out.read(np.float32, count * 4).reshape(count, 4)[:, 0]
        found[f"levels {name}"] = np.round((value - 1) * 256).astype(np.int16)
    return found


def reductions(card: Card, module: Any, textures: Textures) -> dict[str, np.ndarray]:
    """Arrays after reductions at places inside and outside; the last rows of a mode read what a formatted one did."""
    found = {}
    rng = np.random.default_rng(12)
    n = 512
    where = np.stack([rng.integers(-2, 18, n), rng.integers(-2, 10, n)], 1).astype(np.int32)
    values = rng.integers(0, 2**32, 2 * n, np.uint32)
    for boundary in ("clamp", "zero"):
        for which in range(11):
            for form, channels in (("u32", 1), ("s32", 1), ("u32", 2), ("u8", 4)):
                if (which == 5) != (channels == 2) or (which in (6, 7, 9)) != (
                    form == "s32" or (form == "u8" and which < 8)
                ):
                    continue
                case = Case("t2", form, channels, (16, 8), integer=True)
                handle, array = textures.surface(case)
                try:
                    module.launch(
                        f"reduce_{boundary}",
                        4,
                        128,
                        [np.uint64(handle), card.upload(where), card.upload(values), np.int32(which)],
                    )
                    after = np.zeros(level_shape(case, 0), FORMATS[form][1])
                    textures.copy(array, after, to_array=False)
                    found[f"reduced {boundary} {which} {form}x{channels}"] = after
                except Exception as error:  # the card's time is dear: the other results still come
                    print(boundary, which, form, error)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "run"))
    parser.add_argument("--to", type=Path, default=Path("build/textures"))
    parser.add_argument("--from", dest="origin", type=Path, default=Path("build/textures"))
    parser.add_argument("--out", type=Path, default=Path("build/textures_h200"))
    given = parser.parse_args()
    names = ("kernels", "rates")
    if given.action == "prepare":
        from warpwright.toolchain import compile_source

        given.to.mkdir(parents=True, exist_ok=True)
        for name in names:
            source = Path(__file__).with_name(f"{name}.cu")
            (given.to / f"{name}.cubin").write_bytes(compile_source(source, "90").cubin)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    card = Card()
    fetches, module = (card.load((given.origin / f"{name}.cubin").read_bytes()) for name in names)
    textures = Textures(card)
    kept: dict[str, np.ndarray] = {}
    kept |= levels(card, fetches, textures)
    np.savez_compressed(given.out / "texture_rates.npz", **kept)
    rows = rates(card, module, textures)
    about = card.describe()
    (given.out / "texture_rates.json").write_text(json.dumps({"about": about, "rows": rows}))
    kept |= neighbours(card, module, textures)
    np.savez_compressed(given.out / "texture_rates.npz", **kept)
    kept |= reductions(card, module, textures)
    np.savez_compressed(given.out / "texture_rates.npz", **kept)


if __name__ == "__main__":
    main()

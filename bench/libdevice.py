"""CUDA's math functions (f32, f64, f16) on 100,000 values each: this engine and a real card, bit for bit.

    python -m bench.libdevice prepare --to build/libdevice       # the cubin
    python -m bench.libdevice record --from build/libdevice      # on the machine with the card: digests
    python -m bench.libdevice check                              # digests of now against the card's

The names are those of the CUDA Math API.  Functions are compiled by NVRTC 12.9, so their code is libdevice's.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from pathlib import Path

import numpy as np

from bench.device import open_device

COUNT = 100_000
BLOCK = 256
DATA = Path(__file__).parent / "data" / "h200" / "libdevice.json"

# fmt: off
UNARY = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs "
    "floor j0 j1 lgamma log log10 log1p log2 logb nearbyint normcdf normcdfinv rcbrt rint round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1"
)
BINARY = "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder rhypot"
TERNARY = "fma norm3d rnorm3d"
HALF = "hceil hcos hexp hexp10 hexp2 hfloor hlog hlog10 hlog2 hrcp hrint hrsqrt hsin hsqrt htanh htrunc"
FAST = "__cosf __expf __exp10f __log10f __log2f __logf __sinf __tanf __saturatef __frsqrt_rn __fsqrt_rn __frcp_rn"
# fmt: on


def functions() -> list[tuple[str, str, int]]:
    """(name, type, operands) of every function."""
    found = []
    for arity, names in ((1, UNARY), (2, BINARY), (3, TERNARY)):
        for name in names.split():
            found += [(f"{name}f", "float", arity), (name, "double", arity)]
    found += [(name, "float", 1) for name in FAST.split()]
    found += [("__fdividef", "float", 2), ("__powf", "float", 2)]
    return found + [(name, "__half", 1) for name in HALF.split()]


def source() -> str:
    """A kernel for each function."""
    lines = ["#include <cuda_fp16.h>"]
    for name, type, arity in functions():
        parameters = ", ".join(f"const {type} *{v}" for v in "abc"[:arity])
        values = ", ".join(f"{v}[i]" for v in "abc"[:arity])
        lines.append(
            f'extern "C" __global__ void k_{name}({type} *out, {parameters}, int n) '
            f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = {name}({values}); }}"
        )
    return "\n".join(lines)


BITS = {"float": np.uint32, "double": np.uint64, "__half": np.uint16}
FORMATS = {"float": (8, 23), "double": (11, 52), "__half": (5, 10)}


def values(name: str, type: str, position: int) -> np.ndarray:
    """Any bits, moderate exponents, and specials, a third of each (specials: fewer)."""
    exponent, fraction = FORMATS[type]
    width, bias = 1 + exponent + fraction, (1 << exponent - 1) - 1
    rng = np.random.default_rng([zlib.crc32(name.encode()), position])
    bits = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64, endpoint=False) & np.uint64((1 << width) - 1)
    near = rng.integers(bias - min(20, bias - 1), bias + min(8, bias), COUNT, dtype=np.uint64) << np.uint64(fraction)
    keep = np.uint64((1 << width) - 1 & ~(((1 << exponent) - 1) << fraction))
    mixed = np.where(np.arange(COUNT) % 3 == 0, bits, bits & keep | near)
    infinity = ((1 << exponent) - 1) << fraction
    special = [
        0,
        1,
        (1 << fraction) - 1,
        1 << fraction,
        bias << fraction,
        infinity - 1,
        infinity,
        infinity | 1 << fraction - 1,
    ]
    special += [s | 1 << width - 1 for s in special]
    mixed[:512] = np.array(special, np.uint64)[rng.integers(0, len(special), 512)]
    return mixed.astype(BITS[type])


def run(device: str, cubin: bytes, only: str = "") -> dict[str, int]:
    """The CRC-32 of each function's results; -1 where it does not run."""
    opened = open_device(device)
    if device == "model":
        import warpwright

        opened.gpu = warpwright.GPU("h200", timing="off")  # type: ignore[union-attr]
    module, found = opened.load(cubin), {}
    for name, type, arity in functions():
        if only and only not in name:
            continue
        inputs = [opened.upload(values(name, type, n)) for n in range(arity)]
        out = opened.alloc(COUNT * np.dtype(BITS[type]).itemsize)
        try:
            launch = getattr(module, "enqueue", None) or module.module[f"k_{name}"][-(-COUNT // BLOCK), BLOCK]  # type: ignore[union-attr]
            if device == "card":
                launch(f"k_{name}", -(-COUNT // BLOCK), BLOCK, [out, *inputs, np.int32(COUNT)])
            else:
                launch(*(b.array for b in (out, *inputs)), np.int32(COUNT))
            found[name] = zlib.crc32(out.read(BITS[type], COUNT).tobytes())
        except (RuntimeError, NotImplementedError, ValueError) as error:
            found[name] = -1
            print(f"{name}: {' '.join(str(error).split())[:200]}", file=sys.stderr)
        for buffer in (out, *inputs):
            buffer.free()
    return found


def compiled() -> bytes:
    from warpwright.toolchain import compile_source

    return compile_source(source(), "90", name="libdevice.cu").cubin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "record", "check"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/libdevice"))
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--only", default="", help="functions whose names hold this text")
    arguments = parser.parse_args()
    path = arguments.folder / "libdevice.cubin"
    if arguments.what == "prepare":
        arguments.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compiled())
    elif arguments.what == "record":
        arguments.out.write_text(json.dumps(run("card", path.read_bytes()), indent=0) + "\n")
    else:
        card, mine = json.loads(DATA.read_text()), run("model", compiled(), arguments.only)
        wrong = [name for name, digest in mine.items() if digest != card[name]]
        print(f"{len(mine) - len(wrong)} of {len(mine)} functions have the card's bits on {COUNT:,} values each")
        print(*wrong)
        sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

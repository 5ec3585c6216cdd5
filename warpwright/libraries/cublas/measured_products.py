"""The measured ratio of a matrix product's class: types, transposition, machine code of the kernel, and the nearest measured shape."""

from __future__ import annotations

from functools import cache
from math import log2
from typing import TYPE_CHECKING

from warpwright.libraries.element_types import R_16BF, R_16F, R_32F, R_64F
from warpwright.library_times import LibraryTime, measured_times

if TYPE_CHECKING:
    from warpwright.libraries.cublas.products import Product

Shape = tuple[int, int, int, int]
"""m, n, k and the number of products of a batch."""
FARTHEST = 2.0
"""A measured shape belongs to a product's class if none of its sizes differs from the product's by more than this factor."""
_KINDS = {R_16F: "f16", R_16BF: "bf16", R_32F: "f32", R_64F: "f64"}


def kind_of(product: Product) -> str | None:
    """The name of a product's types in the measurements; None if its operands or results differ."""
    types = {product.a.type, product.b.type, product.d.type}
    if len(types) > 1 or product.a.type not in _KINDS:
        return None
    return "tf32" if product.tf32 and product.a.type == R_32F else _KINDS[product.a.type]


def layout_of(product: Product) -> str:
    """``nn`` to ``tt``: whether A and B are transposed."""
    return "".join("nt"[min(one.op, 1)] for one in (product.a, product.b))


@cache
def _by_class(chip: str) -> dict[tuple[str, str, str], list[tuple[Shape, float]]]:
    """Shapes and ratios by types, layout and the digest of the kernel's machine code."""
    found: dict[tuple[str, str, str], list[tuple[Shape, float]]] = {}
    for row in measured_times().get(chip, {}).get("products", ()):
        kind, layout, m, n, k, batch, _kernel, code, own_us, nvidia_us = row
        found.setdefault((kind, layout, code), []).append(((m, n, k, batch), nvidia_us / own_us))
    return found


def time_of(product: Product, code: str, chip: str) -> LibraryTime:
    """The ratio for a product that machine code of a digest computes on a chip, by the nearest measured shape of its class."""
    kind, layout = kind_of(product), layout_of(product)
    shapes = _by_class(chip).get((kind or "", layout, code), [])
    sizes = (product.m, product.n, product.k, product.batch)

    def distances(shape: Shape) -> list[float]:
        return [abs(log2(one / other)) for one, other in zip(shape, sizes, strict=True)]

    near = [one for one in shapes if max(distances(one[0])) <= log2(FARTHEST)] if product.k else []
    if not near:
        return LibraryTime(product.library)
    shape, ratio = min(near, key=lambda one: sum(distances(one[0])))
    name = "x".join(map(str, shape[:3])) + (f" x {shape[3]}" if shape[3] > 1 else "")
    return LibraryTime(product.library, ratio, f"{kind} {layout} {name}")

"""Code that kernels share: one module of common functions, and one module per rarely used function.

Both are compiled once, with all of LLVM's passes, and kept on disk; a kernel only declares the functions that it calls.
"""

from __future__ import annotations

from collections.abc import Callable

from warpwright.engine.jit import scheduler, silicon, slow_path
from warpwright.engine.jit.atomic_functions import atomic_function
from warpwright.engine.jit.exact_accesses import exact_accesses
from warpwright.engine.jit.lane_shuffles import exchange
from warpwright.engine.jit.rounding import directed_function
from warpwright.engine.jit.tensor_cores import mma_function
from warpwright.engine.jit.warpgroup_products import group_function
from warpwright.engine.jit.wave import Wave

SHARED = (
    *("ww_serve", "ww_load", "ww_store", "ww_load_constant", "ww_shuffle", "ww_match_any"),
    *slow_path.symbols(),
)
"""Functions of the shared module, by name."""
RUN_BLOCKS = "ww_run_blocks"
"""The block scheduler, which every launch without timing calls."""
MAKERS: dict[str, Callable[[str, Wave], tuple[str, dict[str, str]]]] = {
    "ww_atomic_": atomic_function,
    "ww_own_": atomic_function,
    "ww_at_": atomic_function,
    "ww_mma_": mma_function,
    "ww_wgmma_": group_function,
    "ww_mufu_": silicon.function,
    "ww_": directed_function,
}
"""Generator of a function, by prefix of its name: returns its definition and the declarations and constants that it
needs."""


def shared_module(wave: Wave, keepers: bool = True) -> str:
    """Text of the module that all kernels share; ``keepers``: including the x86-64 functions that save registers around
    calls."""
    return "\n".join((exact_accesses(wave), exchange(wave), slow_path.module_text(wave, keepers)))


def function_module(name: str, wave: Wave) -> str:
    """Text of a module with one function."""
    if name == RUN_BLOCKS:
        return scheduler.module_text(name)
    maker = next(make for prefix, make in MAKERS.items() if name.startswith(prefix))
    definition, declared = maker(name, wave)
    return "\n".join([*declared.values(), definition])

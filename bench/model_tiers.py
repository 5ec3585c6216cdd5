"""Compares both tiers of the cycle model's machine code: CPU time of compiling them, and of running kernels with them.

``python -m bench.model_tiers [--gpu h200] [--turns 3] [NAME …]`` compiles the quick and the full version and runs kernels of the corpus (large sizes) on one host
thread with both, in turns; prints the least CPU time of each and their ratios, and fails if cycles differ.

With ``--passes`` it compiles the model by each of ``PASSES`` in place of the tiers, and prints the CPU time of LLVM's passes and of its code generation, and how long the
kernels (by default four) take relative to the first (geometric mean).
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from bench.kernel_sets import kernel_set
from bench.timing import KERNELS, mean

FOUR = ("matmul_tiled", "sort_bitonic", "gather", "stream_triad")
PASSES: dict[str, tuple[int | tuple[str, ...], bool, int]] = {
    "O3, 3 (full)": (3, True, 3),
    "O1, 3": (1, True, 3),
    "O1 without the inliner, 1": (1, False, 1),
    "SROA, SimplifyCFG, InstCombine, 1 (quick)": (("sroa", "simplify_cfg", "instruction_combine"), False, 1),
    "SROA, SimplifyCFG, 1": (("sroa", "simplify_cfg"), False, 1),
    "SROA, 1": (("sroa",), False, 1),
    "SROA, 0": (("sroa",), False, 0),
    "none, 0": ((), False, 0),
}
"""LLVM's level of optimisation or the names of its passes, whether it inlines, and the level of code generation."""


def compiled() -> dict[str, Any]:
    """The model's entry with the code of each tier, by tier; prints the CPU time of each step of compiling."""
    from warpwright.native.direct import FULL, QUICK, object_code
    from warpwright.timing import windows

    model = windows.run_windows
    began = time.process_time()
    text = model.translated()
    print(f"translation {time.process_time() - began:.2f} s, {len(text) / 1e6:.1f} MB")
    entries = {}
    for tier in (QUICK, FULL):
        began = time.process_time()
        code = object_code(text, tier)
        print(f"LLVM, {tier} {time.process_time() - began:.2f} s, {len(code) / 1e6:.2f} MB of machine code")
        entries[tier] = entry_of(model, tier, code)
    return entries


def machine(level: int) -> Any:
    """The host, for code generation at a level; as ``warpwright.native.direct`` has it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=level, jit=True, reloc="pic", codemodel="jitdefault"
    )  # fmt: skip


def coded(text: str, passes: int | tuple[str, ...], inlines: bool, level: int) -> tuple[bytes, float, float]:
    """Machine code of a module's text, and the CPU seconds of the passes and of code generation."""
    target = machine(level)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=passes if isinstance(passes, int) else 3)
    options.slp_vectorization = options.loop_vectorization = False
    if isinstance(passes, int) and not inlines:
        options.inlining_threshold = -1_000_000
    builder = llvm.create_pass_builder(target, options)
    if isinstance(passes, int):
        manager = builder.getModulePassManager()
    else:
        manager = llvm.create_new_module_pass_manager()
        for name in passes:
            getattr(manager, f"add_{name}_pass")()
    began = time.process_time()
    manager.run(module, builder)
    between = time.process_time()
    code = target.emit_object(module)
    return code, between - began, time.process_time() - between


def entry_of(model: Any, tier: str, code: bytes) -> Any:
    """The model with this machine code."""
    from warpwright.native.tiered import TieredEntry

    entry = TieredEntry(model.py_func, "", model.sources)
    entry.parts = model.parts
    entry._take(tier, entry._callable(code))
    # An entry would look for the other tier on disk.
    entry._loaded = lambda call=entry._call: call  # type: ignore[method-assign, misc]
    return entry


def least_seconds(gpu: str, name: str, entries: dict[str, Any], turns: int) -> dict[str, float]:
    """The least CPU seconds of the model by each entry for a kernel, in turns; ends the program if cycles differ."""
    import warpwright as ww
    from warpwright.timing import windows

    case = kernel_set("corpus").case(name)
    kernel = ww.GPU(gpu, threads=1).compile(case.source, options=case.options)[case.kernel]
    cycles, least = set(), dict.fromkeys(entries, float("inf"))
    for turn in range(turns + 1):
        for which, entry in entries.items():
            windows.run_windows = entry
            run = kernel[case.grid, case.block, case.shared_bytes](*copy.deepcopy(case.args))
            assert run.timing is not None
            cycles.add(run.cycles)
            if turn:  # the first compiles the kernel
                least[which] = min(least[which], run.timing.cpu_seconds)
    if len(cycles) > 1:
        sys.exit(f"{name}: cycles differ")
    return least


def compare_passes(gpu: str, names: Sequence[str], turns: int) -> None:
    """Print a row for each of ``PASSES``."""
    from warpwright.native.direct import FULL
    from warpwright.timing import windows

    model = windows.run_windows
    text, entries, spent = model.translated(), {}, {}
    for row, how in PASSES.items():
        code, *spent[row] = coded(text, *how)
        entries[row] = entry_of(model, FULL, code)
    found = [least_seconds(gpu, name, entries, turns) for name in names]
    first = next(iter(PASSES))
    print(f"{'passes, level of code generation':44s} passes, s  code generation, s  model's time")
    for row, (optimising, generating) in spent.items():
        ratio = mean([least[row] / least[first] for least in found])
        print(f"{row:44s} {optimising:9.1f} {generating:19.1f} {ratio:13.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--passes", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.passes:
        compare_passes(arguments.gpu, arguments.names or FOUR, arguments.turns)
        return
    entries = compiled()
    ratios = []
    for name in arguments.names or KERNELS["corpus"]:
        quick, full = least_seconds(arguments.gpu, name, entries, arguments.turns).values()
        ratios.append(quick / full)
        print(f"{name:24s} quick {quick:.3f} s, full {full:.3f} s, ratio {quick / full:.2f}", flush=True)
    print(f"geometric mean of the ratios {mean(ratios):.2f}")


if __name__ == "__main__":
    main()

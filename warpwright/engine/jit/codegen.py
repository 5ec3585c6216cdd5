"""Compiles common operations to machine code: analysis, LLVM text, object code, cache.

Object code is kept on disk (``toolchain/cache.py``) under a key of everything that determines it: the
operations, the block shape, the options, this package's own source, llvmlite's version, the CPU and its features.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import llvmlite

from warpwright.engine.abi import SPILL_HEADER_BYTES, WARP
from warpwright.engine.blocks import BasicBlock, basic_blocks
from warpwright.engine.cancellation import check_cancelled
from warpwright.engine.clock_uses import judged
from warpwright.engine.constant_bank0 import bank0_layout
from warpwright.engine.jit import compiling_process, slow_path
from warpwright.engine.jit.checks import SITE_BYTES, finish_groups
from warpwright.engine.jit.code_tiers import SECONDS_PER_CHARACTER, Improvement
from warpwright.engine.jit.control import WarpFunction
from warpwright.engine.jit.flow import make_flow
from warpwright.engine.jit.flow_graph import Bits, Flow
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.host_machine import AVX512, Registers
from warpwright.engine.jit.lazy_compile import Layout, Whole, slow_path_blocks, without_joins
from warpwright.engine.jit.live_ranges import Webs, find_webs
from warpwright.engine.jit.object_code import Target, load_object, make_target, to_object
from warpwright.engine.jit.pair_fusion import widen
from warpwright.engine.jit.remainders import reachable, remainders
from warpwright.engine.jit.repeated_code import Repeats, forget, repeats_of
from warpwright.engine.jit.rowwise import row_length
from warpwright.engine.jit.shape_inference import Analysis, CodeForm, Setting, analyse
from warpwright.engine.jit.shared_library import Library, compiler_digest, object_cache, shared_library
from warpwright.engine.jit.stack import StackFunction
from warpwright.engine.jit.wave import WIDTHS
from warpwright.engine.lane_positions import SavedPositions
from warpwright.isa.ops import WARP_LANES, WARP_ONLY, Lowered
from warpwright.isa.program import Program
from warpwright.toolchain.cache import cache_key

BANK_0_KNOWN_BYTES = 0x160
"""Words of constant bank 0 that every launch provides, in addition to the parameters."""
MODULE_FOOTER = """
!0 = !{!"branch_weights", i32 2000, i32 1}
!1 = !{}
!2 = !{!"branch_weights", i32 1, i32 2000}
"""

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A forked child has no thread that would release LLVM's lock.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_memory: dict[str, CompiledKernel] = {}


@dataclass(slots=True)
class CompiledKernel:
    """Machine code of one kernel for one block shape."""

    name: str
    warp_function: int
    """Address of ``int32 f(WARP*)``; returns a :class:`~warpwright.engine.abi.Status`."""
    run_blocks: int
    """Address of ``int64 ww_run_blocks(LAUNCH*, workspace*, first_block, block_count)``."""
    spill_bytes: int
    """Size of each warp's save area (WARP.spill), zeroed before a launch and its header before each warp."""
    warp_bytes: int
    blocks: list[BasicBlock]
    block_shape: tuple[int, int, int]
    trace: bool
    lanes: int = 32
    site_bytes: int = 0
    """Size of the allocation caches, which the warps of one host thread may share."""
    trace_words: int = 0
    """Number of record words that the function may write beyond WARP.trace_limit."""
    saved_positions: SavedPositions = field(default_factory=SavedPositions, repr=False)
    """Where the groups of a stopped warp are stored."""
    judged: bool = False
    """Whether a recurring state means that the kernel never ends (``clock_uses.py``)."""
    ir: str = field(default="", repr=False)
    whole: Whole | None = field(default=None, repr=False)
    """Compiles the rest, if the function was generated without its slow paths."""
    improvement: Improvement | None = field(default=None, repr=False)
    """Replaces quickly generated code by optimised code; None if the code stays as it is."""
    idle: list[Any] = field(default_factory=list, repr=False)
    """Small workspaces of ended launches, kept for later ones (``jit/workspace.py``)."""


def known_banks(program: Program) -> dict[int, int]:
    """Bytes of each constant bank that every launch provides."""
    known = {n: len(data) for n, data in program.constant_banks.items()}
    end = program.parameter_base_bytes + program.parameter_size_bytes
    known[0] = max(known.get(0, 0), end, BANK_0_KNOWN_BYTES)
    return known


def _check_width(program: Program, lowered: Sequence[Lowered]) -> None:
    """Reject unsupported wave widths, and operations that are defined only for warps of 32 lanes."""
    if program.lanes not in WIDTHS:
        raise ValueError(f"kernel {program.name}: waves of {program.lanes} lanes; there are those of {WIDTHS}")
    if program.lanes == WARP_LANES:
        return
    for instruction, low in zip(program.instructions, lowered, strict=True):
        for op in low.ops:
            if op.name in WARP_ONLY:
                raise ValueError(
                    f"kernel {program.name}: {instruction.opcode} at {instruction.address:#x} uses {op.name}, "
                    f"which is defined for waves of {WARP_LANES} lanes, not of {program.lanes}"
                )


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """How a kernel's code is written, independent of the target."""

    trace: bool
    """Write trace records and stop before strong accesses and clock reads."""
    calls: slow_path.Calls
    """How slow paths are called."""
    registers: Registers = AVX512
    """Registers of the machine."""
    repeats: Repeats | None = None
    """The runs of which the program has only one copy."""


class LanesApartError(Exception):
    """The lanes of a warp may be in different copies of repeated code, which therefore cannot become a loop."""


def _check_copies(repeats: Repeats, flow: Flow, together: Sequence[Bits]) -> None:
    """Check that all lanes of a warp go from copy to copy together.

    Raises:
        LanesApartError: if they may not.
    """
    for end in repeats.ends:
        if together[end] and not flow.stacked and not repeats.ends_with_barrier(end):
            raise LanesApartError


def _analysed(
    program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock], setting: Setting
) -> tuple[Webs, Flow, Analysis]:
    """Variables, control flow and shapes; a launch can be cancelled between them."""
    check_cancelled()
    webs = find_webs(blocks, lowered, setting.lanes)
    check_cancelled()
    flow = make_flow(program, blocks, lowered, webs)
    check_cancelled()
    facts = analyse(blocks, lowered, webs, flow, setting)
    check_cancelled()
    return webs, flow, facts


def write_module(
    program: Program,
    lowered: Sequence[Lowered],
    blocks: Sequence[BasicBlock],
    setting: Setting,
    options: CodeOptions,
    name: str,
    leave_out: bool = False,
    layout: Layout | None = None,
) -> tuple[str, dict[str, Any]]:
    """LLVM text of a kernel and its sizes.

    Args:
        leave_out: omit slow paths and remainders, if there are any; the sizes then have a ``layout``.
        layout: layout of the function without them, for the whole function.  If only remainders are missing and
            warps never diverge, the whole function contains only code that can follow a remainder.
    """
    _check_width(program, lowered)
    lowered = widen(blocks, lowered)
    webs, flow, facts = _analysed(program, lowered, blocks, setting)
    if options.repeats is not None:
        _check_copies(options.repeats, flow, facts.together)
    rare = without_joins(slow_path_blocks(program, blocks, flow), flow, facts.divergent)
    writer = FunctionWriter(
        program=program,
        lowered=lowered,
        blocks=blocks,
        webs=webs,
        flow=flow,
        facts=facts,
        setting=setting,
        trace=options.trace,
        known_bank_bytes=known_banks(program),
        calls=options.calls,
        registers=options.registers,
        repeats=options.repeats,
        row_length=row_length(setting.block_shape, setting.lanes),
        lanes=setting.lanes,
        left_out=rare if leave_out else 0,
    )
    warp_function = StackFunction(writer, name) if flow.stacked else WarpFunction(writer, name)
    if (leave_out or layout is not None) and not warp_function.groups.exist and not flow.stacked:
        _leave_out_remainders(writer, remainders(flow, lowered), leave_out, rare)
    if layout is not None:
        layout.begin(writer)
    lines = warp_function.write()
    if writer.left_out and layout is None:
        layout = Layout.of(writer, lowered)
    assert layout is None or (writer.sites <= layout.most_sites and writer.offsets["end"] <= layout.most_bytes), name
    site_bytes = SITE_BYTES * (layout.most_sites if layout else writer.sites)
    variables = SPILL_HEADER_BYTES + (site_bytes + 63) // 64 * 64
    spill = variables + (layout.most_bytes if layout else writer.offsets.get("end", 0))
    sizes: dict[str, Any] = {"spill_bytes": (spill + 63) // 64 * 64, "site_bytes": site_bytes}
    if leave_out and layout:
        sizes["layout"] = layout.as_json()
    check_cancelled()
    return _module_text(writer, lines, variables), {**sizes, **_about(warp_function, variables)}


def _about(function: WarpFunction, variables: int) -> dict[str, Any]:
    """What is kept with a function's object code."""
    return {
        "is_large": function.storage.is_large,
        "trace_words": max(function.words_ahead, default=0),
        "calls": sorted(name for name in function.w.declared if name.startswith("ww_")),
        "saved_positions": asdict(function.saved_positions(variables)),
    }


def _leave_out_remainders(writer: FunctionWriter, rest: Bits, leave_out: bool, rare: Bits) -> None:
    """Omit remainders; or, in the whole function if only they are missing, omit all code that cannot follow one."""
    if leave_out:
        writer.left_out |= rest
    elif rest and not rare:
        writer.is_rest = True
        writer.left_out = (1 << len(writer.blocks)) - 1 & ~reachable(writer.flow, rest)


def _module_text(writer: FunctionWriter, lines: Sequence[str], variables: int) -> str:
    """The function with its constants and declarations; ``variables``: bytes before the save area's variable part."""
    text = re.sub(r"SAVE\+(\d+)", lambda m: str(variables + int(m.group(1))), "\n".join(lines))
    constants = list(writer.globals)
    if writer.accesses:
        entries = ", ".join(entry.text() for entry in writer.accesses)
        constants.append(
            f"@accesses = private unnamed_addr constant [{len(writer.accesses)} x {slow_path.Entry.TYPE}] [{entries}], align 8"
        )
    if "zeros" in writer.tables:
        constants.append("@zeros = private unnamed_addr constant [64 x i8] zeroinitializer, align 64")
    return finish_groups(writer, "\n".join([*constants, *writer.declared.values(), text, MODULE_FOOTER]))


def kernel_key(
    program: Program,
    lowered: Sequence[Lowered],
    setting: Setting,
    options: CodeOptions,
    target: Target,
) -> str:
    """Key of a kernel's object code."""
    code = "\n".join(
        f"{i.address} {i.opcode} {low.guard} {[*map(tuple, low.ops)]}"
        for i, low in zip(program.instructions, lowered, strict=True)
    )
    fixed = (
        *(program.code_base, program.arch, program.shared_static_bytes, sorted(known_banks(program).items())),
        *(setting.block_shape, setting.patterns, setting.grid_fits, setting.speculate, setting.clustered),
        *(setting.watched, setting.lanes, setting.any_length),
        *(options.trace, program.slow_paths, program.functions, sorted(program.taken)),
        *(options.repeats.runs if options.repeats is not None else ()),
    )
    tables = [data for bank, data in sorted(program.constant_banks.items()) if bank]
    return cache_key(
        [
            code,
            repr(fixed),
            *(bytes(t) for t in tables),
            compiler_digest(),
            llvmlite.__version__,
            target.cpu,
            target.features,
            repr((options.calls, options.registers)),
        ]
    )


QUICK = "-quick"
"""What follows the key of quickly generated code."""


@dataclass(frozen=True, slots=True)
class TargetChoice:
    """The machine that code is generated for; by default that of this process."""

    cpu: str | None = None
    """LLVM's name of the CPU; None for the one that WARPWRIGHT_CPU names, or the host's."""
    registers: Registers | None = None
    """Generate code as for a machine with these registers (for tests); any machine can run it."""
    ordinary_calls: bool = False
    """Use no inline assembly (to test the code for machines other than x86-64)."""


def setting_of(program: Program, block_shape: tuple[int, int, int], form: CodeForm) -> Setting:
    """The parameters of a compilation; arguments as for :func:`compile_kernel`."""
    layout = bank0_layout(program.arch)
    return Setting(
        block_shape=block_shape,
        patterns=form.patterns,
        grid_fits=form.grid_fits,
        speculate=form.patterns and form.speculate,
        clustered=form.clustered,
        any_length=form.any_length,
        watched=form.watched,
        lanes=program.lanes,
        block_dim_offset=layout.block_dim,
        grid_dim_offset=layout.grid_dim,
    )


def has_code(program: Program, lowered: Sequence[Lowered], setting: Setting, trace: bool) -> bool:
    """Whether the code is available in this process or on disk, so that :func:`compile_kernel` need not compile."""
    target = make_target()
    options = CodeOptions(trace, target.calls, target.registers)
    program, lowered, options = _shortened(program, lowered, setting, options)
    key = kernel_key(program, lowered, setting, options, target)
    return any(k in _memory or object_cache().path("object", k).is_file() for k in (key, key + QUICK))


def _shortened(
    program: Program, lowered: Sequence[Lowered], setting: Setting, options: CodeOptions
) -> tuple[Program, Sequence[Lowered], CodeOptions]:
    """The program, its operations and the options with one copy of repeated code, except for the checks."""
    repeats = None if setting.watched else repeats_of(program, lowered)
    return (
        (program, lowered, options)
        if repeats is None
        else (repeats.program, repeats.lowered, replace(options, repeats=repeats))
    )


def compile_kernel(
    program: Program,
    lowered: Sequence[Lowered],
    block_shape: tuple[int, int, int],
    *,
    trace: bool,
    form: CodeForm | None = None,
    target: TargetChoice | None = None,
    use_cache: bool = True,
    is_quick: bool = False,
) -> CompiledKernel:
    """Compile a kernel for one block shape.

    Args:
        lowered: one entry for each instruction of ``program``.
        block_shape: blockDim (x, y, z); the code is only right for launches with this shape, unless the ``form`` serves any length.
        trace: write trace records and stop before strong accesses and clock reads.
        form: what the code relies on and records, by default that of an ordinary launch.
        target: the machine, by default the host.
        use_cache: False always compiles anew.
        is_quick: generate code quickly; without tracing, its ``improvement`` generates optimised code, which is taken at once if it is on disk.

    Raises:
        ValueError: if the code cannot be compiled, naming the kernel.
    """
    setting, chosen = setting_of(program, block_shape, form or CodeForm()), target or TargetChoice()
    machine = make_target(chosen.cpu)
    calls = slow_path.ORDINARY if chosen.ordinary_calls else machine.calls
    plain = CodeOptions(trace, calls, chosen.registers or machine.registers)
    shared = shared_library(chosen.cpu, program.lanes)
    while True:
        code, operations, options = _shortened(program, lowered, setting, plain)
        check_cancelled()
        key = kernel_key(code, operations, setting, options, machine)
        with _lock:
            for known in (key, key + QUICK)[: 1 + is_quick] if use_cache else ():
                if known in _memory:
                    return _memory[known]
            blocks = basic_blocks(code, operations) if options.repeats is None else options.repeats.blocks
            compiler = _Compiler(
                code, operations, blocks, setting, options, machine, key if use_cache else "", is_quick
            )
            try:
                compiled = compiler.compile(f"warp_{key[:20]}", shared)
            except LanesApartError:
                forget(program, lowered)
                continue
            _memory[key + QUICK * is_quick] = compiled
            return compiled


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A function that can be called."""

    engine: Any
    text: str
    """Of its module; empty if it was on disk."""
    sizes: dict[str, Any]
    is_quick: bool
    """Whether its code was generated quickly."""


@dataclass(slots=True)
class _Compiler:
    """Compiles a kernel's function, and its whole form once a warp needs it."""

    program: Program
    lowered: Sequence[Lowered]
    blocks: list[BasicBlock]
    setting: Setting
    options: CodeOptions
    target: Target
    key: str
    """Key of the code on disk; if empty, the code is neither read nor stored."""
    is_quick: bool = False
    """Generate code quickly."""

    def compile(self, name: str, shared: Library) -> CompiledKernel:
        """Compile the kernel's function; without tracing, its rarely needed parts are omitted."""

        def compile_whole() -> int:
            with _lock:
                made = self.load("-whole", name, shared, layout=Layout.from_json(sizes["layout"]))
                compiled.saved_positions = SavedPositions(**made.sizes["saved_positions"])
            return int(made.engine.get_function_address(name))

        def improve() -> None:
            with _lock:
                self.is_quick = False
                better = self.load("", name, shared, leave_out=True, written=made).engine
            # Whoever compiles the whole function has its lock first.
            if compiled.whole is not None:
                compiled.whole.improve(better.get_global_value_address("whole"))
            compiled.warp_function = better.get_function_address(name)

        made = self.load("", name, shared, leave_out=not self.options.trace)
        engine, sizes = made.engine, made.sizes
        compiled = CompiledKernel(
            self.program.name,
            engine.get_function_address(name),
            shared.addresses["ww_run_blocks"],
            sizes["spill_bytes"],
            WARP.size_bytes,
            self.blocks if self.options.repeats is None else self.options.repeats.true_blocks,
            self.setting.block_shape,
            self.options.trace,
            self.setting.lanes,
            sizes["site_bytes"],
            sizes["trace_words"],
            SavedPositions(**sizes["saved_positions"]),
            judged(self.program, self.lowered, self.blocks),
            made.text,
            Whole(compile_whole, engine.get_global_value_address("whole")) if "layout" in sizes else None,
        )
        if made.is_quick and not self.options.trace:
            compiled.improvement = Improvement(improve, SECONDS_PER_CHARACTER * sizes["characters"])
        return compiled

    def load(
        self,
        part: str,
        name: str,
        shared: Library,
        leave_out: bool = False,
        layout: Layout | None = None,
        written: _Loaded | None = None,
    ) -> _Loaded:
        """The function, or one of its two forms, from disk or compiled.

        Args:
            written: the function as it was loaded before, from whose text, if it has one, the code is generated.

        Raises:
            ValueError: if LLVM rejects the code.
        """
        data, is_quick = self._kept(part)
        text = ""
        if data is not None:
            length = int.from_bytes(data[:8], "little")
            sizes = json.loads(data[8 : 8 + length])
            code = data[8 + length :]
        else:
            if written is not None and written.text:
                text, sizes = written.text, written.sizes
            else:
                text, sizes = write_module(
                    self.program, self.lowered, self.blocks, self.setting, self.options, name, leave_out, layout
                )
                sizes["characters"] = len(text)
            is_quick = self.is_quick and not sizes["is_large"]
            code = self._generated(text, sizes, part, is_quick)
        shared.link(sizes["calls"])
        return _Loaded(load_object(code, self.target), text, sizes, is_quick)

    def _generated(self, text: str, sizes: Mapping[str, Any], part: str, is_quick: bool) -> bytes:
        """Object code of a text, which is kept on disk; processes that need it at the same time, such as the ranks of a program, generate it once."""
        header = json.dumps(sizes).encode()
        header = len(header).to_bytes(8, "little") + header
        key = self.key + part + QUICK * is_quick

        def entry() -> bytes:
            try:
                return header + to_object(text, self.target, is_large=sizes["is_large"], is_quick=is_quick)
            except RuntimeError as reason:
                raise ValueError(f"kernel {self.program.name}: LLVM refuses the code made for it: {reason}") from reason

        if not self.key:
            return entry()[len(header) :]
        found = None
        if len(text) >= compiling_process.LONG_TEXT and self.target is make_target(None):
            # A long text is generated by another process if possible.
            found = compiling_process.generated_entry(object_cache(), text, key, header, sizes["is_large"], is_quick)
        return (found or object_cache().made("object", key, entry))[len(header) :]

    def _kept(self, part: str) -> tuple[bytes | None, bool]:
        """What is on disk of a function: optimised, or if that is enough, quickly generated (True)."""
        if not self.key:
            return None, False
        found = object_cache().get("object", self.key + part)
        if found is not None or not self.is_quick:
            return found, False
        return object_cache().get("object", self.key + part + QUICK), True

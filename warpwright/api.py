"""The public interface: a GPU, modules compiled for it, kernels and launches.

    gpu = GPU("a100")
    saxpy = gpu.compile(source)["saxpy"]
    run = saxpy[grid, block](n, 2.0, x, y)      # NumPy arrays are copied to the device and back
    run.cycles, run.seconds, run.bottleneck

A launch returns when the kernel has ended.  Ctrl-C during a launch stops it, raises ``KeyboardInterrupt`` and leaves
the GPU usable; host arrays are then not copied back.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright import html_tables
from warpwright.arrays import DeviceArray, Symbol
from warpwright.chips import Chip, Partition, load_chip
from warpwright.chips.chip import GENERATIONS
from warpwright.chips.chip import fields as chip_fields
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import (
    ExecutionError,
    KernelNotFoundError,
    LaunchError,
    MemoryOverrunWarning,
    UnsupportedError,
    WarpwrightError,
    whole_number,
)
from warpwright.isa.machine_code import FIRST_FERMI, FIRST_MAXWELL
from warpwright.messages import OncePerKernel
from warpwright.quantity_text import time_text
from warpwright.session import SavesLaunches, session
from warpwright.source_place import lines_of_text
from warpwright.timing import policies
from warpwright.toolchain import CompileError
from warpwright.toolchain import load as load_source
from warpwright.toolchain.compile import DEFAULT_NAME, DEFAULT_OPENCL_NAME, CompilerInput
from warpwright.tracebacks import without_own_frames

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from warpwright.engine.access_policy import AccessWindow
    from warpwright.engine.launch import LaunchTemplate
    from warpwright.engine.module import LoadedModule
    from warpwright.engine.ptx_module import PtxModule
    from warpwright.engine.r600_images import ClImage, ClSampler
    from warpwright.engines import JpegDecoder, OpticalFlow, Timeline, VideoDecoder
    from warpwright.faults import DeviceFaults
    from warpwright.images import CudaArray, Surface, Texture, TextureOptions
    from warpwright.run import Progress, Run
    from warpwright.timing.kept_caches import KeptCaches
    from warpwright.timing.timing_cache import Repeats
    from warpwright.tools.checks import Checker, Finding

DEFAULT_CHIP = "h200"
MEMORY_FAULTS = ("allocation", "page")
TIMINGS = ("full", "sampled", "off")
CACHES = ("cold", "kept")
ENGINES = ("compiled", "tiered", "interpreter")
FRONT_ENDS = ("sass", "ptx")
MAX_DEFAULT_THREADS = 8
MOST_LAUNCHERS = 64
"""Maximum number of configurations that a kernel keeps."""


def _front_end_of(chip: Chip, front_end: str | None, check: str | Sequence[str]) -> str:
    """The front end for a chip's programs: machine code, or PTX if no compiler exists; refuses options that early chips lack."""
    if front_end not in (None, *FRONT_ENDS):
        raise UnsupportedError(f"front_end={front_end!r} is not known; use front_end='sass' or front_end='ptx'")
    if chip.arch >= FIRST_MAXWELL:
        return front_end or "sass"
    own = "ptx" if chip.arch >= FIRST_FERMI else "sass"
    if front_end not in (None, own):
        runs = "PTX" if own == "ptx" else "machine code"
        raise UnsupportedError(f"{chip.name} runs {runs} only, not front_end={front_end!r}: omit front_end")
    if check:
        raise UnsupportedError(f"{chip.name} has no checks: omit check (--check), or check on a chip from p100 to h200")
    return own


def _chip_asked_for(chip: str | os.PathLike[str] | Chip | None, device: int | None) -> str | Chip:
    """The chip of ``--gpu``, which replaces a program's own but not a device's of the driver; otherwise the program's, or the default."""
    if session.chip is not None and device is None:
        if chip is not None and str(getattr(chip, "name", chip)) != session.chip:
            session.replaced.add(str(getattr(chip, "name", chip)))
        return session.chip
    if chip is None:
        return DEFAULT_CHIP
    return chip if isinstance(chip, str | Chip) else os.fspath(chip)


def _check_choices(timing: str, engine: str, threads: int | None, caches: str | None) -> None:
    """Refuse unknown values of :class:`GPU`'s arguments, and values that exclude each other."""
    if timing not in TIMINGS:
        raise UnsupportedError(f"timing={timing!r} is not known; use timing='full', timing='sampled' or timing='off'")
    if engine not in ENGINES:
        raise UnsupportedError(f"engine={engine!r} is not known; use engine='compiled', 'tiered' or 'interpreter'")
    if engine == "interpreter" and timing != "off":
        raise UnsupportedError("the interpreter has no timing; use timing='off' with engine='interpreter'")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise UnsupportedError(f"threads={threads!r}: must be a positive number of host threads, or None")
    if caches not in (None, *CACHES):
        raise UnsupportedError(f"caches={caches!r} is not known; use caches='cold' or caches='kept'")


def _warn_of_overrun(message: str) -> None:
    warnings.warn(message, MemoryOverrunWarning, stacklevel=1)


def _faults_by_page(memory_faults: str, check: str | Sequence[str]) -> bool:
    """Whether accesses fault by page; refuses unknown values, and checks, which report every access outside its allocation."""
    if memory_faults not in MEMORY_FAULTS:
        raise UnsupportedError(
            f"memory_faults={memory_faults!r} is not known; use memory_faults='allocation' or memory_faults='page'"
        )
    if memory_faults == "page" and check:
        raise UnsupportedError(
            "checks report every access outside its allocation: omit memory_faults='page', or the checks"
        )
    return memory_faults == "page"


def _memory_of(chip: Chip, options: GpuOptions, check: str | Sequence[str]) -> DeviceMemory:
    """A GPU's memory."""
    return DeviceMemory(
        chip.dram.dram_kib * 1024,
        unified=options.unified or options.device is not None,
        ordinal=options.device or 0,
        faults_by_page=_faults_by_page(session.memory_faults or options.memory_faults, check),
    )


def _early_loaders(arch: int) -> tuple[Callable[..., PtxModule], Callable[..., PtxModule]]:
    """The functions that load PTX text and a compiled module's PTX."""
    if arch in GENERATIONS.values():
        from warpwright.engine.r600_module import R600Module

        return R600Module.of_ptx, R600Module.of_compiled
    if arch < FIRST_FERMI:
        from warpwright.engine.nv50_module import Nv50Module

        return Nv50Module.of_ptx, Nv50Module.of_compiled
    from warpwright.engine.ptx_module import load_compiled, load_ptx

    return load_ptx, load_compiled


def _load_early(
    arch: int, memory: DeviceMemory, source: str | bytes | os.PathLike[str], given: CompilerInput, name: str | None
) -> PtxModule:
    """A module for a chip that NVRTC does not know: PTX, assembled kernel by kernel for compute capability 1.x, compiled for AMD's."""
    # Imported for these chips alone: NVRTC and the assemblers are not needed otherwise.
    from warpwright.engine.ptx_module import is_ptx
    from warpwright.toolchain.oldest_target import compile_to_ptx

    if arch in GENERATIONS.values():
        from warpwright.engine.r600_assembly import is_assembly, load_assembly

        if is_assembly(source):
            return load_assembly(str(source), arch, memory, name or "kernel.r600")
        from warpwright.engine.r600_opencl import is_opencl, load_opencl

        if is_opencl(source):
            return load_opencl(
                source,
                arch,
                memory,
                options=given.options,
                defines=given.defines,
                include_folders=given.include_folders,
                name=name,
            )
    load, load_compiled = _early_loaders(arch)
    if is_ptx(source) and not given.name_expressions:
        return load(str(source), arch, memory, name or "kernel.ptx")
    compiled = compile_to_ptx(source, arch, given, name=name)
    if compiled.ptx is None:
        raise UnsupportedError(f"{compiled.name} holds machine code of a later chip; give CUDA C++ or PTX")
    return load_compiled(compiled, arch, memory)


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """What few programs choose of a :class:`GPU`; each field is also a keyword of ``GPU``."""

    engine: str = "compiled"
    """``"compiled"`` (LLVM code for whole warps), ``"tiered"`` (the same, but small launches of a kernel without compiled code are
    interpreted; timing="off" only) or ``"interpreter"`` (the NumPy reference, timing="off" only: slow, and independent of the compiler)."""
    front_end: str | None = None
    """``"sass"`` runs machine code, ``"ptx"`` the PTX that it is made from, timed by a scoreboard.  The default is machine code, and PTX on
    ``gtx480``, for which there is no compiler."""
    scheduler: str | policies.Scheduler = policies.SCHEDULER.own
    """The warp scheduler: a name in ``timing.policies``, or a function of the same form."""
    l1_replacement: str | policies.Replacement = policies.L1_REPLACEMENT.own
    """L1's replacement policy: likewise."""
    check_level: str | None = None
    """Lowest level of findings that is reported: ``"info"``, ``"warning"`` (the default) or ``"error"``."""
    unified: bool = False
    """Device addresses equal host addresses, as unmodified CUDA programs expect of managed memory."""
    device: int | None = None
    """Number of the device in the drop-in driver, which selects its address range (with ``unified``) and its entry in ``--gpu``."""
    memory_faults: str = "allocation"
    """``"allocation"``: an access outside its allocation fails; ``"page"``: as on a card, it fails only if it leaves the mapped pages of 2 MiB, in which
    allocations are placed as a card's driver places them; otherwise a warning reports it.  ``warpwright run --memory-faults`` overrides it."""


def _options_and_overrides(options: GpuOptions | None, changes: Mapping[str, Any]) -> tuple[GpuOptions, dict[str, Any]]:
    """Split the keywords of :class:`GPU` into its options and values of chip numbers.

    Raises:
        TypeError: ``options`` is not a record, or a keyword is neither, but similar to one of ``GPU``.
    """
    if not isinstance(options, GpuOptions | None):
        raise TypeError(f"GPU(options=...) takes a ww.GpuOptions, not {options!r}")
    names = [field.name for field in fields(GpuOptions)]
    for name in changes:
        near = get_close_matches(name, ["timing", "threads", "check", "caches", *names], 1, 0.8)
        if name not in names and name not in chip_fields() and near:
            raise TypeError(f"GPU() has no argument {name!r}: did you mean {near[0]}?")
    given = {name: value for name, value in changes.items() if name in names}
    overrides = {name: value for name, value in changes.items() if name not in names}
    return replace(options or GpuOptions(), **given), overrides


SET_ASIDE_PARTS = 16
"""L2 is set aside in whole ways of its sets."""


class GPU:
    """A simulated GPU with its own memory.

    Args:
        chip: a chip's name (``"v100"``; see ``warpwright chips``), the path of a TOML file, or a :class:`Chip`.
            The default is the chip of ``warpwright run --gpu``, or ``h200``.
        timing: ``"full"`` times every instruction; ``"sampled"`` times a part of large grids and estimates the rest;
            ``"off"`` computes results only.  The default is full, and sampled for grids of 2**26 threads and more
            (``run.sampling`` is then set).
        threads: number of host threads; results and cycles do not depend on it.  The default is half of the cores (at most
            eight) with timing, and one without timing, where more threads help only kernels whose blocks do not synchronise.
        check: checks to run, as ``"racecheck,initcheck"`` or a sequence; ``"all"`` means those of compute-sanitizer
            (see ``tools/checks``); ``gpu.findings`` holds the findings.  Launches are then timed only with
            ``timing="full"`` or ``"sampled"``: each runs twice from the same state, first checked, then timed.
        caches: ``"cold"``: every timed launch begins with empty caches, as Nsight Compute measures by default; ``"kept"``: a launch
            finds in L2 what earlier launches, copies and fills have left.  The default is cold, and kept for the devices of
            unmodified programs; ``warpwright run --caches`` overrides both.  A sampled launch begins with cold caches and leaves them cold.
        options: what few programs choose, as a :class:`GpuOptions`.
        changes: fields of :class:`GpuOptions`, such as ``engine="interpreter"`` or ``scheduler="loose_round_robin"``, which replace those of
            ``options``, and what-if values of chip numbers by field name, such as ``l1_kib=192`` (see ``warpwright chips NAME``).

    Raises:
        ChipError: unknown chip or field, or a value out of range.
        UnsupportedError: a timing mode or check that the chip does not support.
    """

    def __init__(
        self,
        chip: str | os.PathLike[str] | Chip | None = None,
        *,
        timing: str | None = None,
        threads: int | None = None,
        check: str | Sequence[str] = (),
        caches: str | None = None,
        options: GpuOptions | None = None,
        **changes: Any,
    ) -> None:
        chosen, overrides = _options_and_overrides(options, changes)
        engine, device = chosen.engine, chosen.device
        named = _chip_asked_for(chip, device)
        check = session.check or check
        self.samples_large = not (session.timing or timing)
        """Timing was left to the simulator: it samples launches that would take minutes."""
        timing = session.timing or timing or ("off" if check else "full")
        caches = session.caches or caches
        _check_choices(timing, engine, threads, caches)
        self.chip = load_chip(named, **{**overrides, **session.overrides})
        self.timing = timing
        self.engine = engine
        self.front_end = _front_end_of(self.chip, chosen.front_end, check)
        threads = threads or session.threads
        self.functional_threads = threads or 1
        self.policies = policies.Policies.named(chosen.scheduler, chosen.l1_replacement)
        self.threads = threads or max(1, min((os.cpu_count() or 1) // 2, MAX_DEFAULT_THREADS))
        self.memory = _memory_of(self.chip, chosen, check)
        self.report_overrun = OncePerKernel(_warn_of_overrun)
        """Reports accesses outside all allocations that a card would not detect."""
        self.report_miscount = OncePerKernel()
        """Reports barriers with an invalid number of threads."""
        self.number = device or 0
        """Its number among the program's devices."""
        self.caches = caches or ("cold" if device is None else "kept")
        """Whether timed launches begin with empty caches or with the contents that earlier ones left."""
        self.kept_caches: KeptCaches | None = None
        """Contents of L2 between launches, if they are kept."""
        self.set_aside_bytes = self.chip.l2.l2_set_aside_default_kib << 10
        """Of L2, for persisting lines."""
        self.checker = self._checker(check, chosen.check_level)
        self.repeats: Repeats | None = None
        """Times of launches that unmodified programs repeat; launches of ``ww.GPU`` are always timed."""
        if self.timing != "off":
            self._remember(device)
        self.checkpoints: SavesLaunches | None = session.checkpoints
        """The file for checkpoints of running launches, and their interval; None: no checkpoints."""
        self.injected: DeviceFaults | None = None
        """The errors of the device, once they are asked for."""
        self._inject()
        self.on_output: Callable[[bytes], None] | None = None
        """Receives the output of kernels when their launch has ended; standard output if it is None."""
        self.launches: list[Run] = []
        """Every launch of this GPU, in order."""
        self.kept_kernels: dict[tuple[object, ...], Kernel] = {}
        """Kernels of this package that this GPU has used. They are kept because loading one again would wait for the code that is optimised in the background after its first launch."""
        self._timeline: Timeline | None = None
        self._jpeg: JpegDecoder | None = None

    def _inject(self) -> None:
        """Plan the errors of ``--inject``."""
        if session.inject is not None:
            from warpwright.faults import parse_injections

            self.faults.add(parse_injections(session.inject))
            session.devices_with_errors.append(self.faults)

    def _remember(self, device: int | None) -> None:
        """Create the objects that keep times, and contents of caches, between timed launches."""
        # Imported where there is timing: the cycle model is large.
        from warpwright.timing.kept_caches import KeptCaches
        from warpwright.timing.timing_cache import Repeats
        from warpwright.timing.unchanged_launches import UnchangedLaunches

        self.kept_caches = KeptCaches(self.chip.l1.l1_line_bytes) if self.caches == "kept" else None
        self.repeats = Repeats() if device is not None else None
        self.unchanged = UnchangedLaunches()
        """Launches of unmodified programs that leave memory as they find it."""

    def set_aside(self, size_bytes: int) -> int:
        """Set L2 aside for persisting lines, by whole sixteenths: ``cudaLimitPersistingL2CacheSize``. Returns the number of bytes set aside.

        Raises:
            UnsupportedError: more than the chip can set aside, which before compute capability 8.0 is nothing.
            TypeError: the size is not a whole number.
        """
        whole_number("set_aside(size_bytes)", size_bytes)
        most = self.chip.l2.l2_set_aside_max_kib << 10
        if not 0 <= size_bytes <= most:
            raise UnsupportedError(f"{self.chip.name} can set aside {most:,} bytes of L2, not {size_bytes:,}")
        unit = (self.chip.l2.l2_kib << 10) // SET_ASIDE_PARTS
        rounded = -(-size_bytes // unit) * unit
        if rounded != self.set_aside_bytes and self.kept_caches is not None:
            # Written lines may have less room than before.
            self.kept_caches.write_back()
        self.set_aside_bytes = rounded
        return rounded

    def reset_persisting_l2(self) -> None:
        """Have L2 treat every persisting line as a normal one: ``cudaCtxResetPersistingL2Cache``."""
        if self.kept_caches is not None:
            self.kept_caches.reset_persisting()

    def _checker(self, check: str | Sequence[str], level: str | None) -> Checker | None:
        if not check:
            return None
        # Imported when checks are asked for: they need the whole engine.
        from warpwright.tools.checks import DEFAULT_LEVEL, Checker

        if self.engine == "interpreter" or self.front_end != "sass":
            raise UnsupportedError("checks need engine='compiled' and front_end='sass'")
        checker = Checker(check, self.memory, level=session.check_level or level or DEFAULT_LEVEL)
        session.checkers.append(checker)
        return checker

    @property
    def faults(self) -> DeviceFaults:
        """Errors of the hardware: injected flips, ECC's counters, Xid messages, remapped rows and off-lined pages.

        Raises:
            UnsupportedError: with checks, or the interpreter as the engine.
        """
        if self.injected is None:
            # Imported when it is asked for: few programs ask.
            from warpwright.faults import DeviceFaults

            if self.checker is not None or self.engine == "interpreter" or self.chip.arch < FIRST_MAXWELL:
                raise UnsupportedError(
                    f"{self.chip.name}: errors can be injected on p100, v100, a100 and h200, with engine='compiled' and without checks"
                )
            self.injected = DeviceFaults(self.chip, self.memory)
        return self.injected

    @property
    def timeline(self) -> Timeline:
        """The simulated clock of the fixed-function engines and of concurrent kernels, which begins when it is first used."""
        if self._timeline is None:
            # Imported when it is asked for, as the engines are: few programs ask.
            from warpwright.engines import Timeline

            self._timeline = Timeline(self)
        return self._timeline

    @property
    def jpeg(self) -> JpegDecoder:
        """The JPEG engine: ``gpu.jpeg.decode([file, …])``.

        Raises:
            UnsupportedError: the chip has none, or Pillow is not installed (the extra ``engines``).
        """
        if self._jpeg is None:
            from warpwright.engines import JpegDecoder

            self._jpeg = JpegDecoder(self, self.timeline)
        return self._jpeg

    @cached_property
    def video(self) -> VideoDecoder:
        """The video decoders: ``gpu.video.decode(file)``.

        Raises:
            UnsupportedError: the chip has none.
        """
        # Imported when it is asked for: few programs ask.
        from warpwright.engines import VideoDecoder

        return VideoDecoder(self, self.timeline)

    @cached_property
    def optical_flow(self) -> OpticalFlow:
        """The optical flow accelerator: ``gpu.optical_flow.flow(first, second)``, ``gpu.optical_flow.disparity(left, right)``.

        Raises:
            UnsupportedError: the chip has none, or OpenCV is not installed (the extra ``engines``).
        """
        # Imported when it is asked for: few programs ask.
        from warpwright.engines import OpticalFlow

        return OpticalFlow(self, self.timeline)

    def check_alive(self, what: str) -> None:
        """Raise the error of a GPU that an earlier failure has ended; a GPU that is not shared stays usable after a failure.

        Args:
            what: what the caller is about to do or launch, for the message.
        """

    def launch_failed(self, error: ExecutionError) -> None:
        """Note that a launch on this GPU alone has failed."""

    def checks(self, name: str) -> bool:
        """True if the named check, such as ``"memcheck"``, is active for this GPU's launches."""
        return self.checker is not None and name in self.checker.checks

    @property
    def findings(self) -> list[Finding]:
        """The findings of the checks so far; empty without checks.  Printed, the list is the report of ``warpwright run --check``."""
        return self.checker.findings if self.checker is not None else []

    @property
    def name(self) -> str:
        """The chip's name."""
        return self.chip.name

    # --- programs ---------------------------------------------------------------------------------
    def compile(
        self,
        source: str | bytes | os.PathLike[str],
        *,
        options: Sequence[str] = (),
        defines: Mapping[str, str | int | None] | None = None,
        include_folders: Sequence[str | Path] = (),
        name_expressions: Sequence[str] = (),
        name: str | None = None,
    ) -> Module:
        """Compile CUDA C++ text, PTX text, a cubin's bytes, or a file with one of them for this chip; AMD's chips also take OpenCL C.

        Args:
            options: options of NVRTC, such as ``"-use_fast_math"`` or ``"-maxrregcount=32"``.
            defines: preprocessor macros.
            include_folders: folders that are searched for ``#include``.
            name_expressions: C++ names of template kernels to instantiate, such as ``"saxpy<float>"``; the module lists
                each kernel under its expression.
            name: the source's name in messages.

        Raises:
            CompileError, LinkError: the source has errors; the message has the log, the line and a caret.
            CubinError: name expressions were given for code that is already compiled.
            ArchitectureError: the cubin is for another architecture.
            SourceNotFoundError: the path cannot be read (a ``FileNotFoundError``).
        """
        try:
            given = CompilerInput(options, defines, include_folders, name_expressions)
            return self._compiled(source, given, name)
        except WarpwrightError as error:
            told = error
            if name is None and isinstance(source, str) and isinstance(error, CompileError):
                told = error.placed((DEFAULT_NAME, DEFAULT_OPENCL_NAME), lines_of_text(source)).with_traceback(
                    error.__traceback__
                )
            raise without_own_frames(told) from error.__cause__

    def _compiled(
        self,
        source: str | bytes | os.PathLike[str],
        given: CompilerInput,
        name: str | None,
    ) -> Module:
        """What :meth:`compile` returns."""
        if self.chip.arch < FIRST_MAXWELL:
            return Module(self, _load_early(self.chip.arch, self.memory, source, given, name))
        if self.front_end == "ptx":
            from warpwright.engine.ptx_module import is_ptx, load_ptx

            if is_ptx(source) and not given.name_expressions:
                return Module(self, load_ptx(str(source), self.chip.arch, self.memory, name or "kernel.ptx"))
        compiled = load_source(source, self.chip.arch, given, name=name, chip=self.chip.name)
        if name is None and isinstance(source, str) and compiled.source == source:
            compiled.text_lines = lines_of_text(source)
        if self.front_end == "ptx":
            from warpwright.engine.ptx_module import load_compiled

            return Module(self, load_compiled(compiled, self.chip.arch, self.memory))
        # Loading a module decodes it, which a program that only compiles has no need of.
        from warpwright.engine.module import load_module

        return Module(self, load_module(compiled, self.memory))

    # --- memory -----------------------------------------------------------------------------------
    def array(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None, name: str = "") -> DeviceArray:
        """Return a device array with a copy of ``values``; ``name`` identifies it in fault messages."""
        host = np.asarray(values, dtype=dtype)
        made = DeviceArray(self.memory, host.shape, host.dtype.newbyteorder("="), name)
        made.set(host)
        return made

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32, name: str = "") -> DeviceArray:
        """Return a device array with unspecified contents (in fact zeros)."""
        sizes = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(s) for s in shape)
        return DeviceArray(self.memory, sizes, np.dtype(dtype), name)

    def zeros(self, shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32, name: str = "") -> DeviceArray:
        """Return a device array of zeros."""
        made = self.empty(shape, dtype, name)
        made.numpy()[...] = 0
        return made

    # --- textures and surfaces ----------------------------------------------------------------------
    def cuda_array(
        self,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike = np.float32,
        *,
        channels: int = 1,
        layered: bool = False,
        cube: bool = False,
        levels: int = 1,
        name: str = "",
    ) -> CudaArray:
        """Return a CUDA array (``cudaMalloc3DArray``), which textures and surfaces read.

        Args:
            shape: (width,), (height, width) or (depth, height, width), without the channels.  With ``layered`` the layers come
                first, with ``cube`` the six faces (of each layer).
            dtype: type of a channel: 8, 16 or 32-bit integers, float16 or float32.
            channels: 1, 2 or 4.
            levels: number of mipmap levels; each is half the size of the previous one.

        Raises:
            ArgumentError: the sizes or elements are not those of any CUDA array.
        """
        from warpwright.images import ArrayForm, CudaArray

        sizes = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(s) for s in shape)
        form = ArrayForm(sizes, np.dtype(dtype), channels, layered, cube, levels)
        return CudaArray(self.memory, form, name)

    def texture(self, source: CudaArray | DeviceArray, **options: Unpack[TextureOptions]) -> Texture:
        """Return a texture object (``cudaCreateTextureObject``), which can be passed to kernels: ``gpu.texture(array, filter="linear")``.

        Args:
            source: a CUDA array, or a device array: linear memory for ``tex1Dfetch``, or with ``pitched`` the rows of an image.
            options: any of these keywords:

                - ``address``: addressing mode, ``"wrap"``, ``"clamp"`` (the default), ``"mirror"`` or ``"border"``, for all axes or per axis.
                - ``border``: the colour outside the texture, up to four channels (default zeros).
                - ``filter``: ``"point"`` (the default) or ``"linear"``.
                - ``mip_filter``: likewise, between levels; ``bias`` is added to the level, and ``level_limits`` are the lowest and the
                  highest level (default: all levels).
                - ``normalized``: coordinates range from 0 to 1.
                - ``read``: ``"element"`` or ``"normalized"`` (integers of 8 and 16 bits become floats).  The default is elements, or
                  normalised if the filter is linear.
                - ``srgb``: texels are converted from sRGB.
                - ``seamless``: a cube is filtered across its edges.
                - ``channels``: number of channels of a device array's elements (default 1).
                - ``pitched``: a device array holds the rows of an image.

        Raises:
            ArgumentError: the combination is not a valid texture.
            TypeError: a keyword is not one of these.
            UnsupportedError: the texture needs a feature that is not supported.
        """
        from warpwright.images import make_texture

        return make_texture(self.memory, source, options)

    def surface(self, array: CudaArray) -> Surface:
        """Return a surface object (``cudaCreateSurfaceObject``) on a CUDA array, through which kernels can also write."""
        from warpwright.images import Surface

        return Surface(array)

    # --- images of OpenCL C -------------------------------------------------------------------------
    def image(
        self,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike = np.float32,
        *,
        order: str = "RGBA",
        normalized: bool = False,
        layered: bool = False,
        levels: int = 1,
        name: str = "",
    ) -> ClImage:
        """Return an image (``clCreateImage``) for kernels of OpenCL C on AMD's chips; ``set`` and ``get`` copy its texels.

        Args:
            shape: (width,), (height, width) or (depth, height, width); with ``layered`` the layers come first.
            dtype: type of a channel: 8, 16 or 32-bit integers, float16 or float32.
            order: channels in memory: ``"R"``, ``"RG"``, ``"RGBA"``, ``"BGRA"``, ``"ARGB"``, ``"A"``, ``"RA"``, ``"INTENSITY"`` or ``"LUMINANCE"``.
            normalized: integers of 8 and 16 bits are fractions of the largest one: ``CL_UNORM_INT8`` and the like.
            levels: number of mipmap levels, each half the size of the one before; ``image.level(n)`` is one level as an image.

        Raises:
            ArgumentError: no image has such sizes or elements.
            UnsupportedError: the chip is none of AMD's.
        """
        from warpwright.engine.r600_images import ClImage, ImageForm

        self._needs_opencl("image")
        sizes = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(s) for s in shape)
        return ClImage(self.memory, ImageForm(sizes, np.dtype(dtype), order, normalized, layered, levels), name)

    def image_buffer(
        self,
        texels: int | DeviceArray,
        dtype: npt.DTypeLike | None = None,
        *,
        order: str = "RGBA",
        normalized: bool = False,
        name: str = "",
    ) -> ClImage:
        """Return a texel buffer for a parameter of type ``image1d_buffer_t``.

        Args:
            texels: their number, or an array whose memory they share.
            dtype: type of a channel; by default that of the array, or float32.
            order, normalized: as for :meth:`image`.

        Raises:
            ArgumentError: no image has such elements, or the array holds no texel.
            UnsupportedError: the chip is none of AMD's.
        """
        from warpwright.engine.r600_images import ClImage, ImageForm

        self._needs_opencl("image_buffer")
        if not isinstance(texels, DeviceArray):
            form = ImageForm((int(texels),), np.dtype(dtype or np.float32), order, normalized, buffer=True)
            return ClImage(self.memory, form, name)
        form = ImageForm((0,), np.dtype(dtype or texels.dtype), order, normalized, buffer=True)
        form.check_elements()
        count = texels.nbytes // form.texel_bytes
        return ClImage(texels.memory, replace(form, shape=(count,)), name, (texels, texels.allocation, 0))

    def sampler(
        self,
        filter: str = "nearest",
        address: str = "clamp_to_edge",
        *,
        normalized: bool = False,
        mip: str = "nearest",
    ) -> ClSampler:
        """Return a sampler (``clCreateSampler``), for a parameter ``sampler_t``.

        Args:
            filter: ``"nearest"`` or ``"linear"``.
            address: ``"none"``, ``"clamp_to_edge"``, ``"clamp"`` (the border's colour), ``"repeat"`` or ``"mirrored_repeat"``.
            normalized: coordinates range from 0 to 1; otherwise they are in texels.
            mip: for reads with a level or gradients: ``"nearest"`` level, or ``"linear"`` interpolation between two.

        Raises:
            ArgumentError: there is no such sampler.
            UnsupportedError: the chip is none of AMD's.
        """
        from warpwright.engine.r600_images import make_sampler

        self._needs_opencl("sampler")
        return make_sampler(filter, address, normalized, mip)

    def _needs_opencl(self, what: str) -> None:
        if self.chip.arch not in GENERATIONS.values():
            raise UnsupportedError(
                f"{self.chip.name}: gpu.{what}(...) is for OpenCL C on hd5870 and hd6970; CUDA has gpu.cuda_array, gpu.texture and gpu.surface"
            )

    def tensor_map(
        self,
        array: DeviceArray,
        box: Sequence[int],
        *,
        swizzle: int = 0,
        element_strides: Sequence[int] | None = None,
        fill: str = "zeros",
    ) -> bytes:
        """Return the tensor map of an array, for a parameter ``const __grid_constant__ CUtensorMap``.

        Args:
            array: a C-contiguous array of one to five dimensions; dimension 0 of the map is the last of the array.
            box: number of elements that one copy moves, per dimension of the array.
            swizzle: bytes of the span within which chunks of 16 bytes are permuted: 0, 32, 64 or 128.
            element_strides: steps between elements, per dimension of the array.
            fill: value of elements outside the array, ``"zeros"`` or ``"nan"``.

        Raises:
            ArgumentError: no tensor map can describe the array, box or swizzle.
        """
        from warpwright.engine.tensor_map import describe

        return describe(array.device_address(), array.shape, array.dtype, box, swizzle, element_strides, fill)

    def synchronize(self) -> None:
        """Return at once: launches end before they return, so there is nothing to wait for."""

    def _repr_html_(self) -> str:
        headings = ("launch", "grid", "block", "cycles", "time", "instructions")
        rows = [
            (
                run.kernel,
                f"{run.grid}",
                f"{run.block}",
                f"{run.cycles:,}" if run.timed else "",
                time_text(run.seconds) if run.timed else "",
                f"{run.instructions:,}",
            )
            for run in self.launches
        ]
        return html_tables.table(f"{self!r}: {len(rows):,} launches", rows, headings if rows else ())

    def __repr__(self) -> str:
        return f"<GPU {self.chip.name} ({self.chip.identity.product}), timing {self.timing}>"


class Module:
    """Compiled code on a GPU: its kernels and global variables by name."""

    def __init__(self, gpu: GPU, loaded: LoadedModule | PtxModule) -> None:
        self.gpu = gpu
        self._loaded = loaded
        self._kernels: dict[str, Kernel] = {}

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, sorted."""
        return self._loaded.kernel_names()

    @property
    def ptx(self) -> str | None:
        """PTX text, if the module was made from CUDA C++ or PTX."""
        return self._loaded.compiled.ptx

    @property
    def cubin(self) -> bytes:
        """The machine code as an ELF file."""
        return self._loaded.compiled.cubin

    def machine_code(self, name: str) -> bytes:
        """The machine words of one kernel, as this GPU runs them.

        Raises:
            KernelNotFoundError: there is no such kernel; the message lists the kernels.
            UnsupportedError: the kernel has no machine code of its own here; ``cubin`` holds the module's.
        """
        from warpwright.engine.machine_code_module import MachineCodeModule

        kernel = self._loaded.find(name)
        if not isinstance(self._loaded, MachineCodeModule):
            raise UnsupportedError(f"{self._loaded.compiled.name}: the code of its kernels is in .cubin")
        self._loaded.load(kernel)
        return self._loaded.machine_code[kernel.name]

    @property
    def warnings(self) -> list[str]:
        """The compiler's warnings."""
        return [str(w) for w in self._loaded.compiled.warnings]

    def __getitem__(self, name: str) -> Kernel:
        """The kernel called ``name``.

        Raises:
            KernelNotFoundError: lists the kernels there are.
        """
        symbol = self._loaded.find(name).name
        if symbol not in self._kernels:
            self._kernels[symbol] = Kernel(self, symbol)
        return self._kernels[symbol]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self._loaded.find(name)
        except KernelNotFoundError:
            return False
        return True

    def symbol(self, name: str) -> Symbol:
        """The global or ``__constant__`` variable called ``name``: ``.set(values)``, ``.get(dtype)``.

        Raises:
            KernelNotFoundError: there is no such variable; the message lists the variables.
        """
        return Symbol(self.gpu.memory, self._loaded.place(name), name)

    def __repr__(self) -> str:
        return f"<module {self._loaded.compiled.name} for {self.gpu.name}: {', '.join(self.kernels) or 'no kernels'}>"


def _is_simple(configuration: Any) -> bool:
    """Whether a launch's configuration consists only of int and tuples of int, so that equality identifies it."""
    if type(configuration) is not tuple or not 2 <= len(configuration) <= 3:
        return False
    for part in configuration:
        kind = type(part)
        if kind is not int and (kind is not tuple or any(type(extent) is not int for extent in part)):
            return False
    return True


class Kernel:
    """A kernel; ``kernel[grid, block](arguments)`` launches it."""

    def __init__(self, module: Module, symbol: str) -> None:
        from warpwright.engine.arguments import describe_parameters

        self.module = module
        self.gpu = module.gpu
        loaded = module._loaded
        self._loaded_module = loaded
        self._loaded = loaded.load(loaded.compiled.kernels[symbol])
        self.name = self._loaded.kernel.plain_name
        self.parameters = describe_parameters(self._loaded.program, loaded.compiled.source, loaded.compiled.ptx)
        self._launchers: dict[Any, Launcher] = {}
        """By grid, block and dynamic shared memory: checking them takes as long as an empty launch."""

    @property
    def registers(self) -> int:
        """Number of registers per thread."""
        return self._loaded.program.registers

    @property
    def shared_bytes(self) -> int:
        """Static shared memory per block, in bytes."""
        return self._loaded.program.shared_static_bytes - self._loaded.kernel.shared_reserved_bytes

    @property
    def local_bytes(self) -> int:
        """Local memory (stack) per thread, in bytes."""
        return self._loaded.program.local_bytes_per_thread

    def __getitem__(self, configuration: Any) -> Launcher:
        """``kernel[grid, block]``, ``kernel[grid, block, dynamic shared bytes]`` or with a stream as the last item.

        Grid and block are an int or up to three of them.  Launches run one after the other, in the order they
        are made, whatever their stream.

        Raises:
            LaunchError: when the configuration is not of that form or does not fit the chip.
        """
        simple = _is_simple(configuration)
        known = self._launchers.get(configuration) if simple else None
        if known is not None:
            return known
        made = Launcher(self, *self._configured(configuration))
        if simple:
            if len(self._launchers) >= MOST_LAUNCHERS:
                self._launchers.clear()
            self._launchers[configuration] = made
        return made

    def _configured(self, configuration: Any) -> tuple[Any, Any, Any]:
        """Grid, block, dynamic shared bytes."""
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(parts) <= 4:
            raise LaunchError(
                f"{self.name}[...] takes grid and block, then optionally dynamic shared bytes and a stream, "
                f"not {len(parts)} value{'' if len(parts) == 1 else 's'}"
            )
        return parts[0], parts[1], parts[2] if len(parts) > 2 else 0

    def clustered(self, cluster: int | Sequence[int]) -> ClusteredKernel:
        """The kernel launched in clusters of blocks: ``kernel.clustered((2, 1, 1))[grid, block](…)``.

        Args:
            cluster: blocks per axis, which replace those of ``__cluster_dims__``.
        """
        from warpwright.engine.launch import as_dim3

        return ClusteredKernel(self, as_dim3(cluster, "cluster"))

    def __call__(self, *arguments: Any) -> Run:
        raise LaunchError(f"give {self.name} a grid and a block: {self.name}[grid, block](...)")

    def __repr__(self) -> str:
        takes = ", ".join(f"{p.declared or p.wanted} {p.name}".strip().replace(" * ", " *") for p in self.parameters)
        return f"<kernel {self.name}({takes}), {self.registers} registers>"


class ClusteredKernel:
    """A kernel with the shape of its clusters; ``[grid, block]`` is that of a :class:`Kernel`."""

    def __init__(self, kernel: Kernel, cluster: tuple[int, int, int]) -> None:
        self.kernel = kernel
        self.cluster = cluster

    def __getitem__(self, configuration: Any) -> Launcher:
        """A launcher, as :meth:`Kernel.__getitem__` makes it.

        Raises:
            LaunchError: also when the clusters do not divide the grid or do not fit the chip.
        """
        return Launcher(self.kernel, *self.kernel._configured(configuration), self.cluster)


class Launcher:
    """A kernel with its grid and block, ready to be called.

    Args:
        partition: the SMs that run its blocks; the default is all SMs.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Any,
        block: Any,
        shared: Any,
        cluster: tuple[int, int, int] | None = None,
        partition: Partition | None = None,
    ) -> None:
        from warpwright.engine.launch import Geometry, as_dim3, check_geometry

        self.kernel = kernel
        self.partition = partition
        self.chip = kernel.gpu.chip if partition is None else partition.chip
        try:
            dynamic = int(shared)
        except (TypeError, ValueError):
            raise LaunchError(f"{kernel.name}: dynamic shared memory is a number of bytes, not {shared!r}") from None
        self.geometry = Geometry(
            as_dim3(grid, "grid"),
            as_dim3(block, "block"),
            dynamic,
            kernel._loaded.kernel.shared_reserved_bytes,
            cluster or kernel._loaded.kernel.cluster,
            kernel._loaded.program.lanes,
        )
        self.resident = check_geometry(kernel._loaded.program, self.geometry, self.chip, kernel.name)
        self.window: AccessWindow | None = None
        self._prepared: tuple[tuple[int, int], bytes, LaunchTemplate] | None = None

    def with_window(self, window: AccessWindow | None) -> Launcher:
        """The same launch with an access-policy window: ``kernel[grid, block].with_window(ww.AccessWindow(...))(...)``."""
        from warpwright.engine.access_policy import AccessWindow

        if window is not None and not isinstance(window, AccessWindow):
            raise TypeError(f"with_window() takes a ww.AccessWindow or None, not {window!r}")
        made = copy(self)
        made.window = window
        return made

    def bound(self, arguments: Sequence[Any]) -> tuple[Launcher, Sequence[Any]]:
        """The launcher for a launch's arguments, and the arguments to pack: images of OpenCL C decide what a kernel's fetches do."""
        kernel = self.kernel
        loaded, words = kernel._loaded_module.bound(kernel._loaded, arguments, self.geometry.dynamic_shared_bytes)
        if loaded is kernel._loaded:
            return self, words
        made, made.kernel = copy(self), copy(kernel)
        made.kernel._loaded, made.kernel._launchers = loaded, {}
        made._prepared = None
        made.__dict__.pop("metrics", None)
        return made, words

    def prepared(self, constant_window: int, parameter_bytes: int) -> tuple[bytes, LaunchTemplate]:
        """Return what launches share: constant bank 0 without arguments, and the launch template. The first launch builds them.

        Args:
            constant_window: device address of bank 3.
            parameter_bytes: size of the arguments in bytes.
        """
        key = constant_window, parameter_bytes
        known = self._prepared
        if known is None or known[0] != key:
            from warpwright.engine.launch import LaunchTemplate, constant_bank0

            loaded, gpu = self.kernel._loaded, self.kernel.gpu
            sm_count = gpu.chip.sm.sm_count
            sms = self.partition.sms if self.partition is not None else None
            bank0 = constant_bank0(
                *(loaded.program, self.geometry, bytes(parameter_bytes)),
                constant_window=constant_window,
                sm_count=sm_count,
            )
            template = LaunchTemplate(loaded.program, self.geometry, gpu.memory, loaded.banks, sm_count, sms)
            known = self._prepared = key, bytes(bank0), template
        return known[1], known[2]

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metrics that are known before a launch runs, by Nsight Compute's names."""
        geometry, program = self.geometry, self.kernel._loaded.program
        threads = geometry.blocks * geometry.threads_per_block
        return {
            "launch__block_size": geometry.threads_per_block,
            "launch__grid_size": geometry.blocks,
            "launch__registers_per_thread": program.registers,
            "launch__shared_mem_per_block_static": self.kernel.shared_bytes,
            "launch__shared_mem_per_block_dynamic": geometry.dynamic_shared_bytes,
            "launch__thread_count": threads,
            "launch__waves_per_multiprocessor": geometry.blocks / (self.resident.blocks_per_sm * self.chip.sm.sm_count),
            "sm__maximum_warps_per_active_cycle_pct": 100.0 * self.resident.fraction,
        }

    def __repr__(self) -> str:
        shape, shared = self.geometry, self.geometry.dynamic_shared_bytes
        dynamic = f", {shared:,} bytes of dynamic shared memory" if shared else ""
        return f"<launcher of {self.kernel.name}, grid {shape.grid}, block {shape.block}{dynamic}: call it with the arguments>"

    def progress_line(self) -> Callable[[Progress], None] | None:
        """The display of a long launch's progress: a bar on a terminal, a line every few seconds elsewhere."""
        from warpwright.tools.progress import ProgressLine, log

        return ProgressLine() if sys.stderr.isatty() else log

    def __call__(self, *arguments: Any) -> Run:
        """Run the kernel; arguments are described at :func:`warpwright.engine.arguments.pack`."""
        from warpwright.run_launch import launch

        gpu = self.kernel.gpu
        try:
            gpu.check_alive(self.kernel.name)
            run = launch(self, arguments)
        except (WarpwrightError, KeyboardInterrupt) as error:
            if isinstance(error, ExecutionError):
                gpu.launch_failed(error)
            raise without_own_frames(error) from error.__cause__
        gpu.launches.append(run)
        if session.on_launch is not None:
            session.on_launch(run)
        return run

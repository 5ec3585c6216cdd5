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
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright import html_tables
from warpwright.arrays import DeviceArray
from warpwright.chips import Chip, load_chip
from warpwright.chips.chip import GENERATIONS
from warpwright.early_programs import load_early
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import ExecutionError, MemoryOverrunWarning, UnsupportedError, WarpwrightError, whole_number
from warpwright.gpu_options import (
    GpuOptions,
    check_choices,
    chip_asked_for,
    faults_by_page,
    front_end_of,
    options_and_overrides,
)
from warpwright.isa.machine_code import FIRST_MAXWELL
from warpwright.kernel import Kernel, Module
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

    from warpwright.engine.r600_images import ClImage, ClSampler
    from warpwright.engines import JpegDecoder, OpticalFlow, Timeline, VideoDecoder
    from warpwright.faults import DeviceFaults
    from warpwright.images import CudaArray, Surface, Texture, TextureOptions
    from warpwright.run import Run
    from warpwright.timing.kept_caches import KeptCaches
    from warpwright.timing.timing_cache import Repeats
    from warpwright.tools.checks import Checker, Finding

MAX_DEFAULT_THREADS = 8
SET_ASIDE_PARTS = 16
"""L2 is set aside in whole ways of its sets."""


def _warn_of_overrun(message: str) -> None:
    warnings.warn(message, MemoryOverrunWarning, stacklevel=1)


def _memory_of(chip: Chip, options: GpuOptions, check: str | Sequence[str]) -> DeviceMemory:
    """A GPU's memory."""
    return DeviceMemory(
        chip.dram.dram_kib * 1024,
        unified=options.unified or options.device is not None,
        ordinal=options.device or 0,
        faults_by_page=faults_by_page(session.memory_faults or options.memory_faults, check),
    )


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
        chosen, overrides = options_and_overrides(options, changes)
        engine, device = chosen.engine, chosen.device
        named = chip_asked_for(chip, device)
        check = session.check or check
        self.samples_large = not (session.timing or timing)
        """Timing was left to the simulator: it samples launches that would take minutes."""
        timing = session.timing or timing or ("off" if check else "full")
        caches = session.caches or caches
        check_choices(timing, engine, threads, caches)
        self.chip = load_chip(named, **{**overrides, **session.overrides})
        self.timing = timing
        self.engine = engine
        self.front_end = front_end_of(self.chip, chosen.front_end, check)
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
            ValueError: it is negative.
        """
        whole_number("set_aside(size_bytes)", size_bytes)
        most = self.chip.l2.l2_set_aside_max_kib << 10
        if size_bytes < 0:
            raise ValueError(
                f"set_aside({size_bytes:,}): the number of bytes must be 0 to {most:,} on {self.chip.name}"
            )
        if size_bytes > most:
            raise UnsupportedError(
                f"set_aside({size_bytes:,}): {self.chip.name} can set aside at most {most:,} bytes of L2"
            )
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
            return Module(self, load_early(self.chip.arch, self.memory, source, given, name))
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
            order: as for :meth:`image`.
            normalized: as for :meth:`image`.

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

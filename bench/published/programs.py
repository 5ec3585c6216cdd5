"""Whole programs of the publications: where their source is, how it is built, and with which arguments it ran.

The host's part is compiled by nvcc for PTX of 7.5, the oldest that nvcc 13 makes; the product assembles that for the
chip (sm_70, sm_80) with CUDA 12.9's assembler.  The publications' compilers were CUDA 9.1 to 11.0: registers and the
order of instructions differ from theirs.  Options of their assembler (``-dlcm=cg`` of some microbenchmarks) are lost on
the way; those kernels name their caching themselves.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.published import inputs
from bench.published.rows import Row, card_file
from warpwright.driver import attach, launch_records
from warpwright.run import Run

REPOSITORIES = {
    "sdk": "github.com/gpgpu-sim/gpgpu-sim_simulations: benchmarks/src/cuda/sdk/4.2, its headers replaced by bench/published/shim",
    "apps": "github.com/accel-sim/gpu-app-collection: src/cuda",
    "samples": "github.com/NVIDIA/cuda-samples at v13.0: Samples",
}
FOLDERS = {
    "sdk": "gpgpu-sim_simulations/benchmarks/src/cuda/sdk/4.2",
    "apps": "gpu-app-collection/src/cuda",
    "samples": "cuda-samples/Samples",
}
"""Places below the folder of checkouts."""
SHIM = Path(__file__).resolve().parent / "shim"
OLD = ("-DcudaThreadSynchronize=cudaDeviceSynchronize", "-DcudaThreadExit=cudaDeviceReset")
"""Names that CUDA 13 no longer has."""


class NotBuiltError(Exception):
    """A program's source is not there or does not compile; the message is the compiler's first line."""


@dataclass(frozen=True)
class Program:
    """How one program is built."""

    repository: str
    folder: str
    sources: tuple[str, ...] = ()
    """Beside ``folder``; empty: every source there but files that others include."""
    options: tuple[str, ...] = ("-O3",)
    plain_c: tuple[str, ...] = ()
    """Sources in C of before 1999, compiled by gcc."""


@dataclass(frozen=True)
class Launch:
    """How a row's program ran."""

    program: str
    arguments: str = ""
    """``{in}`` is the folder of its input files."""
    writes: Callable[[Path], None] | None = None
    """Writes its input files."""
    kernel: str = ""
    """The kernel whose launches are averaged; if empty, the sum of all launches is taken."""
    timing: str | None = None
    inside: str = ""
    """Folder below that of the inputs in which the program runs."""


def _polybench(name: str, file: str) -> Program:
    return Program("apps", f"polybench-gpu-1.0/CUDA/{name}", (f"{file}.cu",), ("-O3", *OLD))


def _rodinia(name: str, *sources: str, options: tuple[str, ...] = (), plain_c: tuple[str, ...] = ()) -> Program:
    return Program("apps", f"rodinia/3.1/cuda/{name}", sources, ("-O3", "-I.", *OLD, *options), plain_c)


def _parboil(name: str, *sources: str, options: tuple[str, ...] = ()) -> Program:
    common = "../../../../common"
    return Program(
        "apps",
        f"parboil/benchmarks/{name}/src/cuda",
        sources,
        ("-O3", f"-I{common}/include", *OLD, *options),
        (f"{common}/src/parboil_cuda.c",),
    )


SDK = (
    *("vectorAdd", "convolutionSeparable", "fastWalshTransform", "scalarProd", "transpose", "scan"),
    *("BlackScholes", "histogram", "mergeSort", "sortingNetworks"),
)
MICRO = (
    *("MaxFlops", "l1_bw_128", "l1_bw_32f_unroll", "l1_bw_32f_unroll_large", "l1_lat", "l1_shared_bw"),
    *("l2_bw_32f", "l2_bw_64f", "l2_lat", "mem_bw", "shared_bw", "shared_lat"),
)
SAMPLES = {
    "binomialOptions": "5_Domain_Specific",
    "fastWalshTransform": "5_Domain_Specific",
    "histogram": "2_Concepts_and_Techniques",
    "mergeSort": "0_Introduction",
    "quasirandomGenerator": "5_Domain_Specific",
    "SobolQRNG": "5_Domain_Specific",
}
PROGRAMS: Mapping[str, Program] = {
    **{f"sdk-{name}": Program("sdk", name, (), ("-O2", f"-I{SHIM}", "-I.")) for name in SDK},
    **{f"micro-{name}": Program("apps", f"GPU_Microbenchmark/{name}", (f"{name}.cu",)) for name in MICRO},
    **{
        f"sample-{name}": Program("samples", f"{group}/{name}", (), ("-O3", "-std=c++17", "-I.", "-I../../../Common"))
        for name, group in SAMPLES.items()
    },
    "2DConvolution": _polybench("2DCONV", "2DConvolution"),
    "3DConvolution": _polybench("3DCONV", "3DConvolution"),
    "3mm": _polybench("3MM", "3mm"),
    "atax": _polybench("ATAX", "atax"),
    "bicg": _polybench("BICG", "bicg"),
    "gemm": _polybench("GEMM", "gemm"),
    "gesummv": _polybench("GESUMMV", "gesummv"),
    "mvt": _polybench("MVT", "mvt"),
    "backprop": _rodinia("backprop", "backprop_cuda.cu", plain_c=("backprop.c", "facetrain.c", "imagenet.c")),
    "bfs": _rodinia("bfs", "bfs.cu"),
    "b+tree": _rodinia(
        "b+tree",
        "main.c",
        *("util/timer/timer.c", "util/num/num.c", "util/cuda/cuda.cu"),
        *("kernel/kernel_gpu_cuda_wrapper.cu", "kernel/kernel_gpu_cuda_wrapper_2.cu"),
    ),
    "dwt2d": _rodinia(
        "dwt2d",
        *("main.cu", "dwt.cu", "components.cu", "dwt_cuda/common.cu"),
        *(f"dwt_cuda/{name}.cu" for name in ("fdwt53", "fdwt97", "rdwt53", "rdwt97")),
    ),
    "hotspot": _rodinia("hotspot", "hotspot.cu"),
    "lud": _rodinia("lud", "cuda/lud.cu", "cuda/lud_kernel.cu", "common/common.c", options=("-Icommon",)),
    "nn": _rodinia("nn", "nn_cuda.cu"),
    "nw": _rodinia("nw", "needle.cu"),
    "srad_v1": _rodinia("srad/srad_v1", "main.cu"),
    "parboil-mri-q": _parboil("mri-q", "main.cu", "file.cc", options=("-use_fast_math",)),
    "parboil-stencil": _parboil("stencil", "main.cu", "file.cc", options=("-use_fast_math",)),
}

MRI_SMALL = inputs.trajectory(3072, 32768)
MRI_LARGE = inputs.trajectory(2048, 262144)
SRAD = Launch("srad_v1", "100 0.5 502 458", inputs.graymap, inside="a/b/c")
B_TREE = Launch("b+tree", "file {in}/mil.txt command {in}/command.txt", inputs.tree)


def _hotspot(side: int, kernel: str = "") -> Launch:
    arguments = f"{side} 2 2 {{in}}/temp_{side} {{in}}/power_{side} {{in}}/output.out"
    return Launch("hotspot", arguments, inputs.hotspot(side), kernel)


def _of(base: Launch, kernel: str) -> Launch:
    return Launch(base.program, base.arguments, base.writes, kernel, base.timing, base.inside)


def _sample(name: str, kernel: str, timing: str | None = None) -> Launch:
    return Launch(f"sample-{name}", kernel=kernel, timing=timing)


LAUNCHES: Mapping[str, Launch] = {
    **{f"app/{name}": Launch(f"micro-{name}") for name in MICRO},
    **{
        f"app/{name}": Launch(f"sdk-{name}")
        for name in ("BlackScholes", "histogram", "mergeSort", "scan", "sortingNetworks")
    },
    "app/vectorAdd-4000000": Launch("sdk-vectorAdd", "--size 4000000"),
    "app/vectorAdd-6000000": Launch("sdk-vectorAdd", "--size 6000000"),
    "app/convolutionSeparable-3072": Launch("sdk-convolutionSeparable", "--size 3072"),
    "app/fastWalshTransform-logK_7__logD_21": Launch("sdk-fastWalshTransform", "-logK 7 -logD 21"),
    "app/fastWalshTransform-logK_11__logD_19": Launch("sdk-fastWalshTransform", "-logK 11 -logD 19"),
    "app/scalarProd-8192": Launch("sdk-scalarProd", "--size 8192"),
    "app/scalarProd-13920": Launch("sdk-scalarProd", "--size 13920"),
    "app/transpose-dimX512_dimY512": Launch("sdk-transpose", "dimX512 dimY512"),
    **{f"app/polybench-{name}": Launch(name) for name in ("2DConvolution", "3DConvolution", "gemm")},
    **{f"app/polybench-{name}": Launch(name, timing="sampled") for name in ("3mm", "atax", "bicg", "gesummv", "mvt")},
    "app/backprop-65536": Launch("backprop", "65536"),
    "app/bfs-graph4096": Launch("bfs", "{in}/graph4096.txt", inputs.graph("graph4096.txt", 4096)),
    "app/bfs-graph65536": Launch("bfs", "{in}/graph65536.txt", inputs.graph("graph65536.txt", 65536)),
    "app/bfs-graph1MW_6": Launch("bfs", "{in}/graph1MW_6.txt", inputs.graph("graph1MW_6.txt", 1_000_000)),
    "app/b+tree": B_TREE,
    "app/dwt2d-192": Launch("dwt2d", "{in}/192.bmp -d 192x192 -f -5 -l 3", inputs.pixels(192)),
    "app/dwt2d-1024": Launch("dwt2d", "{in}/rgb.bmp -d 1024x1024 -f -5 -l 3", inputs.pixels(1024)),
    "app/hotspot-512": _hotspot(512),
    "app/hotspot-1024": _hotspot(1024),
    "app/lud-256": Launch("lud", "-s 256 -v"),
    "app/lud-512": Launch("lud", "-i {in}/512.dat", inputs.matrix),
    "app/nn": Launch("nn", "{in}/filelist_4 -r 5 -lat 30 -lng 90", inputs.records),
    "app/nw-2048_10": Launch("nw", "2048 10"),
    "app/srad_v1-100_0_5_502_458": SRAD,
    "app/parboil-mri-q": Launch("parboil-mri-q", "-i {in}/dataset.bin -o {in}/out", MRI_SMALL),
    "app/parboil-stencil": Launch(
        "parboil-stencil", "-i {in}/128x128x32.bin -o {in}/out -- 128 128 32 100", inputs.block
    ),
    "kernel/b+tree/findRangeK": _of(B_TREE, "findRangeK"),
    "kernel/b+tree/findK": _of(B_TREE, "findK"),
    "kernel/backprop/bpnn_layerforward_CUDA": Launch("backprop", "65536", kernel="bpnn_layerforward_CUDA"),
    "kernel/backprop/bpnn_adjust_weights_cuda": Launch("backprop", "65536", kernel="bpnn_adjust_weights_cuda"),
    "kernel/hotspot/calculate_temp": _hotspot(1024, "calculate_temp"),
    "kernel/srad_v1/srad": _of(SRAD, "srad"),
    "kernel/parboil-mri-q/ComputeQ_GPU": Launch(
        "parboil-mri-q", "-i {in}/dataset.bin -o {in}/out", MRI_LARGE, "ComputeQ_GPU"
    ),
    "kernel/binomialOptions/binomialOptionsKernel": _sample("binomialOptions", "binomialOptionsKernel"),
    "kernel/fastWalshTransform/fwtBatch1Kernel": _sample("fastWalshTransform", "fwtBatch1Kernel"),
    "kernel/fastWalshTransform/fwtBatch2Kernel": _sample("fastWalshTransform", "fwtBatch2Kernel"),
    "kernel/histogram/histogram64Kernel": _sample("histogram", "histogram64Kernel"),
    "kernel/mergeSort/mergeSortSharedKernel": _sample("mergeSort", "mergeSortSharedKernel"),
    "kernel/mergeSort/mergeElementaryIntervalsKernel": _sample("mergeSort", "mergeElementaryIntervalsKernel"),
    "kernel/quasirandomGenerator/quasirandomGeneratorKernel": _sample(
        "quasirandomGenerator", "quasirandomGeneratorKernel"
    ),
    "kernel/quasirandomGenerator/inverseCNDKernel": _sample("quasirandomGenerator", "inverseCNDKernel"),
    "kernel/sobolQRNG/sobolGPU_kernel": _sample("SobolQRNG", "sobolGPU_kernel"),
}
"""Rows that are run, by id; the others' data or source are not public, or need a library."""


def _sources(program: Program, place: Path) -> list[str]:
    """The files to compile: the named ones, or all files of the folder that no other one includes."""
    if program.sources:
        return list(program.sources)
    files = [f for f in sorted(place.iterdir()) if f.suffix in (".cu", ".cpp", ".cuh", ".h")]
    included = {f.name for f in files for other in files if f'"{f.name}"' in other.read_text(errors="replace")}
    return [f.name for f in files if f.suffix in (".cu", ".cpp") and f.name not in included]


def build(name: str, checkouts: Path, target: Path) -> Path:
    """Compile a program once; its path.  Raises :class:`NotBuiltError`."""
    program = PROGRAMS[name]
    place = checkouts / FOLDERS[program.repository] / program.folder
    made = target / name
    if made.is_file():
        return made
    if not place.is_dir():
        raise NotBuiltError(f"{place} is missing: check out {REPOSITORIES[program.repository]} below {checkouts}")
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for source in program.plain_c:
            objects.append(str(Path(folder) / f"{Path(source).stem}.o"))
            own = [*(o for o in program.options if o.startswith("-I")), "-I/usr/local/cuda/include", *OLD]
            _compile(["gcc", "-w", "-O2", "-fcommon", "-std=gnu89", *own, "-c", source, "-o", objects[-1]], place)
        code = ["-gencode", "arch=compute_75,code=compute_75", "-cudart", "shared"]
        command = ["nvcc", "-w", *code, *program.options, *_sources(program, place)]
        unit = Path(folder) / "program"
        _compile([*command, *objects, "-o", str(unit)], place)
        target.mkdir(parents=True, exist_ok=True)
        os.replace(unit, made) if unit.stat().st_dev == target.stat().st_dev else made.write_bytes(unit.read_bytes())
        made.chmod(0o755)
    return made


def _compile(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuiltError((done.stderr.strip().split("\n") or ["?"])[0][-200:])


@dataclass
class Programs:
    """Runs whole programs; launches of a program with the same arguments on the same card are kept for its other rows."""

    checkouts: Path
    target: Path
    seconds: int = 1200
    _runs: dict[tuple[str, str, str], list[Run]] = field(default_factory=dict)

    def measure(self, row: Row) -> float:
        """The model's figure for a row, in cycles."""
        launch = LAUNCHES[row.id]
        key = (row.card, launch.program, launch.arguments)
        if key not in self._runs:
            self._runs[key] = self._run(row, launch)
        runs = self._runs[key]
        if not launch.kernel:
            return float(sum(run.cycles for run in runs))
        wanted = [run.cycles for run in runs if run.kernel.split("<")[0].split("::")[-1] == launch.kernel]
        if not wanted:
            raise NotBuiltError(f"{launch.program} launched no {launch.kernel}, but {sorted({r.kernel for r in runs})}")
        return sum(wanted) / len(wanted)

    def _run(self, row: Row, launch: Launch) -> list[Run]:
        program = build(launch.program, self.checkouts, self.target)
        with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as results:
            if launch.writes:
                launch.writes(Path(place))
            inside = Path(place) / launch.inside
            inside.mkdir(parents=True, exist_ok=True)
            chip = str(card_file(row.card))
            environment = {**os.environ, **attach.child_environment(chip, launch.timing, Path(results))}
            # Nsight Compute empties the caches before each launch; nvprof leaves them as they are.
            environment["WARPWRIGHT_CACHES"] = "cold" if row.card.endswith("_ncu") else "kept"
            arguments = launch.arguments.replace("{in}", place).split()
            done = subprocess.run(
                [str(program), *arguments],
                cwd=inside,
                env=environment,
                capture_output=True,
                timeout=self.seconds,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            runs, count, _ = launch_records.collect(Path(results))
        if not runs or len(runs) < count:
            said = done.stderr.decode(errors="replace").strip()[-300:]
            raise NotBuiltError(f"{launch.program}: exit {done.returncode}, {len(runs)} of {count} launches; {said}")
        return runs

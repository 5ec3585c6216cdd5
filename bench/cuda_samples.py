"""Build and run NVIDIA's cuda-samples on the simulated device and print which of them pass their own check.

    python -m bench.cuda_samples FOLDER [--driver] [--gpu a100] [--only NAME ...] [--build BUILD_FOLDER] [--seconds 120]
                                        [--check all] [--check-level info]

FOLDER is a checkout of github.com/NVIDIA/cuda-samples.  Needs nvcc and a host compiler.  Only samples without math
libraries, graphics and windows are taken: those of the runtime API, built with ``nvcc -cudart shared``, or with
``--driver`` those of the driver API and of NVRTC (of the wheel nvidia-cuda-nvrtc-cu12).  With ``--check`` they run under
the checks, and what these find is printed below a sample's line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import nvidia
import nvidia.cuda_nvrtc

from warpwright.driver import attach, launch_records
from warpwright.session import session
from warpwright.tools.checks import Finding

GROUPS = (
    "0_Introduction",
    "1_Utilities",
    "2_Concepts_and_Techniques",
    "3_CUDA_Features",
    "5_Domain_Specific",
    "6_Performance",
)
LIBRARIES = re.compile(
    r"GL/|glut|\bEGL|vulkan|[dD]3[dD]|cublas|cufft|curand\.h|cusparse|cusolver|npp[is]?\.h|nvjpeg|FreeImage|mpi\.h|NvSci|nvmedia|"
    r"nvJitLink|omp\.h|<windows\.h>\s*\n#include <process"
)
"""Features that a sample must not use: other libraries, graphics."""
DRIVER = re.compile(r"<cuda\.h>|nvrtc|cuda_drvapi")
LINKS_DRIVER = re.compile(r"nvrtc|CUDA::cuda_driver")
FAILURES = re.compile(r"\bFAILED\b|Test failed|result = FAIL")
WAIVED = 2
"""Exit code of a sample that finds the device unfit for it."""


def candidates(folder: Path, driver: bool = False) -> list[Path]:
    """Folders of the samples that are tried."""
    found = []
    for group in GROUPS:
        for path in sorted((folder / "Samples" / group).iterdir() if (folder / "Samples" / group).is_dir() else ()):
            sources = sorted(path.glob("*.cu")) + sorted(path.glob("*.c*"))
            if not any(s.suffix in (".cu", ".cpp", ".c") for s in sources):
                continue
            text = "".join(s.read_text(errors="replace") for s in {*sources, *path.glob("*.h"), *path.glob("*.cuh")})
            if driver:
                own = path / f"{path.name}.cpp"
                main = own.read_text(errors="replace") if own.is_file() else text
                wanted = bool(LINKS_DRIVER.search(_cmake(path))) and not LIBRARIES.search(main)
            else:
                wanted = (
                    not DRIVER.search(text) and not LIBRARIES.search(text) and any(s.suffix == ".cu" for s in sources)
                )
            if wanted:
                found.append(path)
    return found


def _cmake(path: Path) -> str:
    file = path / "CMakeLists.txt"
    return file.read_text(errors="replace") if file.is_file() else ""


def _nvcc(arguments: list[str | Path]) -> str:
    """Run nvcc; the first line of what went wrong, or nothing."""
    done = subprocess.run(["nvcc", "-w", *map(str, arguments)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().split("\n") or ["?"])[0][-160:]


def build(path: Path, target: Path, folder: Path, arch: str) -> str:
    """Compile a sample; what went wrong, or nothing."""
    sources = _with_helpers(sorted({*path.glob("*.cu"), *path.glob("*.cpp"), *path.glob("*.c")}), folder)
    options = ["-rdc=true"] if "SEPARABLE_COMPILATION ON" in _cmake(path) else []
    command = ["-cudart", "shared", "-lineinfo", f"-arch={arch}", "-std=c++17", "--extended-lambda", *options]
    command += [f"-I{folder / 'Common'}", f"-I{path}", f"-I{path / 'inc'}", "-Xcompiler", "-pthread", "-o", str(target)]
    return _nvcc([*command, *sources])


def _with_helpers(sources: list[Path], folder: Path) -> list[Path]:
    """Sources, and those of the samples' common folder that they need."""
    if any("helper_multiprocess.h" in s.read_text(errors="replace") for s in sources):
        return [*sources, folder / "Common" / "helper_multiprocess.cpp"]
    return sources


def build_driver(path: Path, target: Path, folder: Path, arch: str) -> str:
    """Compile a sample of the driver API and its kernels, which it loads; what went wrong, or nothing."""
    cmake = _cmake(path)
    place = workplace(path, target)
    place.mkdir(exist_ok=True)
    for file in path.iterdir():
        if not (place / file.name).exists():
            (place / file.name).symlink_to(file)
    kernels = sorted(path.glob("*.cu"))
    for name, kind in re.findall(r"/(\w+)64\.(fatbin|ptx)\"", cmake):
        failed = _nvcc(
            [
                f"-{kind}",
                f"-arch={arch}",
                f"-I{folder / 'Common'}",
                "-o",
                place / f"{name}64.{kind}",
                path / f"{name}.cu",
            ]
        )
        if failed:
            return failed
    apart = {k for k in kernels if "nvrtc" in cmake or f"{k.stem}64." in cmake}
    sources = [s for s in sorted({*kernels, *path.glob("*.cpp"), *path.glob("*.c")}) if s not in apart]
    sources = _with_helpers(sources, folder)
    nvrtc = Path(nvidia.cuda_nvrtc.__path__[0])
    # Headers that a program passes to NVRTC are in its folder.
    for package in nvidia.__path__:
        for file in [*Path(package).glob("cuda_runtime/include/*"), *Path(package).glob("cuda_cccl/include/*")]:
            if not (place / file.name).exists():
                (place / file.name).symlink_to(file)
    command = [
        "-cudart",
        "shared",
        f"-arch={arch}",
        "-std=c++17",
        f"-I{folder / 'Common'}",
        f"-I{path}",
        f"-I{nvrtc / 'include'}",
    ]
    command += ["-Xcompiler", "-pthread,-fpermissive", "-o", str(target), f"-L{attach.folder()}", "-lcuda", "-ldl"]
    command += ["-Xlinker", f"-rpath={nvrtc / 'lib'}", "-Xlinker", str(nvrtc / "lib" / "libnvrtc.so.12")]
    return _nvcc([*command, *sources])


def workplace(path: Path, target: Path) -> Path:
    """The folder in which a sample of the driver API runs: that of the files built for it."""
    return target.with_name(f"{path.name}.files")


def run(target: Path, path: Path, gpu: str, seconds: int) -> tuple[str, float, list[Finding]]:
    """Run a sample: ``passed``, ``waived`` or why not, the processor's seconds that it took with its children, findings.

    Args:
        seconds: of the processor, which do not depend on what else the machine does; by the clock it may take ten times as long.
    """
    with tempfile.TemporaryDirectory(prefix="warpwright-") as folder:
        environment = {**os.environ, **attach.child_environment(gpu, "off", Path(folder))}
        outcome, spent = _outcome(target, path, environment, seconds)
        return outcome, spent, launch_records.collect(Path(folder))[2]


def _outcome(target: Path, path: Path, environment: dict[str, str], seconds: int) -> tuple[str, float]:
    began = _processor_seconds()
    command = ["/bin/sh", "-c", f'ulimit -t {seconds}; exec "$0"', str(target)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            cwd=path,
            env=environment,
            timeout=10 * seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {10 * seconds} s", _processor_seconds() - began
    spent = _processor_seconds() - began
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"not done after {seconds} s of the processor", spent
    out, err = (x.decode(errors="replace") for x in (done.stdout, done.stderr))
    own = [line for line in err.split("\n") if line.startswith("warpwright")]
    if done.returncode == WAIVED:
        return f"waived {own[0] if own else out.strip().split(chr(10))[-1][:100]}", spent
    if done.returncode == 0 and not FAILURES.search(out):
        return "passed", spent
    reason = own[0] if own else (err.strip() or out.strip()).split("\n")[-1]
    return f"exit {done.returncode}: {reason[:160]}", spent


def _processor_seconds() -> float:
    """CPU time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--driver", action="store_true", help="samples of the driver API and of NVRTC")
    parser.add_argument("--gpu", default="a100")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--build", type=Path, help="keep programs here, and take those that are there")
    parser.add_argument("--seconds", type=int, default=120, help="of the processor, for one sample")
    parser.add_argument("--json", type=Path, help="also write results here")
    parser.add_argument("--check", help="run under these checks, as warpwright run --check")
    parser.add_argument("--check-level", help="lowest grade of findings that is told")
    arguments = parser.parse_args()
    session.check, session.check_level = arguments.check, arguments.check_level
    kept = arguments.build or Path(tempfile.mkdtemp(prefix="cuda-samples-"))
    kept.mkdir(parents=True, exist_ok=True)
    kept = kept.resolve()
    results: dict[str, str] = {}
    for path in candidates(arguments.folder.resolve(), arguments.driver):
        if arguments.only and path.name not in arguments.only:
            continue
        target, spent, findings = kept / path.name, 0.0, list[Finding]()
        make = build_driver if arguments.driver else build
        outcome = "" if target.is_file() else make(path, target, arguments.folder.resolve(), arguments.arch)
        if outcome:
            outcome = f"does not build: {outcome}"
        else:
            outcome, spent, findings = run(
                target, workplace(path, target) if arguments.driver else path, arguments.gpu, arguments.seconds
            )
        results[path.name] = outcome
        told = f", findings: {len(findings)}" if arguments.check else ""
        print(f"{path.name:40} {spent:7.1f} s  {outcome}{told}", flush=True)
        for finding in findings:
            print(finding, flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
    passed = sum(x == "passed" for x in results.values())
    print(f"{passed} of {len(results)} samples pass", file=sys.stdout)


if __name__ == "__main__":
    main()

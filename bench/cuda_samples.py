"""Build and run NVIDIA's cuda-samples on the simulated device and print which of them pass their own check.

    python -m bench.cuda_samples FOLDER [--gpu a100] [--only NAME ...] [--build BUILD_FOLDER] [--seconds 120]

FOLDER is a checkout of github.com/NVIDIA/cuda-samples.  Needs nvcc and a host compiler.  Only samples of the runtime API
without math libraries, graphics and windows are taken; each is built with ``nvcc -cudart shared``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from warpwright.driver import attach

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
    r"<cuda\.h>|nvrtc|omp\.h|<windows\.h>\s*\n#include <process"
)
"""What a sample must not use: other libraries, graphics, the driver API (those have a table of their own)."""
FAILURES = re.compile(r"\bFAILED\b|Test failed|result = FAIL")
WAIVED = 2
"""Exit code of a sample that finds the device unfit for it."""


def candidates(folder: Path) -> list[Path]:
    """Folders of the samples that are tried."""
    found = []
    for group in GROUPS:
        for path in sorted((folder / "Samples" / group).iterdir() if (folder / "Samples" / group).is_dir() else ()):
            sources = sorted(path.glob("*.cu")) + sorted(path.glob("*.c*"))
            if not any(s.suffix == ".cu" for s in sources):
                continue
            text = "".join(s.read_text(errors="replace") for s in {*sources, *path.glob("*.h"), *path.glob("*.cuh")})
            if not LIBRARIES.search(text):
                found.append(path)
    return found


def build(path: Path, target: Path, folder: Path, arch: str) -> str:
    """Compile a sample; the last line of what went wrong, or nothing."""
    sources = sorted({*path.glob("*.cu"), *path.glob("*.cpp"), *path.glob("*.c")})
    text = (path / "CMakeLists.txt").read_text(errors="replace") if (path / "CMakeLists.txt").is_file() else ""
    options = ["-rdc=true"] if "SEPARABLE_COMPILATION ON" in text else []
    command = ["nvcc", "-cudart", "shared", f"-arch={arch}", "-std=c++17", "-w", "--extended-lambda", *options]
    command += [f"-I{folder / 'Common'}", f"-I{path}", f"-I{path / 'inc'}", "-Xcompiler", "-pthread", "-o", str(target)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().split("\n") or ["?"])[0][-160:]


def run(target: Path, path: Path, gpu: str, seconds: int) -> tuple[str, float]:
    """Run a sample: ``passed``, ``waived`` or why not, and the time it took."""
    environment = {**os.environ, **attach.child_environment(gpu, "off", None)}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [target],
            capture_output=True,
            cwd=path,
            env=environment,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {seconds} s", seconds
    spent = time.perf_counter() - began
    out, err = (x.decode(errors="replace") for x in (done.stdout, done.stderr))
    own = [line for line in err.split("\n") if line.startswith("warpwright")]
    if done.returncode == WAIVED:
        return f"waived {own[0] if own else out.strip().split(chr(10))[-1][:100]}", spent
    if done.returncode == 0 and not FAILURES.search(out):
        return "passed", spent
    reason = own[0] if own else (err.strip() or out.strip()).split("\n")[-1]
    return f"exit {done.returncode}: {reason[:160]}", spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", default="a100")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--build", type=Path, help="keep programs here, and take those that are there")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--json", type=Path, help="also write results here")
    arguments = parser.parse_args()
    kept = arguments.build or Path(tempfile.mkdtemp(prefix="cuda-samples-"))
    kept.mkdir(parents=True, exist_ok=True)
    results: dict[str, str] = {}
    for path in candidates(arguments.folder):
        if arguments.only and path.name not in arguments.only:
            continue
        target, spent = kept / path.name, 0.0
        outcome = "" if target.is_file() else build(path, target, arguments.folder, arguments.arch)
        if outcome:
            outcome = f"does not build: {outcome}"
        else:
            outcome, spent = run(target, path, arguments.gpu, arguments.seconds)
        results[path.name] = outcome
        print(f"{path.name:40} {spent:7.1f} s  {outcome}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
    passed = sum(x == "passed" for x in results.values())
    print(f"{passed} of {len(results)} samples pass", file=sys.stdout)


if __name__ == "__main__":
    main()

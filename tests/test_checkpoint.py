"""Checkpoints: a launch that goes on in another process ends at the same cycle with the same memory and counters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.checkpoint import CheckpointError, Checkpoints, CheckpointTaken, resume
from warpwright.errors import UnsupportedError
from warpwright.mig import MigGPU

SOURCE = """
__constant__ float scale[4] = {1, 2, 3, 4};
__device__ int count;
extern "C" __global__ void chase(const int *next, const float *x, float *y, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, j = next[t % n];
    float sum = 0;
    for (int i = 0; i < 24; i++) {
        sum += x[j] * scale[i & 3];
        j = next[(j * 7 + i) % n];
        if (sum > 20) sum *= 0.5f;
    }
    y[t] = sum;
    atomicAdd(&count, 1);
}
extern "C" __global__ void tiles(const int *next, const float *x, float *y, int n)
{
    extern __shared__ float kept[];
    int t = threadIdx.x, at = blockIdx.x * blockDim.x + t;
    float sum = 0;
    for (int round = 0; round < 6; round++) {
        kept[t] = x[(at + round * 131) % n];
        __syncthreads();
        for (int i = 0; i < 8; i++) sum += kept[(t * 3 + i) % blockDim.x];
        __syncthreads();
    }
    y[at] = sum;
}
extern "C" __global__ void scatter(const int *next, const float *x, float *y, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int local[16];
    for (int i = 0; i < 16; i++) local[i] = next[(t * 5 + i * 17) % n];
    int k = t;
    for (int i = 0; i < 16; i++) { k = local[k & 15]; atomicAdd(y + k % (gridDim.x * blockDim.x), x[(t + i) % n]); }
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void hinted(const int *next, const float *x, float *y, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x, j = next[t % n];
    unsigned long long policy;
    float sum = 0, part;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(policy));
    for (int i = 0; i < 24; i++) {
        asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(part) : "l"(x + j), "l"(policy));
        sum += part;
        j = next[(j * 7 + i) % n];
    }
    y[t] = sum;
}
#endif
"""
WORDS = 2048
CASES = 50
_HEAD = f"import sys; sys.path.insert(0, {os.fspath(Path(__file__).parents[1])!r}); from tests.test_checkpoint import *"


class Case:
    """A seeded launch on a chip or an instance."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.kernel = ("chase", "tiles", "scatter")[seed % 3]
        self.chip = ("1g.5gb", "2g.10gb", "3g.20gb", "a100", "v100", "p100")[int(random.integers(6))]
        self.blocks, self.threads = int(random.integers(1, 40)), 32 * int(random.integers(1, 5))
        self.at = float(random.uniform(0.05, 0.8))
        self.seed = seed

    def gpu(self, last_place: bool = False) -> ww.GPU:
        if self.chip[0] in "ap" or self.chip == "v100":
            return ww.GPU(self.chip)
        card = MigGPU("a100")
        starts = {"1g.5gb": 6, "2g.10gb": 4, "3g.20gb": 4}
        return card.create(self.chip, starts[self.chip] if last_place else 0)

    def launch(self, gpu: ww.GPU) -> tuple[object, tuple[object, ...], object]:
        random = np.random.default_rng(self.seed)
        module = gpu.compile(SOURCE)
        following = gpu.array(random.integers(0, WORDS, WORDS).astype(np.int32), name="next")
        x = gpu.array(random.random(WORDS, np.float32), name="x")
        y = gpu.zeros(self.blocks * self.threads, np.float32, name="y")
        launcher = module[self.kernel][self.blocks, self.threads, 4 * self.threads if self.kernel == "tiles" else 0]
        return launcher, (following, x, y, WORDS), y

    def save(self, folder: Path) -> None:
        """Run without and with a checkpoint; leave the file and what to expect."""
        launcher, arguments, y = self.launch(self.gpu())
        run = launcher(*arguments)  # type: ignore[operator]
        np.save(folder / f"{self.seed}.npy", y.get())  # type: ignore[attr-defined]
        gpu = self.gpu()
        gpu.checkpoints = Checkpoints(
            folder / f"{self.seed}.ckpt", every_cycles=max(1, int(self.at * run.cycles)), stop=True
        )
        launcher, arguments, _ = self.launch(gpu)
        try:
            launcher(*arguments)  # type: ignore[operator]
        except CheckpointTaken:
            (folder / f"{self.seed}.json").write_text(json.dumps([run.cycles, dict(run.metrics)]))

    def check(self, folder: Path) -> None:
        """Resume, on an instance at another place if it is one's, and compare."""
        resumed = resume(folder / f"{self.seed}.ckpt", self.gpu(last_place=True))
        cycles, metrics = json.loads((folder / f"{self.seed}.json").read_text())
        assert 0 < resumed.cycle < cycles
        assert resumed.run.cycles == cycles, self.__dict__
        assert dict(resumed.run.metrics) == metrics, self.__dict__
        assert resumed.array("y").tobytes() == np.load(folder / f"{self.seed}.npy").tobytes(), self.__dict__


def in_process(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"{_HEAD}\n{text}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def across_processes(folder: Path, seeds: Sequence[int]) -> None:
    """One process saves, another one resumes; the second has other arrays in memory before."""
    where = f"Path({os.fspath(folder)!r})"
    in_process(f"for seed in {seeds!r}: Case(seed).save({where})")
    saved = sorted(int(path.stem) for path in folder.glob("*.json"))
    assert len(saved) == len(seeds), "each was saved in the middle"
    in_process(f"junk = bytearray(50 << 20)\nfor seed in {saved!r}: Case(seed).check({where})")


@pytest.mark.ci
def test_launches_go_on_in_another_process_and_instance(tmp_path: Path) -> None:
    across_processes(tmp_path, (0, 1, 5))  # each kernel, each on another chip


@pytest.mark.slow
def test_fifty_seeded_launches_go_on_in_another_process_and_instance(tmp_path: Path) -> None:
    across_processes(tmp_path, range(CASES))


@pytest.mark.ci
def test_accesses_with_a_policy_go_on(tmp_path: Path) -> None:
    case = Case(0)
    case.kernel, case.chip, case.at = "hinted", "a100", 0.6
    case.save(tmp_path)
    case.check(tmp_path)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    gpu = MigGPU("a100").create("1g.5gb")
    kernel = gpu.compile(
        'extern "C" __global__ void twice(volatile float *x) { for (int i = 0; i < 40; i++) x[threadIdx.x] *= 1.5f; }'
    )["twice"]
    x = gpu.array(np.ones(64, np.float32), name="x")
    gpu.checkpoints = Checkpoints(tmp_path / "one.ckpt", every_cycles=3500, stop=True)
    with pytest.raises(CheckpointTaken, match="resume it with warpwright resume"):
        kernel[1, 64](x)
    return tmp_path / "one.ckpt"


@pytest.mark.ci
def test_checkpoints_leave_cycles_as_they_are_and_may_follow_each_other(saved: Path, tmp_path: Path) -> None:
    again = Checkpoints(tmp_path / "two.ckpt", every_cycles=3000)
    first = resume(saved, checkpoints=again)
    assert again.taken > 1
    second = resume(tmp_path / "two.ckpt")
    assert second.cycle > first.cycle
    assert second.run.cycles == first.run.cycles
    assert second.array("x").tobytes() == first.array("x").tobytes()
    with pytest.raises(CheckpointError, match="there is no array 'z'; the arrays are: array 'x'"):
        first.array("z")


@pytest.mark.ci
def test_another_size_and_a_gpu_in_use_are_refused(saved: Path) -> None:
    with pytest.raises(CheckpointError, match="of a100 with 14 SMs and 10 L2 slices, the GPU is a100 with 42 and 40"):
        resume(saved, MigGPU("a100").create("3g.20gb"))
    gpu = MigGPU("a100").create("1g.5gb", 3)
    kept = gpu.zeros(4)
    with pytest.raises(CheckpointError, match="has arrays or modules"):
        resume(saved, gpu)
    kept.free()


def test_files_that_are_no_checkpoints_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "no.ckpt"
    place.write_text("nothing")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        resume(place)
    with pytest.raises(CheckpointError, match="at least one cycle"):
        Checkpoints(place, every_cycles=0)
    with pytest.raises(CheckpointError, match=r"cannot read .*: No such file"):
        resume(tmp_path / "missing.ckpt")


@pytest.mark.ci
def test_damaged_files_are_refused(saved: Path, tmp_path: Path) -> None:
    place = tmp_path / "damaged.ckpt"
    contents = bytearray(saved.read_bytes())
    middle = len(contents) // 2
    contents[middle : middle + 64] = bytes(byte ^ 0xFF for byte in contents[middle : middle + 64])
    place.write_bytes(contents)
    with pytest.raises(CheckpointError, match="damaged"):
        resume(place)


@pytest.mark.ci
def test_launches_with_state_in_python_are_refused(tmp_path: Path) -> None:
    gpu = ww.GPU("a100")
    gpu.checkpoints = Checkpoints(tmp_path / "no.ckpt", every_cycles=2400)
    kernel = gpu.compile('#include <cstdio>\nextern "C" __global__ void say() { printf("%d", threadIdx.x); }')["say"]
    with pytest.raises(UnsupportedError, match="no checkpoint: the kernel calls the driver"):
        kernel[1, 1]()


@pytest.mark.ci
def test_the_command_saves_and_resumes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, warpwright as ww\n"
        "gpu = ww.GPU('a100')\n"
        "k = gpu.compile('extern \"C\" __global__ void twice(float *x) { for (int i = 0; i < 40; i++) x[threadIdx.x] *= 1.5f; }')['twice']\n"
        "x = gpu.array(np.ones(64, np.float32), name='x')\n"
        "print('cycles', k[1, 64](x).cycles)\n"
    )

    def command(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", "warpwright", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    place, arrays = tmp_path / "one.ckpt", tmp_path / "arrays.npz"
    said = command("run", "--checkpoint", str(place), "--checkpoint-every", "2000", str(program))
    cycles = int(said.split("cycles", 1)[1].split()[0])
    resumed = command("resume", str(place), "--output", str(arrays))
    assert f"{cycles:,}" in resumed
    assert len(np.load(arrays)["x"].view(np.float32)) == 64


def test_a_checkpoint_of_a_run_with_checks_needs_full_timing(tmp_path: Path) -> None:
    program, place = tmp_path / "program.py", tmp_path / "one.ckpt"
    program.write_text(
        "import numpy as np\nimport warpwright as ww\n"
        "source = 'extern \"C\" __global__ void twice(volatile float *x) { for (int i = 0; i < 100; i++) x[threadIdx.x] *= 1.5f; }'\n"
        "gpu = ww.GPU('a100')\n"
        "gpu.compile(source)['twice'][1, 64](gpu.array(np.ones(64, np.float32)))\n"
    )
    run = [sys.executable, "-m", "warpwright", "run", "--check", "memcheck", "--checkpoint", str(place)]
    run += ["--checkpoint-every", "2000"]
    done = subprocess.run([*run, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--check alone times none: add --timing full, or omit --check" in done.stderr
    assert not place.exists()
    done = subprocess.run([*run, "--timing", "full", str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.exists()

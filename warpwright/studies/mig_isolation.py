"""Isolation between instances of an A100, as claimed by the whitepaper's section on MIG.

A kernel whose loads miss L1 runs in one instance, alone and next to a kernel that streams through another instance's L2 and DRAM.  For comparison
both run as two launches of the undivided chip, where they share L2 and DRAM.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwright.api import GPU
from warpwright.launch_groups import Member, launch_group
from warpwright.mig import InstanceGPU, MigGPU
from warpwright.run import Run
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "NVIDIA A100 Tensor Core GPU Architecture"
SOURCE = """
extern "C" __global__ void victim(const float *x, float *y, int n)
{
    float sum = 0;
    for (int i = 0; i < 48; i++) sum += x[(threadIdx.x + 32 * ((i * 613 + blockIdx.x * 101) % (n / 32)))];
    y[blockIdx.x * 32 + threadIdx.x] = sum;
}
extern "C" __global__ void thrash(const float4 *x, float4 *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
"""
VICTIM_WORDS, THRASH_WORDS = 1 << 18, 1 << 20
VICTIM_BLOCKS = 28
PAIRS = (
    ("1g.5gb", "1g.5gb"),
    ("1g.5gb", "3g.20gb"),
    ("2g.10gb", "3g.20gb"),
    ("3g.20gb", "4g.20gb"),
    ("1g.10gb", "2g.10gb"),
)


class _Tenant:
    def __init__(self, gpu: GPU) -> None:
        self.module = gpu.compile(SOURCE)
        random = np.random.default_rng(1)
        self.small, self.result = (
            gpu.array(random.random(VICTIM_WORDS, np.float32)),
            gpu.zeros(32 * VICTIM_BLOCKS, np.float32),
        )
        self.large, self.copy = gpu.zeros(THRASH_WORDS, np.float32), gpu.zeros(THRASH_WORDS, np.float32)

    def victim(self) -> tuple[Any, tuple[Any, ...]]:
        """The launch that should not be disturbed."""
        return self.module["victim"][VICTIM_BLOCKS, 32], (self.small, self.result, VICTIM_WORDS)

    def thrash(self, blocks: int) -> tuple[Any, tuple[Any, ...]]:
        """The launch that disturbs."""
        return self.module["thrash"][blocks, 256], (self.large, self.copy, THRASH_WORDS // 4)


def _alone(launch: tuple[Any, tuple[Any, ...]]) -> Run:
    launcher, arguments = launch
    run: Run = launcher(*arguments)
    return run


def _pair(first: str, second: str) -> tuple[float, float]:
    """Cycles of the victim with the other instance's kernel divided by those alone, and the same for the other."""
    card = MigGPU("a100")
    instances: dict[int, InstanceGPU] = {}
    # The larger one first, so that both fit.
    for number in sorted((0, 1), key=lambda n: -int((first, second)[n][0])):
        instances[number] = card.create((first, second)[number])
    one, other = _Tenant(instances[0]), _Tenant(instances[1])
    blocks = 2 * instances[1].chip.sm.sm_count
    alone = [_alone(one.victim()).cycles, _alone(other.thrash(blocks)).cycles]
    together = card.launch(one.victim(), other.thrash(blocks))
    ratios = [
        run.cycles / cycles if isinstance(run, Run) else float("inf")
        for run, cycles in zip(together, alone, strict=True)
    ]
    return ratios[0], ratios[1]


def _seven() -> float:
    """Work of seven instances at once over that of one."""
    card = MigGPU("a100")
    tenants = [_Tenant(card.create("1g.5gb")) for _ in range(7)]
    alone = _alone(tenants[0].victim()).cycles
    runs = card.launch(*(tenant.victim() for tenant in tenants))
    longest = max(run.cycles if isinstance(run, Run) else 1 << 62 for run in runs)
    return 7 * alone / longest


def _undivided() -> float:
    """The victim's time with the other kernel on the same chip divided by its time alone."""
    gpu = GPU("a100")
    tenant = _Tenant(gpu)
    alone = _alone(tenant.victim()).seconds
    launches = (tenant.thrash(2 * gpu.chip.sm.sm_count), tenant.victim())
    from warpwright.engine.arguments import pack

    members = []
    for launcher, arguments in launches:
        packed = pack(launcher.kernel.parameters, launcher.kernel.name, arguments, gpu.memory)
        members.append(Member(launcher, bytes(packed.parameters)))
    found = launch_group(members)
    return (found[1].end_seconds - found[1].begin_seconds) / alone


@study("mig-isolation", f"{PAPER}, MIG Architecture and GPU Instances in Detail")
def mig_isolation(step: Step) -> Result:
    """Time of a kernel in one instance, while another instance's kernel thrashes its own L2 and DRAM, divided by its time alone."""
    cells = []
    for first, second in PAIRS:
        step(f"{first} beside {second}")
        victim, _ = _pair(first, second)
        cells.append(Cell(f"{first} beside {second}", "times alone", victim, 1.0, 0.0))
    step("4g.20gb's kernel beside 3g.20gb's")
    cells.append(Cell("thrashing 4g.20gb beside 3g.20gb", "times alone", _pair("3g.20gb", "4g.20gb")[1], 1.0, 0.0))
    step("seven instances")
    cells.append(Cell("seven 1g.5gb instances", "work of one", _seven(), 7.0, 0.0))
    step("without instances")
    shared = _undivided()
    return Result(
        [Table("Isolation of instances", "times", cells)],
        [
            f"On the undivided chip, where both share SMs, L2 and DRAM, the same kernel takes {shared:.2f} times as long beside the other one."
        ],
    )

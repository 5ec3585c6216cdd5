"""Words of constant bank 0 that the driver fills: where compiled code of each architecture reads them, and what it finds there."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import Chip, load_chip
from warpwright.engine.constant_bank0 import bank0_layout
from warpwright.errors import LaunchError
from warpwright.isa.bank0 import CONSTANT_WINDOW, ENVIRONMENT_COUNT, PARAMETER_BASE, environment_register
from warpwright.isa.program import Kind

PASCAL = ["6.0", "6.1", "6.2"]


@cache
def chip(capability: str) -> Chip:
    base = {"6": "p100", "7": "v100", "8": "a100", "9": "h200"}[capability[0]]
    return load_chip(base, compute_capability=capability)


WORDS = {
    "ntid": ('asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(low));', "block_dim"),
    "nctaid": ('asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(low));', "grid_dim"),
    "gridid": ('asm volatile("mov.u64 %0, %%gridid;" : "=l"(wide));', "grid_id"),
    "dynamic_smem_size": ('asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(low));', "dynamic_shared_bytes"),
    "shared window": ("wide = (unsigned long long)&words[low];", "shared_window"),
    "local window": ("wide = (unsigned long long)keep(mine);", "local_window"),
    "constant window": ("wide = (unsigned long long)&fixed[low];", "constant_window"),
    "clock64": ('asm volatile("mov.u64 %0, %%clock64;" : "=l"(wide));', "clock_tries"),
    "globaltimer": ('asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(wide));', "clock_tries"),
    **{
        f"envreg{n}": (f'asm volatile("mov.u32 %0, %%envreg{n};" : "=r"(low));', n)
        for n in (0, 1, 2, 3, ENVIRONMENT_COUNT - 1)
    },
}
"""By name: code, and the word of the layout (or the number of the environment register) that it must read."""
FRAME = """
__constant__ int fixed[8];
__device__ __noinline__ int* keep(int* x) {{ asm volatile("" :: "l"(x) : "memory"); return x; }}
extern "C" __global__ void k(unsigned long long* out) {{
    __shared__ int words[8];
    int mine[4] = {{}};
    unsigned low = 0;
    unsigned long long wide = 0;
    {code}
    out[0] = wide + low;
}}
"""


def read_offsets(capability: str, code: str) -> set[int]:
    """Offsets in bank 0 below the parameters that the compiled kernel reads."""
    program = ww.GPU(chip(capability), timing="off").compile(FRAME.format(code=code))["k"]._loaded.program
    operands = [o for i in program.instructions for o in i.operands]
    found = {o.value for o in operands if o.kind is Kind.CONSTANT and o.index == 0 and isinstance(o.value, int)}
    return {at for at in found if at < program.parameter_base_bytes}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("capability", [*PASCAL, "7.0", "8.0", "9.0"])
def test_the_compiler_reads_each_word_where_the_layout_has_it(capability: str, name: str) -> None:
    code, word = WORDS[name]
    arch = chip(capability).arch
    layout = bank0_layout(arch)
    at = environment_register(arch, word) if isinstance(word, int) else getattr(layout, word)
    if (arch >= 70 and word == "clock_tries") or (arch == 90 and name == "shared window"):
        pytest.skip("a special register gives it")
    assert at in read_offsets(capability, code)


@pytest.mark.parametrize("capability", PASCAL)
def test_no_other_word_of_bank_0_is_read(capability: str) -> None:
    """But for 0x108, whose zero means that SR_VIRTID counts SMs one by one, as it does here."""
    arch = chip(capability).arch
    layout = dataclasses.asdict(bank0_layout(arch))
    names = (*(word for _, word in WORDS.values() if isinstance(word, str)), "stack_top", "shared_window_high")
    known = {layout[name] for name in (*names, "local_window_high")} | {0x108}
    known |= {layout["grid_id"] + 4, CONSTANT_WINDOW[6] + 4}
    known |= {environment_register(arch, n) for n in range(ENVIRONMENT_COUNT)}
    specials = ("smid", "nsmid", "warpid", "nwarpid", "laneid", "lanemask_lt", "total_smem_size", "clock")
    more = "".join(f'asm volatile("mov.u32 %0, %%{name};" : "=r"(low)); wide += low;' for name in specials)
    every = "".join(f"{code} out[{n}] = wide + low;" for n, (code, _) in enumerate(WORDS.values()))
    assert read_offsets(capability, every + more) - known == set()
    assert max(known) < PARAMETER_BASE[6]


COOPERATIVE = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void turns(int *x, int n, int rounds) {
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank();
    for (int round = 0; round < rounds; round++) {
        int other = x[(i + blockDim.x) % n];
        grid.sync();
        x[i] = other + 1;
        grid.sync();
    }
}
"""


def turned(gpu: ww.GPU, blocks: int, rounds: int, threads: int = 64) -> ww.Run:
    x = np.arange(blocks * threads, dtype=np.int32)
    run = gpu.compile(COOPERATIVE)["turns"][blocks, threads](x, np.int32(x.size), np.int32(rounds))
    np.testing.assert_array_equal(x, np.roll(np.arange(x.size, dtype=np.int32), -threads * rounds) + rounds)
    return run


@pytest.mark.ci
@pytest.mark.parametrize(
    "options", [{}, {"engine": "interpreter"}, {"front_end": "ptx"}], ids=["compiled", "interpreter", "ptx"]
)
@pytest.mark.parametrize("capability", [PASCAL[0], *(pytest.param(c, marks=pytest.mark.slow) for c in PASCAL[1:])])
def test_grids_synchronise_on_pascal(capability: str, options: dict[str, str]) -> None:
    gpu = ww.GPU(chip(capability), timing="off", **options)
    if options.get("engine") == "interpreter":
        turned(gpu, 2, 1, 32)
    else:
        for blocks in (1, 2, 7, 57):
            turned(gpu, blocks, 2)


@pytest.mark.slow
def test_a_full_p100_synchronises() -> None:
    gpu = ww.GPU("p100", timing="off")
    for blocks in (113, 56 * 31, 56 * 32):
        turned(gpu, blocks, 2)


@pytest.mark.ci
def test_a_timed_grid_synchronises_on_pascal() -> None:
    few, many = turned(ww.GPU("p100"), 2, 2), turned(ww.GPU("p100"), 112, 2)
    assert many.cycles >= few.cycles > 4 * 2 * 200  # four barriers of two trips to L2 each


@pytest.mark.ci
def test_a_grid_beyond_residency_is_refused_on_pascal() -> None:
    gpu = ww.GPU("p100", timing="off")
    at_once = 56 * 2
    turned(gpu, at_once, 1, 1024)
    with pytest.raises(LaunchError) as caught:
        turned(gpu, at_once + 1, 1, 1024)
    assert str(caught.value) == (
        "turns synchronises its whole grid, so all of its 113 blocks must run at once: "
        "p100 with 56 SMs holds 112 of them; use fewer blocks"
    )


CLOCKS = """
extern "C" __global__ void k(unsigned long long* out) {
    unsigned long long a, b, c;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(a));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(c));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(b));
    out[0] = b - a; out[1] = c;
}
"""


@pytest.mark.parametrize("timing", ["off", "full"])
def test_clocks_of_64_bits_rise_on_pascal(timing: str) -> None:
    out = np.zeros(2, np.uint64)
    ww.GPU("p100", timing=timing).compile(CLOCKS)["k"][1, 1](out)
    assert 0 < out[0] < 10_000

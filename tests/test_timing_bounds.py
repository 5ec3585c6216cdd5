"""Simulated time never undercuts the closed-form lower bounds and does not depend on host threads, whatever the kernel."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.timing_synthetic import Synthetic, affine, device, gather, run, shared
from warpwright.isa.ops import Access

OPCODES = ["FFMA", "IADD3", "IMAD", "MUFU", "DADD", "HFMA2", "NOP", "LDG", "STG", "LDS", "STS"]


@st.composite
def kernels(draw: st.DrawFn) -> tuple[Synthetic, list[list[int]], list[str]]:
    """A kernel of random instructions with random control bits and a record for each memory instruction."""
    kernel = Synthetic()
    records: list[list[int]] = []
    spaces: list[str] = []
    for _ in range(draw(st.integers(1, 24))):
        opcode = draw(st.sampled_from(OPCODES))
        stall = draw(st.integers(1, 6))
        wait = draw(st.lists(st.integers(0, 5), max_size=2, unique=True))
        barrier = draw(st.integers(0, 7))
        reads = draw(st.lists(st.integers(0, 15), min_size=1, max_size=3))
        if opcode in ("LDG", "STG", "LDS", "STS"):
            size = draw(st.sampled_from([4, 8, 16]))
            space = "global" if opcode[-1] == "G" else "shared"
            kind = "load" if opcode[0] == "L" else "store"
            base = draw(st.integers(0, 1 << 12)) * size
            address = device(base) if space == "global" else shared(base % 4096)
            if draw(st.booleans()):
                records.append(
                    affine(address, draw(st.sampled_from([0, size, 2 * size, 128])), draw(st.integers(0, 2**32 - 1)))
                )
            else:
                step = draw(st.integers(0, 97)) * size
                records.append(gather([address + lane * step % (1 << 16) for lane in range(32)]))
            spaces.append(space)
            kernel.add(
                opcode,
                reads=reads,
                access=Access(space, size),
                kind=kind,
                write_barrier=barrier,
                wait=wait,
                stall=stall,
            )
        else:
            kernel.add(opcode, writes=[16], reads=reads, write_barrier=barrier, wait=wait, stall=stall)
    return kernel.exit(), records, spaces


@pytest.mark.ci
@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(
    kernels(),
    st.integers(1, 3),
    st.integers(1, 400),
    st.sampled_from([32, 64, 256, 480, 1024]),
    st.sampled_from(["v100", "a100", "h200"]),
)
def test_no_kernel_is_faster_than_its_bounds_or_differs_on_two_threads(
    made: tuple[Synthetic, list[list[int]], list[str]], turns: int, grid: int, block: int, chip: str
) -> None:
    kernel, records, _ = made
    result = run(
        kernel, lambda b, w: [(0, records)] * turns, chip=chip, grid=grid, block=block, shared_bytes=65536 // 8
    )
    undercut = {name: bound for name, bound in result.bounds.items() if result.cycles < bound - 1e-6}
    assert not undercut, result.cycles
    if grid > 20:
        again = run(
            kernel,
            lambda b, w: [(0, records)] * turns,
            chip=chip,
            grid=grid,
            block=block,
            shared_bytes=65536 // 8,
            threads=2,
        )
        assert (again.cycles, again.metrics, again.stalls) == (result.cycles, result.metrics, result.stalls)
    assert result.metrics["smsp__inst_executed.sum"] == turns * grid * (block // 32) * len(kernel.instructions)

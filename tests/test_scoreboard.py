"""The scoreboard: an instruction issues when the registers that it names have been written, at exactly that cycle; PTX is timed by it."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.kernels import case, names
from warpwright.chips import load_chip
from warpwright.engine.arguments import pack
from warpwright.engine.blocks import BasicBlock, basic_blocks
from warpwright.engine.kernels import lowered_of
from warpwright.isa.machine_code import schedule
from warpwright.isa.ops import Builder, Lowered
from warpwright.isa.program import Instruction, Program
from warpwright.isa.ptx.meaning import MEANINGS
from warpwright.isa.ptx.schedule import STEPS, WORKS, work_of
from warpwright.isa.schedule import COUNTERS, UNITS, UnknownTiming, Work
from warpwright.isa.scoreboard import entries_of, from_scoreboard
from warpwright.launch_groups import Member, launch_group
from warpwright.timing.pipes import timing_of

HEAD = """
.version 7.8
.target sm_70
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<40>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<8>;
    .reg .pred %p<4>;
    .shared .align 16 .b8 there[4096];
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, 1;
    mov.u32 %r2, 2;
"""
TAIL = """
    st.global.u32 [%rd0], %r1;
    st.global.u32 [%rd0+4], %r2;
    ret;
}
"""


PTX_BYTES = 16
"""By which the addresses of PTX's instructions differ."""


def cycles(body: str, chip: str = "h200", blocks: int = 1, threads: int = 32, out: np.ndarray | None = None) -> int:
    """Cycles of one launch of PTX by the scoreboard."""
    gpu = ww.GPU(chip, front_end="ptx", timing="full")
    kernel = gpu.compile(HEAD + body + TAIL)["k"]
    return kernel[blocks, threads](np.zeros(1024, np.uint32) if out is None else out).cycles


def step(line: str, count: int = 64, chip: str = "h200") -> float:
    """Cycles that each further line takes in a straight run of them, within the same lines of code."""
    first, last = cycles(f"{line}\n" * count, chip), cycles(f"{line}\n" * (2 * count), chip)
    return (last - first) / count


@pytest.mark.parametrize("chip", ["p100", "v100", "h200"])
def test_a_dependent_instruction_waits_for_the_latency_and_another_for_the_pipe(chip: str) -> None:
    """Chains take the pipe's latency a step, independent instructions its interval, or what their code takes to come where that is longer."""
    device = load_chip(chip)
    code = device.instruction_cache
    fetch = code.l1_icache_line_interval_cycles * PTX_BYTES / code.icache_line_bytes
    alu = timing_of(Work("alu"), device, False)
    chain = "xor.b32 %r1, %r1, %r2;\n" * 200
    apart = "".join(f"xor.b32 %r{4 + n % 20}, %r1, %r2;\n" for n in range(200))
    half = 100 * len("xor.b32 %r1, %r1, %r2;\n")
    dependent = cycles(chain, chip) - cycles(chain[:half], chip)
    independent = cycles(apart, chip) - cycles("".join(apart.splitlines(keepends=True)[:100]), chip)
    assert dependent == pytest.approx(100 * alu.latency_cycles, abs=12)  # lines of code are fetched on the way
    assert independent == pytest.approx(100 * max(alu.interval_cycles, fetch), abs=20)
    assert alu.latency_cycles > alu.interval_cycles


def test_a_load_is_waited_for_at_its_first_use_and_not_before() -> None:
    """Instructions between a load and its use are free until its latency has passed."""
    use = "xor.b32 %r1, %r1, %r3;\n"
    load = "ld.global.u32 %r3, [%rd0];\n"
    between = "".join(f"xor.b32 %r{4 + n % 20}, %r2, %r2;\n" for n in range(60))
    at_once, later = cycles(load + use), cycles(load + between + use)
    behind = cycles(load + use + between)
    assert later == pytest.approx(at_once, abs=8)
    assert behind > at_once + 90


def test_a_register_that_a_load_has_yet_to_write_is_not_written_before_it() -> None:
    """Write after write: the same register waits, another one does not."""
    load = "ld.global.u32 %r3, [%rd0];\n"
    tail = "".join("xor.b32 %r1, %r1, %r2;\n" for _ in range(100))
    same = cycles(load + "mov.u32 %r3, 7;\n" + "xor.b32 %r1, %r1, %r3;\n" + tail)
    other = cycles(load + "mov.u32 %r4, 7;\n" + "xor.b32 %r1, %r1, %r4;\n" + tail)
    assert same > other + 200


def test_a_predicate_is_waited_for() -> None:
    device = load_chip("h200")
    lines = "setp.ne.u32 %p0, %r1, 9;\n@%p0 xor.b32 %r1, %r1, %r2;\n"
    assert step(lines) == pytest.approx(2 * timing_of(Work("alu"), device, False).latency_cycles, abs=0.2)


def test_machine_instructions_behind_one_of_ptx_are_charged() -> None:
    """A division takes as long as the instructions for which it stands, one after the other."""
    device = load_chip("h200")
    latency = timing_of(Work("alu"), device, False).latency_cycles
    assert step("rem.u32 %r1, %r1, %r2;", 16) == pytest.approx(8 * latency, abs=0.5)
    assert timing_of(Work("alu", instructions=8), device, False).latency_cycles == 8 * latency


def test_groups_of_asynchronous_copies_are_waited_for_by_number() -> None:
    """wait_group 1 leaves the last group on its way, wait_group 0 and wait_all do not."""
    far = "".join(f"cp.async.ca.shared.global [%r4+{16 * n}], [%rd0+{2048 * n}], 16;\n" for n in range(2))
    groups = far.replace("16;\n", "16;\ncp.async.commit_group;\n")
    spin = "xor.b32 %r1, %r1, %r2;\n" * 40
    out = np.zeros(4096, np.uint32)

    def of(text: str) -> int:
        return cycles("mov.u32 %r4, there;\n" + text, out=out)

    none = of(groups + spin)
    waits = of(groups + "cp.async.wait_group 0;\n" + spin)
    everything = of(far + "cp.async.wait_all;\n" + spin)
    left = of(groups + "cp.async.wait_group 2;\n" + spin)
    assert waits > none + 100
    assert everything == pytest.approx(waits, abs=20)
    assert left == pytest.approx(none, abs=8)


def test_warps_that_end_with_loads_on_their_way_leave_their_slots_in_order() -> None:
    """A load that nobody waits for is still on its way when the next warp takes the slot."""
    out = np.zeros(1024, np.uint32)
    load = "mov.u32 %r5, %ctaid.x;\nmul.wide.u32 %rd1, %r5, 4;\nadd.u64 %rd1, %rd1, %rd0;\nld.global.u32 %r3, [%rd1];\n"
    many = cycles(load, blocks=1000, threads=256, out=out)
    assert many > cycles(load, blocks=10, threads=256, out=out)
    assert (out[0], out[1]) == (1, 2)


def writing(*numbers: int, reads: tuple[int, ...] = ()) -> Lowered:
    """An instruction that reads and writes registers."""
    b = Builder()
    for number in reads:
        b.op("get_reg", "i32", attr=number)
    for number in numbers:
        b.op("set_reg", "void", b.const(0), attr=number)
    return Lowered(b.ops)


def block_of(count: int) -> BasicBlock:
    return BasicBlock(0, 0, count, (), ())


def entries(program: list[Lowered], registers: int) -> dict[int, int]:
    """Scoreboard entry of each register of straight code."""
    from warpwright.isa.effects import register_effects

    code = Program("k", 80, [Instruction(16 * n, "MOV", (), ()) for n in range(len(program))], registers=registers)
    effects = [register_effects(one) for one in program]
    return {number: entry for (_, number), entry in entries_of(code, effects, [block_of(len(program))]).items()}


def test_registers_that_are_written_together_share_an_entry() -> None:
    found = entries([writing(4, 5, 6, 7), writing(9), writing(9, reads=(5,))], 4)
    assert found[4] == found[5] == found[6] == found[7] != found[9]
    assert min(found.values()) >= COUNTERS


def test_an_entry_is_given_to_another_register_when_its_own_is_read_for_the_last_time() -> None:
    """The one that has been free longest; registers in use at the same time never share."""
    straight = [one for n in range(100) for one in (writing(n), writing(200 + n, reads=(n,)))]
    found = entries(straight, 4)
    assert len(set(found.values())) <= 4 + 8
    assert all(found[n] != found[200 + n] for n in range(100))
    crowded = [*(writing(n) for n in range(50)), *(writing(99, reads=(n,)) for n in range(50))]
    assert len({entries(crowded, 4)[n] for n in range(50)}) == 50


def test_a_schedule_waits_for_what_is_read_and_written() -> None:
    lowered = [writing(1), writing(2, reads=(1,)), writing(1, reads=(2,))]
    program = Program("k", 80, [Instruction(16 * n, "MOV", (), ()) for n in range(3)], registers=8, control_bits=False)
    first, second, third = from_scoreboard(program, lowered, [block_of(3)], lambda i: Work("alu"))
    assert second.waits == tuple(sorted((first.write_counter, second.write_counter)))
    assert set(third.waits) == {first.write_counter, second.write_counter}
    assert all(issue.stall_cycles == 1 and issue.read_counter == -1 for issue in (first, second, third))


def test_every_ptx_opcode_has_a_row() -> None:
    """Both ways: a row for each meaning, a meaning for each row; and a unit for each type."""
    assert set(WORKS) == set(MEANINGS) | {"exit", "ret", "call", "mov"}
    types = (
        ("u32",),
        ("s64",),
        ("rn", "f32"),
        ("rn", "f64"),
        ("f16x2",),
        ("rn", "f16", "f32"),
        ("lo", "s32"),
        ("wide", "u32"),
        (),
    )
    chip = load_chip("h200")
    for opcode in (*WORKS, *STEPS):
        for modifiers in types:
            work = work_of(Instruction(0, opcode.upper(), modifiers, ()))
            assert work.traits <= set(UNITS[work.unit])
            assert timing_of(work, chip, False).interval_cycles >= 1
    with pytest.raises(UnknownTiming, match="opcode wibble has no timing row: wibble at 0x0010; use timing='off'"):
        work_of(Instruction(16, "WIBBLE", (), ()))


@pytest.mark.ci
@pytest.mark.parametrize(
    "name",
    ["matmul_tiled", "warp_match", "async_double_buffer", "constant_filter", "recursion_fibonacci", "switch_table"],
)
@pytest.mark.parametrize("chip", [pytest.param("v100", marks=pytest.mark.ci), "h200"])
def test_kernels_run_right_by_the_scoreboard(chip: str, name: str) -> None:
    """Results as machine code gives them; the run says what timed it."""
    one = case(name, "small")
    gpu = ww.GPU(chip, front_end="ptx", timing="full")
    if one.min_arch > gpu.chip.arch:
        pytest.skip(f"{name} needs sm_{one.min_arch}")
    run, arrays = one.run(gpu.compile(one.source, options=one.options))
    one.verify(arrays)
    assert run.cycles > 0
    assert run.schedule == run.to_dict()["schedule"] == "scoreboard"
    assert "by a scoreboard" in repr(run)


@pytest.mark.parametrize(
    "name", ["matmul_tiled", "nested_divergence", "integer_divide", "constant_filter", "call_noinline"]
)
def test_machine_code_of_g80_gets_a_schedule(name: str) -> None:
    """It has no control bits: each instruction has a unit with a row, and waits for the last write of every register that it reads."""
    one = case(name, "small")
    loaded = ww.GPU("g80", timing="off").compile(one.source, options=one.options)._loaded
    kernel = loaded.load(loaded.find(one.kernel))
    program, lowered = kernel.program, lowered_of(kernel)
    assert not program.control_bits
    blocks = basic_blocks(program, lowered)
    issues = schedule(program, lowered, blocks)
    assert [issue.address for issue in issues] == [i.address for i in program.instructions]
    assert all(issue.work.unit in UNITS for issue in issues)
    checked = 0
    for block in blocks:
        written: dict[tuple[str, int], int] = {}
        for issue in issues[block.first : block.first + block.count]:
            for register in issue.reads & written.keys():
                assert written[register] in issue.waits
                checked += 1
            written |= dict.fromkeys(issue.writes, issue.write_counter)
    assert checked > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("chip", ["p100", "v100", "a100", "h200"])
def test_the_whole_corpus_runs_right_by_the_scoreboard(chip: str, name: str) -> None:
    one = case(name, "small")
    try:
        run, arrays = one.run(ww.GPU(chip, front_end="ptx", timing="full").compile(one.source, options=one.options))
    except ww.CompileError:
        pytest.skip(f"its source file uses what {chip} does not have")
    one.verify(arrays)
    assert run.cycles > 0


def test_launches_of_ptx_share_a_chip_each_with_its_own_lists() -> None:
    """Two grids, whose rows and scoreboards lie in one table, take what each takes alone: they are on different SMs."""
    gpu = ww.GPU("h200", front_end="ptx", threads=1)
    source = r"""
    extern "C" __global__ void one(float *x) { float a = x[threadIdx.x]; for (int i = 0; i < 200; i++) a = a * 1.5f + 1.0f; x[threadIdx.x] = a; }
    extern "C" __global__ void two(int *x) { int a = x[threadIdx.x]; for (int i = 0; i < 100; i++) a = a * 3 + (a ^ i); x[threadIdx.x] = a; }
    """
    module = gpu.compile(source)

    arrays: list[ww.DeviceArray] = []  # kept as long as their launches

    def members() -> list[Member]:
        found = []
        for name, kind in (("one", np.float32), ("two", np.int32)):
            kernel = module[name]
            arrays.append(gpu.zeros(256, kind))
            packed = pack(kernel.parameters, name, (arrays[-1],), gpu.memory)
            found.append(Member(kernel[1, 256], bytes(packed.parameters)))
        return found

    alone = [launch_group([one])[0] for one in members()]
    together = launch_group(members())
    for one, both in zip(alone, together, strict=True):
        lasts = [timed.end_seconds - timed.begin_seconds for timed in (one, both)]
        assert lasts[1] == pytest.approx(lasts[0], rel=0.1)
        assert both.run.instructions == one.run.instructions


def test_a_sampled_launch_of_ptx_has_cycles() -> None:
    source = 'extern "C" __global__ void k(float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = x[i] * 2.0f + 1.0f; }'
    found = {}
    for timing in ("full", "sampled"):
        gpu = ww.GPU("h200", front_end="ptx", timing=timing)
        x = np.ones(1 << 21, np.float32)
        found[timing] = gpu.compile(source)["k"][1 << 13, 256](x).cycles
        assert (x == 3).all()
    assert found["sampled"] == pytest.approx(found["full"], rel=0.15)


def test_the_report_says_that_ptx_was_timed_by_a_scoreboard(tmp_path: object) -> None:
    from warpwright.tools.report.page import report_html

    source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = x[threadIdx.x] * 2.0f + 1.0f; }'
    pages = {}
    for front_end in ("sass", "ptx"):
        run = ww.GPU("a100", front_end=front_end).compile(source)["k"][1, 32](np.ones(32, np.float32))
        pages[front_end] = report_html([run])
        assert run.attribution().arithmetic.flops == 2 * 32
    note = "PTX, timed by a scoreboard: these are not the cycles of its machine code."
    assert note in pages["ptx"]
    assert note not in pages["sass"]

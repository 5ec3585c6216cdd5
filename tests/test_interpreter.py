"""The interpreter's warps and blocks: divergence, convergence barriers, block barriers, faults, deadlocks, traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.test_meaning import LANES, program_of
from warpwright.engine import numerics
from warpwright.engine.abi import SHARED_WINDOW, TAG_AFFINE, TAG_BLOCK, FaultKind, Status
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter import BlockState, Kernel, Launch, Outcome, run_block, run_grid
from warpwright.engine.interpreter.gather_scatter import GlobalBytes
from warpwright.isa.sass.lower import lower

BASE = 0x7F00_0000_1000


def make_launch(
    lines: Sequence[str], threads: int = LANES, blocks: int = 1, shared: int = 256, local: int = 64
) -> Launch:
    """A launch with 1 KiB of global memory at BASE, whose address is constant 0x160."""
    program = program_of(lines, shared_static_bytes=shared, local_bytes_per_thread=local)
    memory = GlobalBytes(np.zeros(4096, np.uint8), BASE, np.array([[BASE, BASE + 1024]], np.uint64))
    bank = bytearray(0x200)
    bank[0x160:0x168] = BASE.to_bytes(8, "little")
    kernel = Kernel(program, lower(program))
    return Launch(kernel, Geometry((blocks, 1, 1), (threads, 1, 1)), memory, {0: bank})


def run(lines: Sequence[str], threads: int = LANES, **more: int) -> tuple[Outcome, BlockState]:
    return run_block(make_launch(lines, threads, **more), (0, 0, 0))


def memory(block: BlockState) -> np.ndarray:
    return block.launch.globals.views[4][:256]


STORE_TID = ["S2R R0, SR_TID.X", "MOV R4, 0x4", "IMAD.WIDE.U32 R2, R0, R4, c[0x0][0x160]"]


def test_threads_store_their_index() -> None:
    outcome, block = run([*STORE_TID, "STG.E [R2], R0"], threads=70)
    assert outcome.status is Status.EXIT
    assert memory(block)[:72].tolist() == [*range(70), 0, 0]
    assert outcome.instructions == 5 * 3
    assert outcome.thread_instructions == 5 * 70


def test_diverged_lanes_meet_at_their_barrier() -> None:
    # Lanes below 16 take a detour; behind BSYNC all of them vote together.
    lines = [
        *STORE_TID,
        "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT",
        "BSSY B0, 0x70",
        "@P0 BRA 0x70",
        "MOV R5, 0x7",
        "BSYNC B0",
        "VOTE.ANY R6, PT, PT",
        "STG.E [R2], R6",
    ]
    outcome, block = run(lines)
    assert outcome.status is Status.EXIT
    assert memory(block)[:LANES].tolist() == [0xFFFFFFFF] * LANES


def test_break_leaves_a_barrier() -> None:
    # Odd lanes leave B0 and exit elsewhere; even lanes converge without them.
    lines = [
        *STORE_TID,
        "LOP3.LUT P0, RZ, R0, 0x1, RZ, 0xc0, !PT",
        "BSSY B0, 0xa0",
        "@!P0 BRA 0xa0",
        "BREAK B0",
        "MOV R6, 0x3",
        "STG.E [R2], R6",
        "EXIT",
        "BSYNC B0",
        "VOTE.ANY R6, PT, PT",
        "STG.E [R2], R6",
    ]
    outcome, block = run(lines)
    assert outcome.status is Status.EXIT
    assert memory(block)[:LANES].tolist() == [0x55555555, 3] * 16


SPIN = [
    "MOV R4, c[0x0][0x160]",
    "MOV R5, c[0x0][0x164]",
    "MOV R6, RZ",
    "MOV R7, 0x1",
]


def test_a_spin_lock_inside_one_warp_finishes() -> None:
    # while (atomicCAS(lock, 0, 1)); counter += 1; lock = 0;  with the critical section inside the loop
    lines = [
        *SPIN,
        "ATOMG.E.CAS.STRONG.GPU PT, R8, [R4], R6, R7",
        "ISETP.NE.AND P0, PT, R8, RZ, PT",
        "@P0 BRA 0x40",
        "LDG.E.STRONG.SYS R9, [R4+0x4]",
        "IADD3 R9, R9, 0x1, RZ",
        "STG.E.STRONG.SYS [R4+0x4], R9",
        "ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R4], RZ",
    ]
    outcome, block = run(lines)
    assert outcome.status is Status.EXIT
    assert memory(block)[:2].tolist() == [0, LANES]


def test_a_lock_holder_that_waits_for_the_spinning_lanes_is_released() -> None:
    # The holder reaches BSYNC while the others spin on its lock: YIELD in the loop lets it go on.
    lines = [
        *SPIN,
        "BSSY B0, 0xa0",
        "YIELD",
        "ATOMG.E.CAS.STRONG.GPU PT, R8, [R4], R6, R7",
        "ISETP.NE.AND P0, PT, R8, RZ, PT",
        "@P0 BRA 0x50",
        "BSYNC B0",
        "LDG.E.STRONG.SYS R9, [R4+0x4]",
        "IADD3 R9, R9, 0x1, RZ",
        "STG.E.STRONG.SYS [R4+0x4], R9",
        "ATOMG.E.EXCH.STRONG.GPU PT, RZ, [R4], RZ",
    ]
    outcome, block = run(lines)
    assert outcome.status is Status.EXIT
    assert memory(block)[:2].tolist() == [0, LANES]


def test_warpsync_waits_for_its_mask_only() -> None:
    # Lanes 0..15 gather among themselves, the others exit at once.
    lines = [
        *STORE_TID,
        "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT",
        "@P0 EXIT",
        "WARPSYNC 0xffff",
        "VOTE.ANY R6, PT, PT",
        "STG.E [R2], R6",
    ]
    outcome, block = run(lines)
    assert outcome.status is Status.EXIT
    assert memory(block)[:LANES].tolist() == [0xFFFF] * 16 + [0] * 16


def test_block_barrier_orders_shared_memory() -> None:
    # Every thread publishes its index and reads that of its mirror image.
    lines = [
        *STORE_TID,
        "SHF.L.U32 R5, R0, 0x2, RZ",
        "STS [R5], R0",
        "BAR.SYNC 0x0",
        "IADD3 R5, -R5, 0xfc, RZ",
        "LDS R6, [R5]",
        "STG.E [R2], R6",
    ]
    outcome, block = run(lines, threads=64)
    assert outcome.status is Status.EXIT
    assert memory(block)[:64].tolist() == list(range(63, -1, -1))


def test_exited_warps_are_not_expected_at_a_barrier() -> None:
    lines = [*STORE_TID, "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT", "@P0 EXIT", "BAR.SYNC 0x0", "STG.E [R2], R0"]
    outcome, _ = run(lines, threads=96)
    assert outcome.status is Status.EXIT


def test_reducing_barrier_counts_threads() -> None:
    lines = [
        *STORE_TID,
        "LOP3.LUT P0, RZ, R0, 0x3, RZ, 0xc0, !PT",
        "BAR.RED.POPC 0x0, P0",
        "B2R.RESULT R6, P1",
        "STG.E [R2], R6",
    ]
    outcome, block = run(lines, threads=64)
    assert outcome.status is Status.EXIT
    assert memory(block)[:64].tolist() == [48] * 64


def test_producers_arrive_and_consumers_wait() -> None:
    # Warp 1 arrives at barrier 1 without waiting; warp 0 waits for all 64 threads of it.
    lines = [
        *STORE_TID,
        "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT",
        "@!P0 BRA 0x80",
        "STS [RZ], R0",
        "BAR.ARV 0x1, 0x40",
        "EXIT",
        "BAR.SYNC 0x1, 0x40",
        "LDS R6, [RZ]",
        "STG.E [R2], R6",
    ]
    outcome, block = run(lines, threads=64)
    assert outcome.status is Status.EXIT
    assert memory(block)[0] == 63


def test_a_barrier_that_not_all_reach_is_a_deadlock() -> None:
    lines = [*STORE_TID, "ISETP.GE.U32.AND P0, PT, R0, 0x20, PT", "@P0 BRA 0x60", "BAR.SYNC 0x0", "BAR.SYNC 0x1"]
    outcome, _ = run(lines, threads=64)
    assert outcome.status is Status.DEADLOCK
    waits = [(w.warp_in_block, w.state, w.barrier, w.instruction) for w in outcome.waits]
    assert waits == [(0, "barrier", 0, 0x50), (1, "barrier", 1, 0x60)]


def test_out_of_bounds_is_a_fault_with_lanes() -> None:
    outcome, _ = run([*STORE_TID, "STG.E [R2+0x3c0], R0"])
    assert outcome.status is Status.FAULT
    assert outcome.fault is not None
    assert outcome.fault.kind is FaultKind.OUT_OF_BOUNDS
    assert outcome.fault.address == BASE + 1024
    assert outcome.fault.lanes == 0xFFFF0000
    assert (outcome.fault.instruction, outcome.fault.bytes) == (0x30, 4)


@pytest.mark.parametrize(
    ("line", "kind", "address"),
    [
        ("LDG.E.64 R6, [R2+0x4]", FaultKind.MISALIGNED, BASE + 4),
        ("LDS R6, [R0+0x100]", FaultKind.MISALIGNED, 0x101),
        ("LDS R6, [RZ+0x100]", FaultKind.SHARED_OUT_OF_BOUNDS, 0x100),
        ("STL [RZ+0x40], R0", FaultKind.LOCAL_OUT_OF_BOUNDS, 0x40),
    ],
)
def test_faults_name_their_kind(line: str, kind: FaultKind, address: int) -> None:
    outcome, _ = run([*STORE_TID, line])
    assert outcome.fault is not None
    assert (outcome.fault.kind, outcome.fault.address) == (kind, address)


def test_a_wild_branch_is_a_fault() -> None:
    outcome, _ = run(["MOV R2, 0x1234", "MOV R3, RZ", "RET.ABS.NODEC R2, 0x0"])
    assert outcome.fault is not None
    assert (outcome.fault.kind, outcome.fault.address) == (FaultKind.WILD_BRANCH, 0x1234)


def test_a_call_returns() -> None:
    lines = [*STORE_TID, "MOV R20, 0x60", "MOV R21, RZ", "CALL.REL.NOINC 0x80", "STG.E [R2], R6", "EXIT"]
    outcome, block = run([*lines, "MOV R6, 0x2a", "RET.REL.NODEC R20, -0xa0"])
    assert outcome.status is Status.EXIT
    assert memory(block)[:LANES].tolist() == [42] * LANES


def test_generic_addresses_reach_shared_memory() -> None:
    lines = [
        *STORE_TID,
        "SHF.L.U32 R6, R0, 0x2, RZ",
        f"MOV R7, {SHARED_WINDOW >> 32:#x}",
        "ST.E [R6], R0",
        "LDS R8, [R6]",
        "STG.E [R2], R8",
    ]
    outcome, block = run(lines)
    assert outcome.status is Status.EXIT
    assert memory(block)[:LANES].tolist() == list(range(LANES))


def test_local_memory_is_private() -> None:
    lines = [*STORE_TID, "STL.64 [RZ+0x8], R2", "STL [RZ+0xc], R0", "LDL R6, [RZ+0xc]", "STG.E [R2], R6"]
    outcome, block = run(lines)
    assert outcome.status is Status.EXIT
    assert memory(block)[:LANES].tolist() == list(range(LANES))


def test_shuffles_stay_in_their_segment() -> None:
    lines = [*STORE_TID, "SHFL.DOWN P0, R6, R0, 0x3, 0x181f", "@!P0 IADD3 R6, R6, 0x64, RZ", "STG.E [R2], R6"]
    _, block = run(lines)
    want = [n + 3 if n % 8 + 3 < 8 else n + 100 for n in range(LANES)]
    assert memory(block)[:LANES].tolist() == want


def test_blocks_may_wait_for_later_blocks() -> None:
    # Block 0 spins until block 1 has written.
    lines = [
        "S2R R0, SR_CTAID.X",
        "MOV R4, c[0x0][0x160]",
        "MOV R5, c[0x0][0x164]",
        "ISETP.NE.AND P0, PT, R0, RZ, PT",
        "@P0 BRA 0x80",
        "LDG.E.STRONG.SYS R6, [R4]",
        "ISETP.EQ.AND P1, PT, R6, RZ, PT",
        "@P1 BRA 0x50",
        "MOV R6, 0x1",
        "STG.E.STRONG.SYS [R4], R6",
    ]
    outcome = run_grid(make_launch(lines, blocks=2))
    assert outcome.status is Status.EXIT


def test_an_endless_kernel_stops_at_the_limit() -> None:
    outcome = run_grid(make_launch(["BRA 0x0"]), instruction_limit=10_000)
    assert outcome.status is Status.YIELD


def test_a_trap_is_reported() -> None:
    outcome, _ = run(["BPT.TRAP 0x1"])
    assert outcome.status is Status.TRAP


def test_trace_has_a_block_and_its_accesses() -> None:
    launch = make_launch([*STORE_TID, "@!PT STG.E [R2], R0", "STG.E [R2+0x8], R0"])
    _, block = run_block(launch, (0, 0, 0), trace=True)
    trace = block.warps[0].trace
    assert trace == [TAG_BLOCK << 60 | 0xFFFFFFFF, TAG_AFFINE << 60 | 4 << 32 | 0xFFFFFFFF, BASE + 8]


# --- numerics -------------------------------------------------------------------------------------
def test_directed_rounding_of_a_sum() -> None:
    one, tiny = (np.full(LANES, v, np.float32).view(np.uint32) for v in (1.0, 1e-20))
    results = {r: float(numerics.fadd("f32", one, tiny, r).view(np.float32)[0]) for r in ("rn", "rz", "rm", "rp")}
    up = float(np.nextafter(np.float32(1), np.float32(2)))
    assert results == {"rn": 1.0, "rz": 1.0, "rm": 1.0, "rp": up}


def test_exact_zero_sum_rounds_down_to_minus_zero() -> None:
    one, minus = (np.full(LANES, v, np.float32).view(np.uint32) for v in (1.0, -1.0))
    assert numerics.fadd("f32", one, minus, "rm")[0] == 0x80000000
    assert numerics.fadd("f32", one, minus, "rp")[0] == 0


def test_fma_keeps_the_product_exact() -> None:
    x = np.full(LANES, 1 + 2.0**-23, np.float32)
    square = -(x * x)
    got = numerics.fma("f32", x.view(np.uint32), x.view(np.uint32), square.view(np.uint32), "rn").view(np.float32)
    assert float(got[0]) == 2.0**-46


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_vector_fma_in_double_is_the_integers(rounding: str) -> None:
    random = np.random.default_rng(3)
    a, b, c = (random.integers(0, 1 << 64, 2000, dtype=np.uint64) for _ in range(3))
    middle = np.uint64(0x3FF << 52)
    fraction = np.uint64(0x800FFFFFFFFFFFFF)
    a[:1500], b[:1500] = a[:1500] & fraction | middle, b[:1500] & fraction | middle
    c[:800] = (-(a[:800].view(np.float64) * b[:800].view(np.float64))).view(np.uint64)
    with np.errstate(all="ignore"):
        got = numerics.fma64(a, b, c, rounding).view(np.float64)
        floats = [v.view(np.float64).tolist() for v in (a, b, c)]
        want = [numerics.scalar_fma64(x, y, z, rounding) for x, y, z in zip(*floats, strict=True)]
    np.testing.assert_array_equal(got, np.array(want, np.uint64).view(np.float64))


def test_mma_is_a_matrix_product() -> None:
    random = np.random.default_rng(5)
    a, b = random.integers(-8, 8, (16, 16)).astype(np.float16), random.integers(-8, 8, (16, 8)).astype(np.float16)
    c = random.integers(-8, 8, (16, 8)).astype(np.float32)
    group, thread = np.arange(LANES) // 4, np.arange(LANES) % 4

    def word(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return first.view(np.uint16).astype(np.uint32) | second.view(np.uint16).astype(np.uint32) << 16

    rows = [(group, 0), (group + 8, 0), (group, 8), (group + 8, 8)]
    fragments = [word(a[r, 2 * thread + k], a[r, 2 * thread + k + 1]) for r, k in rows]
    fragments += [word(b[2 * thread + k, group], b[2 * thread + k + 1, group]) for k in (0, 8)]
    places = [(group, 2 * thread), (group, 2 * thread + 1), (group + 8, 2 * thread), (group + 8, 2 * thread + 1)]
    fragments += [c[p].view(np.uint32) for p in places]
    results = numerics.mma(("m16n8k16", "f16", "f32", 4, 2, 4, 90), fragments)
    want = a.astype(np.float32) @ b.astype(np.float32) + c
    for place, got in zip(places, results, strict=True):
        np.testing.assert_array_equal(got.view(np.float32), want[place])


def test_mma_of_doubles_and_of_mixed_bytes() -> None:
    random = np.random.default_rng(7)
    group, thread = np.arange(LANES) // 4, np.arange(LANES) % 4
    a, b, c = random.normal(size=(8, 4)), random.normal(size=(4, 8)), random.normal(size=(8, 8))

    def words(values: np.ndarray) -> list[np.ndarray]:
        raw = np.ascontiguousarray(values).view(np.uint64)
        return [(raw >> np.uint64(shift)).astype(np.uint32) for shift in (0, 32)]

    operands = [a[group, thread], b[thread, group], c[group, 2 * thread], c[group, 2 * thread + 1]]
    fragments = [word for values in operands for word in words(values)]
    results = numerics.mma(("m8n8k4", "f64", "f64", 2, 2, 4, 80), fragments)
    got = results[2].astype(np.uint64) | results[3].astype(np.uint64) << np.uint64(32)
    np.testing.assert_allclose(got.view(np.float64), (a @ b + c)[group, 2 * thread + 1], rtol=1e-14, atol=1e-15)
    ones, twos = np.full(LANES, 0xFFFFFFFF, np.uint32), np.full(LANES, 0xFEFEFEFE, np.uint32)
    zero = np.zeros(LANES, np.uint32)
    results = numerics.mma(("m16n8k16", "s8u8", "s32", 2, 1, 4, 80), [ones, ones, twos, zero, zero, zero, zero])
    assert results[0].view(np.int32).tolist() == [-16 * 254] * LANES

"""Clients of one card: MPS's shares of SMs, contexts that take turns, whose fault ends whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.errors import ArgumentError, ExecutionError, UnsupportedError
from warpwright.launch_groups import Timed
from warpwright.sharing import ClientFailedError, ClientGPU, SharedGPU, sms_of_percentage
from warpwright.timing.context_switches import Resident, switch_seconds
from warpwright.timing.state import LoggedBlock

SOURCE = r"""
extern "C" __global__ void work(float *out, int rounds) {
    float a = threadIdx.x, b = 1, c = 2, d = 3;
    for (int i = 0; i < rounds; i++) { a = a * 1.01f + b; b = b * 1.01f + c; c = c * 1.01f + d; d = d * 1.01f + a; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}
extern "C" __global__ void sum(const float *x, float *out, int n, int rounds) {
    float total = 0;
    for (int round = 0; round < rounds; round++)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) total += __ldcg(x + i);
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
extern "C" __global__ void wild(float *out) { out[1 << 28] = 1; }
"""
SMS = 108


def tenants(mode: str, *shares: float, **changes: Any) -> tuple[SharedGPU, list[ClientGPU]]:
    card = SharedGPU(load_chip("a100", **changes), mode, threads=1)
    return card, [card.client(share) if mode == "mps" else card.client() for share in shares]


def work(gpu: ClientGPU, blocks: int, threads: int = 256, rounds: int = 60) -> Any:
    return gpu.compile(SOURCE)["work"][blocks, threads], (gpu.zeros(blocks * threads), rounds)


def wild(gpu: ClientGPU) -> Any:
    return gpu.compile(SOURCE)["wild"][1, 32], (gpu.zeros(32),)


def timed(outcome: Timed | ExecutionError) -> Timed:
    assert isinstance(outcome, Timed), outcome
    return outcome


def sms_of(one: Timed) -> set[int]:
    return set(one.run._timed("blocks").blocks[:, LoggedBlock.sm].tolist())


def most_at_once(one: Timed) -> int:
    """SMs that a launch was on at one time, from its blocks' log."""
    log = one.run._timed("blocks").blocks
    return max(
        len({int(row[LoggedBlock.sm]) for row in log if row[LoggedBlock.start] <= at < row[LoggedBlock.end]})
        for at in log[:, LoggedBlock.start].tolist()
    )


@pytest.mark.parametrize(("percentage", "sms"), [(100, 108), (50, 54), (25, 28), (10, 12), (1, 2), (99.9, 108)])
def test_a_percentage_is_rounded_up_to_whole_tpcs(percentage: float, sms: int) -> None:
    assert sms_of_percentage(SMS, percentage) == sms


@pytest.mark.parametrize("percentage", [0, -1, 101])
def test_wrong_percentages_are_refused(percentage: float) -> None:
    with pytest.raises(ArgumentError, match="must be above 0 and at most 100"):
        SharedGPU("a100").client(percentage)


@pytest.mark.ci
def test_clients_of_mps_run_at_once_on_the_sms_of_their_shares() -> None:
    card, (small, large) = tenants("mps", 25, 75)
    one, other = map(timed, card.launch(work(small, 4 * SMS), work(large, 4 * SMS)))
    assert most_at_once(one) == 28
    assert most_at_once(other) <= 82
    assert one.begin_seconds == other.begin_seconds == 0
    # The later client is not held up by the earlier one, which waits for its own SMs.
    assert other.run._timed("blocks").blocks[:, LoggedBlock.start].min() < 5000
    assert other.end_seconds < one.end_seconds


@pytest.mark.ci
def test_a_client_alone_stays_on_its_share_and_takes_as_much_longer() -> None:
    card, (half, whole) = tenants("mps", 50, 100)
    alone = timed(card.launch(work(half, 8 * SMS, 1024))[0])
    full = timed(card.launch(work(whole, 8 * SMS, 1024))[0])
    assert len(sms_of(alone)) == 54
    assert len(sms_of(full)) == SMS
    assert alone.run.seconds / full.run.seconds == pytest.approx(2, rel=0.15)


def test_clients_have_results_and_addresses_of_their_own() -> None:
    card, (one, other) = tenants("mps", 100, 100)
    xs = [gpu.array(np.full(4096, 1.0 + gpu.number, np.float32)) for gpu in (one, other)]
    outs = [gpu.zeros(1024) for gpu in (one, other)]
    assert xs[0].device_address() != xs[1].device_address()
    launches = [
        (gpu.compile(SOURCE)["sum"][4, 256], (x, out, 4096, 1))
        for gpu, x, out in zip((one, other), xs, outs, strict=True)
    ]
    for outcome in card.launch(*launches):
        timed(outcome)
    assert [float(out.get().sum()) for out in outs] == [4096, 8192]


@pytest.mark.ci
def test_clients_of_mps_share_l2_and_dram() -> None:
    """Two clients that stream take longer at once than alone, although each has its own SMs."""
    words = 1 << 22

    def stream(gpu: ClientGPU) -> Any:
        return gpu.compile(SOURCE)["sum"][2 * gpu.most_sms, 1024], (
            gpu.zeros(words),
            gpu.zeros(2 * gpu.most_sms * 1024),
            words,
            1,
        )

    card, (one, other) = tenants("mps", 50, 50)
    alone = timed(card.launch(stream(one))[0]).run.seconds
    both = [timed(outcome).run.seconds for outcome in card.launch(stream(one), stream(other))]
    assert min(both) > 1.15 * alone


def test_launches_of_one_client_follow_each_other() -> None:
    card, (one, other) = tenants("mps", 100, 100)
    first, beside, second = map(timed, card.launch(work(one, 54), work(other, 54), work(one, 54)))
    assert len(one.launches) == 2
    assert second.begin_seconds >= first.end_seconds
    assert beside.begin_seconds == 0


def test_a_fault_under_mps_ends_all_clients() -> None:
    card, (one, other) = tenants("mps", 50, 50)
    outcomes = card.launch(wild(one), work(other, 54))
    assert isinstance(outcomes[0], ExecutionError)
    assert "wild" in str(outcomes[0])
    assert isinstance(outcomes[1], ClientFailedError)
    assert "client 0 of MPS faulted" in str(outcomes[1])
    with pytest.raises(ClientFailedError, match="its client has failed"):
        card.launch(work(other, 1))


def test_a_client_that_has_failed_can_do_nothing_any_more() -> None:
    """Each call of a failed context returns its error, and MPS takes no new clients before it has ended."""
    card, (one, other) = tenants("mps", 50, 50)
    launcher, arguments = work(other, 1)
    launcher(*arguments)
    fault, wildly = wild(one)
    with pytest.raises(ExecutionError, match="wild"):
        fault(*wildly)  # a launch that is not of the card
    for client in (one, other):
        again, given = (fault, wildly) if client is one else (launcher, arguments)
        with pytest.raises(ClientFailedError, match=f"{again.kernel.name}: its client has failed"):
            again(*given)
        for call in (
            lambda gpu: gpu.zeros(1),
            lambda gpu: gpu.empty(1),
            lambda gpu: gpu.array([1]),
            lambda gpu: gpu.compile(""),
            lambda gpu: gpu.synchronize(),
        ):
            with pytest.raises(ClientFailedError, match=r"\(\): its client has failed"):
                call(client)
    with pytest.raises(
        ClientFailedError,
        match=r"client\(\): a fault of one client has ended all clients of this card; make a new SharedGPU. Client 0: out-of-bounds",
    ):
        card.client()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"active_thread_percentage": "all"}, "active_thread_percentage='all' must be above 0 and at most 100"),
        ({"memory_kib": -1}, "memory_kib=-1 must be above 0 and at most 41,943,040, the card's memory"),
        (
            {"memory_kib": 1 << 40},
            "memory_kib=1,099,511,627,776 must be above 0 and at most 41,943,040, the card's memory",
        ),
    ],
)
def test_a_client_that_cannot_be_is_refused_by_its_arguments(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        SharedGPU("a100").client(**arguments)
    assert str(refused.value) == said


def test_a_fault_of_a_launch_by_itself_ends_only_its_client_in_time_slices() -> None:
    card, (one, other) = tenants("time-slices", 100, 100)
    fault, wildly = wild(one)
    with pytest.raises(ExecutionError):
        fault(*wildly)
    with pytest.raises(ClientFailedError):
        one.zeros(1)
    timed(card.launch(work(other, 1))[0])
    card.client()


@pytest.mark.ci
def test_contexts_take_turns_in_slices() -> None:
    card, (one, other) = tenants("time-slices", 100, 100, time_slice_us=10, context_switch_us=2, context_warp_us=0)
    found = list(map(timed, card.launch(work(one, SMS, rounds=6000), work(other, SMS, rounds=6000))))
    clients = [each.client for each in card.slices]
    assert clients == [n % 2 for n in range(len(clients))]
    assert len(clients) >= 6
    spans = [each.end_seconds - each.begin_seconds for each in card.slices]
    assert spans[:-2] == pytest.approx([10e-6] * (len(spans) - 2), rel=0.1)
    gaps = [b.begin_seconds - a.end_seconds for a, b in zip(card.slices, card.slices[1:], strict=False)]
    assert card.switch_count == len(gaps)
    assert min(gaps) >= 1.99e-6
    alone = work(one, SMS, rounds=6000)
    whole = timed(card.launch(alone)[0])
    assert card.switch_count == 0
    for each in found:
        assert each.run.seconds == pytest.approx(whole.run.seconds, rel=0.02)
    # The second one's time on the card has all slices in it.
    assert found[1].end_seconds == pytest.approx(2 * whole.run.seconds + sum(gaps), rel=0.03)


@pytest.mark.ci
def test_a_switch_moves_registers_and_shared_memory() -> None:
    """The more state the blocks have, the longer a switch takes; an H200's (bench.machine.time_slices) within a tenth."""
    chip = load_chip("h200")
    few, all_warps = Resident(0, 1), Resident(264 * 1024 * 24 * 4, 64)
    shared = Resident(all_warps.size_bytes + 264 * (101 << 10), 64)
    for state, microseconds in ((few, 156), (all_warps, 230), (shared, 246)):
        assert switch_seconds(chip, [state, state]) * 1e6 == pytest.approx(microseconds, rel=0.1)
    card, (one, other) = tenants("time-slices", 100, 100, time_slice_us=10, context_switch_us=2)
    card.launch(work(one, SMS, 1024, 3000), work(other, 1, 32, 3000))
    gaps = [b.begin_seconds - a.end_seconds for a, b in zip(card.slices, card.slices[1:], strict=False)]
    registers = SMS * 1024 * 16 * 4
    warps = 32 * card.chip.launch.context_warp_us * 1e-6
    # The second client has nothing to restore at the first switch.
    assert gaps[0] == pytest.approx(2e-6 + warps + registers / 1.56e12, rel=0.2)
    assert gaps[1] == pytest.approx(gaps[0] + card.chip.launch.context_warp_us * 1e-6, rel=0.05)


@pytest.mark.ci
def test_a_context_finds_l2_as_the_other_left_it() -> None:
    """A kernel whose data fit into L2 reads them again after another context has gone through all of L2."""
    small, large = 1 << 19, 1 << 22

    def sums(gpu: ClientGPU, words: int, rounds: int) -> Any:
        return gpu.compile(SOURCE)["sum"][SMS, 1024], (gpu.zeros(words), gpu.zeros(SMS * 1024), words, rounds)

    def seconds(other_words: int) -> float:
        card, (one, other) = tenants("time-slices", 100, 100, l2_kib=10240, time_slice_us=12, context_switch_us=1)
        found = card.launch(sums(one, small, 24), sums(other, other_words, 24 * small // other_words))
        return timed(found[0]).run.seconds

    assert seconds(large) > 1.1 * seconds(1 << 15)


def test_a_fault_in_a_time_slice_ends_its_own_context() -> None:
    card, (one, other) = tenants("time-slices", 100, 100, time_slice_us=10)
    outcomes = card.launch(wild(one), work(other, 4))
    assert isinstance(outcomes[0], ExecutionError)
    timed(outcomes[1])
    timed(card.launch(work(other, 4))[0])
    with pytest.raises(ClientFailedError):
        card.launch(work(one, 1))


def test_wrong_uses_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"mode='mig' is not known; use one of 'mps', 'time-slices'"):
        SharedGPU("a100", "mig")
    with pytest.raises(UnsupportedError, match="p100 has MPS in software only"):
        SharedGPU("p100")
    card, (one,) = tenants("time-slices", 100)
    with pytest.raises(ArgumentError, match="belongs to mode='mps'"):
        card.client(50)
    whole = ww.GPU("a100")
    elsewhere = whole.compile(SOURCE)["work"][1, 32], (whole.zeros(32), 1)
    with pytest.raises(UnsupportedError, match="belongs to no client of this card"):
        card.launch(elsewhere)
    with pytest.raises(UnsupportedError, match="takes launches as pairs"):
        card.launch(one.compile(SOURCE)["work"][1, 32])  # type: ignore[arg-type]

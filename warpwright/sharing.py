"""Processes that share one simulated card: clients of MPS, whose kernels run at once, or contexts that take turns in time slices.

card = SharedGPU("a100", mode="mps")
one, other = card.client(active_thread_percentage=25), card.client()
one.compile(source)                                            # each client is a GPU of its own, with memory and errors of its own
card.launch((kernel[grid, block], arguments), (another[grid, block], arguments))

With MPS the clients' kernels share SMs, L2 and DRAM; a client's active-thread percentage limits the SMs that its blocks are on at once, and a fault of one
ends the work of all (MPS documentation, "Error Containment").  Without it, one context at a time has the chip: at the end of its slice the registers and shared
memory of its blocks are saved, and those of the next context restored; a fault ends its own context.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from warpwright.api import GPU
from warpwright.chips import load_chip
from warpwright.engine.device_memory import MOST_DEVICES
from warpwright.errors import ArgumentError, ExecutionError, UnsupportedError
from warpwright.launch_groups import GroupError, Member, Timed, hinders, launch_group
from warpwright.resident_launches import ResidentLaunches

if TYPE_CHECKING:
    from warpwright.api import Launcher
    from warpwright.engine.arguments import PackedArguments

MODES = ("mps", "time-slices")
FIRST_MPS_ARCH = 70
"""Volta: earlier chips have MPS in software, without percentages."""
TPC_SMS = 2
Launch = tuple["Launcher", Sequence[Any]]


def sms_of_percentage(sm_count: int, percentage: float) -> int:
    """SMs of a client with an active-thread percentage: rounded up to whole TPCs.

    Raises:
        ArgumentError: no percentage above 0 and up to 100.
    """
    if not 0 < percentage <= 100:
        raise ArgumentError(f"active_thread_percentage={percentage!r} must be above 0 and at most 100")
    wanted = math.ceil(sm_count * percentage / 100)
    return min(sm_count, -(-wanted // TPC_SMS) * TPC_SMS)


class ClientFailedError(ExecutionError):
    """A client that has failed, or was ended with another, launches a kernel, or had one that ran then."""


class ClientGPU(GPU):
    """A process on a shared card, as a GPU: its memory, its modules and its errors."""

    number: int
    most_sms: int
    """SMs that its blocks may be on at once."""
    failure: ExecutionError | None = None
    """Why it launches nothing any more."""


@dataclass(slots=True)
class Slice:
    """A stretch of the card's time that one client had."""

    client: int
    begin_seconds: float
    end_seconds: float


@dataclass(slots=True)
class _Turns:
    """A client's launches while clients take turns."""

    places: list[int]
    """Of its launches, among all."""
    resident: ResidentLaunches
    gpu: ClientGPU
    stretches: list[tuple[float, float, float]] = field(default_factory=list)
    """Beginning and end of its slices on its machine's clock, and the beginning on the card's."""
    ended: bool = False

    def on_card(self, seconds: float) -> float:
        """The card's time of a time of its machine's clock."""
        for begin, end, card in reversed(self.stretches):
            if seconds >= begin:
                return card + min(seconds, end) - begin
        return 0.0


class SharedGPU:
    """A card that several clients use.

    Args:
        chip: a chip's name.
        mode: ``"mps"`` or ``"time-slices"``.
        options: what every client's GPU is made with.  Launches are timed in full.

    Raises:
        ArgumentError: there is no such mode.
        UnsupportedError: MPS on a chip before Volta.
    """

    def __init__(self, chip: str = "a100", mode: str = "mps", **options: Any) -> None:
        if mode not in MODES:
            raise ArgumentError(f"mode={mode!r} is not known; use one of {', '.join(map(repr, MODES))}")
        self.chip = load_chip(chip)
        if mode == "mps" and self.chip.arch < FIRST_MPS_ARCH:
            raise UnsupportedError(
                f"{self.chip.name} has MPS in software only: use mode='time-slices', or a chip from v100 on"
            )
        self.mode = mode
        self.clients: list[ClientGPU] = []
        self.slices: list[Slice] = []
        """Who had the card when, during the last launch in time slices."""
        self.switch_count = 0
        """Context switches of that launch."""
        self._options = options

    def client(self, active_thread_percentage: float = 100) -> ClientGPU:
        """A further client.

        Raises:
            ArgumentError: no percentage above 0 and up to 100, or one below 100 without MPS.
            UnsupportedError: there are as many as can be.
        """
        sms = sms_of_percentage(self.chip.sm.sm_count, active_thread_percentage)
        if self.mode != "mps" and active_thread_percentage != 100:
            raise ArgumentError(
                "active_thread_percentage belongs to mode='mps': in time slices a client has the whole chip"
            )
        if len(self.clients) >= MOST_DEVICES:
            raise UnsupportedError(f"a shared card has at most {MOST_DEVICES} clients")
        # A number of its own gives a client addresses of its own, as L2 knows them.
        gpu = ClientGPU(self.chip, device=len(self.clients), caches="cold", **self._options)
        gpu.repeats = None
        gpu.number, gpu.most_sms = len(self.clients), sms
        self.clients.append(gpu)
        return gpu

    def launch(self, *launches: Launch) -> list[Timed | ExecutionError]:
        """Run kernels of several clients, those of one client in their order: the run and its times on the card's clock of each, or its error.

        Raises:
            UnsupportedError: a kernel of another card, or one that cannot run beside others.
            ArgumentError: arguments do not fit a kernel's parameters; nothing has run then.
            KeyboardInterrupt: Ctrl-C.
        """
        from warpwright.engine.arguments import pack

        if not launches or not all(isinstance(one, tuple | list) and len(one) == 2 for one in launches):
            raise UnsupportedError("launch() takes launches as pairs: (kernel[grid, block], (argument, …)), …")
        gpus = [self._client_of(launcher) for launcher, _ in launches]
        packed: list[PackedArguments] = []
        try:
            for launcher, arguments in launches:
                kernel = launcher.kernel
                packed.append(pack(kernel.parameters, kernel.name, arguments, kernel.gpu.memory))
            members = [
                Member(
                    launcher,
                    bytes(one.parameters),
                    client=gpu.number,
                    most_sms=gpu.most_sms if gpu.most_sms < self.chip.sm.sm_count else 0,
                )
                for (launcher, _), one, gpu in zip(launches, packed, gpus, strict=True)
            ]
            found = self._at_once(members, gpus) if self.mode == "mps" else self._in_turn(members, gpus)
            for one, outcome in zip(packed, found, strict=True):
                if isinstance(outcome, Timed):
                    one.copy_back()
        finally:
            for one in packed:
                one.release()
        return found

    def _client_of(self, launcher: Launcher) -> ClientGPU:
        gpu = launcher.kernel.gpu
        if not isinstance(gpu, ClientGPU) or gpu not in self.clients:
            raise UnsupportedError(f"{launcher.kernel.name} belongs to no client of this card")
        if gpu.timing != "full":
            raise UnsupportedError(f"{launcher.kernel.name}: clients run with timing='full'")
        if gpu.failure is not None:
            raise ClientFailedError(f"{launcher.kernel.name}: its client has failed: {gpu.failure}")
        return gpu

    # --- MPS --------------------------------------------------------------------------------------
    def _at_once(self, members: Sequence[Member], gpus: Sequence[ClientGPU]) -> list[Timed | ExecutionError]:
        for member in members:
            reason = hinders(member.launcher)
            if reason:
                raise UnsupportedError(
                    f"{member.launcher.kernel.name} cannot run beside other clients' kernels: {reason}; use mode='time-slices'"
                )
        try:
            found = launch_group(_in_order(members))
        except GroupError as failure:
            return self._ended(failure, gpus)
        for one, gpu in zip(found, gpus, strict=True):
            gpu.launches.append(one.run)
        return list(found)

    def _ended(self, failure: GroupError, gpus: Sequence[ClientGPU]) -> list[Timed | ExecutionError]:
        """A fault in one client's kernel, which ends all clients."""
        if not isinstance(failure.error, ExecutionError):
            raise failure.error
        at_fault = gpus[failure.place].number
        for gpu in self.clients:
            gpu.failure = (
                failure.error
                if gpu.number == at_fault
                else ClientFailedError(
                    f"client {at_fault} of MPS faulted, which ends all clients of the card: {failure.error}"
                )
            )
        return [failure.error if place == failure.place else _failure_of(gpu) for place, gpu in enumerate(gpus)]

    # --- time slices --------------------------------------------------------------------------------
    def _in_turn(self, members: Sequence[Member], gpus: Sequence[ClientGPU]) -> list[Timed | ExecutionError]:
        turns: list[_Turns] = []
        found: dict[int, Timed | ExecutionError] = {}
        self.slices, self.switch_count = [], 0
        try:
            for gpu in dict.fromkeys(gpus):
                places = [place for place, one in enumerate(gpus) if one is gpu]
                own = _in_order([members[place] for place in places])
                if len(own) > 1 and any(hinders(member.launcher) for member in own):
                    raise UnsupportedError(
                        f"client {gpu.number} has several kernels, one of which runs alone: give launch() one at a time"
                    )
                turns.append(_Turns(places, ResidentLaunches(own, timed=True), gpu))
            _take_turns(self, turns, found)
        finally:
            for one in turns:
                one.resident.close()
        return [found[place] for place in range(len(members))]


def _failure_of(gpu: ClientGPU) -> ExecutionError:
    assert gpu.failure is not None
    return gpu.failure


def _in_order(members: Sequence[Member]) -> list[Member]:
    """Each client's launches after its earlier ones."""
    last: dict[int, int] = {}
    found = []
    for place, member in enumerate(members):
        found.append(replace(member, after=(last[member.client],) if member.client in last else ()))
        last[member.client] = place
    return found


def _take_turns(card: SharedGPU, turns: Sequence[_Turns], found: dict[int, Timed | ExecutionError]) -> None:
    """Run each client for a slice after the other, until all have ended."""
    from warpwright.timing.context_switches import resident_bytes, take_over, transfer_cycles

    costs, clock = card.chip.launch, card.chip.clocks.sm_clock_mhz * 1e6
    slice_seconds, switch_seconds = costs.time_slice_us * 1e-6, costs.context_switch_us * 1e-6
    now, before = 0.0, None
    waiting = list(turns)
    while waiting:
        one = waiting.pop(0)
        if before is not None and before is not one:
            card.switch_count += 1
            moved = sum(0 if each.ended else resident_bytes(each.resident.machine) for each in (before, one))
            now += switch_seconds + transfer_cycles(card.chip, moved) / clock
        began = one.resident.now_seconds
        until = began + slice_seconds if waiting else None
        take_over(one.resident.machine, before.resident.machine if before is not None else None, round(now * clock))
        one.stretches.append((began, math.inf, now))
        results: dict[int, Timed] = {}
        try:
            while not one.resident.done and (until is None or one.resident.now_seconds < until):
                results |= one.resident.run(until)
        except GroupError as failure:
            if not isinstance(failure.error, ExecutionError):
                raise failure.error from None
            one.ended, one.gpu.failure = True, failure.error
        spent = one.resident.now_seconds - began
        one.stretches[-1] = (began, began + spent, now)
        card.slices.append(Slice(one.gpu.number, now, now + spent))
        for place, timed in results.items():
            found[one.places[place]] = Timed(
                timed.run, one.on_card(timed.begin_seconds), one.on_card(timed.end_seconds)
            )
            one.gpu.launches.append(timed.run)
        now, before = now + spent, one
        one.ended = one.ended or one.resident.done
        if not one.ended:
            waiting.append(one)
        elif one.gpu.failure is not None:
            for place in one.places:
                found.setdefault(place, one.gpu.failure)

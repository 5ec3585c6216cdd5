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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from warpwright.api import GPU
from warpwright.chips import Chip, load_chip
from warpwright.engine.host_mappings import MOST_DEVICES
from warpwright.errors import ArgumentError, ExecutionError, UnsupportedError, whole_number
from warpwright.launch_groups import GroupError, Member, Timed, hinders, launch_group
from warpwright.resident_launches import ResidentLaunches

if TYPE_CHECKING:
    from warpwright.arrays import DeviceArray
    from warpwright.engine.arguments import PackedArguments
    from warpwright.kernel import Launcher, Module

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
    if not isinstance(percentage, Real) or not 0 < percentage <= 100:
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
    fails_with: Sequence[ClientGPU] = ()
    """The clients that a fault of this one ends: all of the card under MPS, otherwise only itself."""

    def check_alive(self, what: str) -> None:
        """Refuse a client that has failed, as each call of a process with such a context does.

        Raises:
            ClientFailedError: it has failed.
        """
        if self.failure is not None:
            raise ClientFailedError(f"{what}: its client has failed: {self.failure}")

    def launch_failed(self, error: ExecutionError) -> None:
        """End the client, and under MPS all others, after a launch that has failed."""
        if self.failure is not None:
            return
        self.failure = error
        for other in self.fails_with:
            if other is not self:
                other.failure = ClientFailedError(
                    f"client {self.number} of MPS faulted, which ends all clients of the card: {error}"
                )

    def compile(self, *arguments: Any, **options: Any) -> Module:
        """As for :meth:`warpwright.GPU.compile`, unless the client has failed."""
        self.check_alive("compile()")
        return super().compile(*arguments, **options)

    def array(self, *arguments: Any, **options: Any) -> DeviceArray:
        """As for :meth:`warpwright.GPU.array`, unless the client has failed; ``zeros`` and ``empty`` likewise."""
        self.check_alive("array()")
        return super().array(*arguments, **options)

    def zeros(self, *arguments: Any, **options: Any) -> DeviceArray:
        self.check_alive("zeros()")
        return super().zeros(*arguments, **options)

    def empty(self, *arguments: Any, **options: Any) -> DeviceArray:
        self.check_alive("empty()")
        return super().empty(*arguments, **options)

    def synchronize(self) -> None:
        """Report the client's failure, if it has failed."""
        self.check_alive("synchronize()")
        super().synchronize()


@dataclass(slots=True)
class Slice:
    """A stretch of the card's time that one client had."""

    client: int
    begin_seconds: float
    end_seconds: float


@dataclass(slots=True)
class _Turns:
    """A client's launches while clients take turns; each is on a machine of its own."""

    gpu: ClientGPU
    ahead: list[tuple[int, Member]]
    """Launches that have not begun, with their places among all."""
    place: int = -1
    """Of the launch that has begun."""
    resident: ResidentLaunches | None = None
    stretches: list[tuple[float, float, float]] = field(default_factory=list)
    """Beginning and end of its stretches on its machine's clock, and the beginning on the card's."""

    @property
    def ended(self) -> bool:
        return self.resident is None and not self.ahead

    def running(self) -> ResidentLaunches:
        """The launch that has begun, or the next."""
        if self.resident is None:
            self.place, member = self.ahead.pop(0)
            self.resident = ResidentLaunches([member], timed=True)
            self.stretches = []
        return self.resident

    def on_card(self, seconds: float) -> float:
        """The card's time of a time of the machine's clock."""
        for begin, end, card in reversed(self.stretches):
            if seconds >= begin:
                return card + min(seconds, end) - begin
        return 0.0


class SharedGPU:
    """A card that several clients use.

    Args:
        chip: a chip's name, or a chip.
        mode: ``"mps"`` or ``"time-slices"``.
        options: what every client's GPU is made with.  Launches are timed in full.

    Raises:
        ArgumentError: there is no such mode.
        UnsupportedError: MPS on a chip before Volta.
    """

    def __init__(self, chip: str | Chip = "a100", mode: str = "mps", **options: Any) -> None:
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

    def client(self, active_thread_percentage: float = 100, *, memory_kib: int | None = None) -> ClientGPU:
        """A further client.

        Args:
            active_thread_percentage: of the chip's SMs, rounded up to whole TPCs; other values than 100 need ``mode='mps'``.
            memory_kib: the client's share of the card's memory, in KiB; by default all that is free.

        Raises:
            ArgumentError: the percentage is not above 0 and at most 100, or is below 100 without MPS; or the size is not valid.
            UnsupportedError: the card has the maximum number of clients.
            ClientFailedError: under MPS, a client has faulted.
        """
        if self.mode == "mps":
            failures = [(one, one.failure) for one in self.clients if one.failure is not None]
            failed = next((one for one, failure in failures if not isinstance(failure, ClientFailedError)), None)
            if failed is not None:
                raise ClientFailedError(
                    f"client(): a fault of one client has ended all clients of this card; make a new SharedGPU. Client {failed.number}: {failed.failure}"
                )
        sms = sms_of_percentage(self.chip.sm.sm_count, active_thread_percentage)
        if self.mode != "mps" and active_thread_percentage != 100:
            raise ArgumentError(
                "active_thread_percentage belongs to mode='mps': in time slices a client has the whole chip"
            )
        if memory_kib is not None:
            whole_number("client(memory_kib)", memory_kib)
            if not 0 < memory_kib <= self.chip.dram.dram_kib:
                raise ArgumentError(
                    f"memory_kib={memory_kib:,} must be above 0 and at most {self.chip.dram.dram_kib:,}, the card's memory"
                )
        if len(self.clients) >= MOST_DEVICES:
            raise UnsupportedError(f"a shared card has at most {MOST_DEVICES} clients")
        # A number of its own gives a client addresses of its own, as L2 knows them.
        chip = self.chip if memory_kib is None else load_chip(self.chip, dram_kib=memory_kib)
        gpu = ClientGPU(chip, device=len(self.clients), caches="cold", **self._options)
        gpu.repeats = None
        gpu.number, gpu.most_sms = len(self.clients), sms
        gpu.fails_with = self.clients if self.mode == "mps" else ()
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
        gpu.check_alive(launcher.kernel.name)
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
        gpus[failure.place].launch_failed(failure.error)
        return [failure.error if place == failure.place else _failure_of(gpu) for place, gpu in enumerate(gpus)]

    # --- time slices --------------------------------------------------------------------------------
    def _in_turn(self, members: Sequence[Member], gpus: Sequence[ClientGPU]) -> list[Timed | ExecutionError]:
        turns = [
            _Turns(gpu, [(place, members[place]) for place, one in enumerate(gpus) if one is gpu])
            for gpu in dict.fromkeys(gpus)
        ]
        taken = _TakenTurns(self, turns)
        self.slices, self.switch_count = [], 0
        try:
            taken.run()
        finally:
            taken.close()
        return [taken.found[place] for place in range(len(members))]


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


class _TakenTurns:
    """Clients that have the card for a slice after the other, until all have ended."""

    def __init__(self, card: SharedGPU, turns: Sequence[_Turns]) -> None:
        self.card, self.turns = card, turns
        self.found: dict[int, Timed | ExecutionError] = {}
        """By the place of the launch."""
        self._now = 0.0
        self._clock = card.chip.clocks.sm_clock_mhz * 1e6
        self._last: ResidentLaunches | None = None
        """The machine that ran last, which has L2."""

    def run(self) -> None:
        """Run them all."""
        slice_seconds = self.card.chip.launch.time_slice_us * 1e-6
        waiting, before = list(self.turns), None
        while waiting:
            one = waiting.pop(0)
            if before is not None and before is not one:
                self._switch(before, one)
            began = self._now
            while not one.ended and (not waiting or self._now - began < slice_seconds):
                self._stretch(one, slice_seconds - (self._now - began) if waiting else None)
            self.card.slices.append(Slice(one.gpu.number, began, self._now))
            before = one
            if not one.ended:
                waiting.append(one)

    def _switch(self, before: _Turns, one: _Turns) -> None:
        """Let the time of a context switch pass."""
        from warpwright.timing.context_switches import resident_state, switch_seconds

        self.card.switch_count += 1
        states = [resident_state(each.resident.machine) for each in (before, one) if each.resident is not None]
        self._now += switch_seconds(self.card.chip, states)

    def _stretch(self, one: _Turns, most_seconds: float | None) -> None:
        """Run a client's launch for a time at most, or to its end."""
        from warpwright.timing.context_switches import take_over

        resident = one.running()
        self._take_l2(resident, take_over)
        began = resident.now_seconds
        until = None if most_seconds is None else began + most_seconds
        one.stretches.append((began, math.inf, self._now))
        failure: ExecutionError | None = None
        results: dict[int, Timed] = {}
        try:
            while not resident.done and (until is None or resident.now_seconds < until):
                results |= resident.run(until)
        except GroupError as failed:
            if not isinstance(failed.error, ExecutionError):
                raise failed.error from None
            failure = failed.error
        spent = resident.now_seconds - began
        one.stretches[-1] = (began, began + spent, self._now)
        self._now += spent
        if failure is not None:
            self._fail(one, failure)
        elif resident.done:
            timed = results[0]
            self.found[one.place] = Timed(timed.run, one.on_card(timed.begin_seconds), one.on_card(timed.end_seconds))
            one.gpu.launches.append(timed.run)
            one.resident = None

    def _take_l2(self, resident: ResidentLaunches, take_over: Callable[..., None]) -> None:
        last = self._last
        take_over(resident.machine, last.machine if last is not None else None, round(self._now * self._clock))
        if last is not None and last is not resident and all(one.resident is not last for one in self.turns):
            last.close()
        self._last = resident

    def _fail(self, one: _Turns, failure: ExecutionError) -> None:
        """A client's launch has failed, and with it the client."""
        one.gpu.failure = failure
        for place in (one.place, *(place for place, _ in one.ahead)):
            self.found[place] = failure
        one.ahead.clear()
        one.resident = None

    def close(self) -> None:
        """Give all machines up."""
        for resident in {self._last, *(one.resident for one in self.turns)}:
            if resident is not None:
                resident.close()

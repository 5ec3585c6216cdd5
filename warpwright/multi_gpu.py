"""A machine of several GPUs in one process: their memories, peer access, and what copies between them take.

node = System("dgx-1")
node.gpus[3].compile(source)
node.enable_peer_access(0, 3)          # kernels of GPU 0 may use arrays of GPU 3
print(node.topology())
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from warpwright.api import GPU
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.session import session
from warpwright.system import (
    Machine,
    Route,
    connect,
    load_machine,
    managed_memory_of,
    relay_route,
    route,
    topology_matrix,
)

if TYPE_CHECKING:
    import numpy as np

    from warpwright.arrays import DeviceArray
    from warpwright.engine.host_coherence import HostAccess, ShootDown
    from warpwright.kernel import Launcher
    from warpwright.run import Run


class System:
    """The GPUs of a machine.

    Args:
        name: a machine's name (see ``warpwright system list``) or the path of a TOML file.  The machine of ``warpwright run --system``
            replaces it.
        options: what every GPU is made with, as ``timing="off"``.

    Raises:
        MachineError: unknown machine, or a description that is wrong.
        ChipError: unknown chip or field, or a value out of range.
    """

    def __init__(self, name: str | None = None, **options: Any) -> None:
        wanted = session.system or name
        if wanted is None:
            raise UnsupportedError(
                "no machine is given: name one (warpwright system list), or use warpwright run --system"
            )
        self.machine: Machine = load_machine(wanted)
        if session.chip is not None and session.system is None:
            session.machines.add(self.machine.name)
        options = {"caches": "cold", **options}
        self.gpus: tuple[GPU, ...] = tuple(
            GPU(chip, device=ordinal, **options) for ordinal, chip in enumerate(self.machine.gpus)
        )
        managed = managed_memory_of(self.machine)
        for ordinal, gpu in enumerate(self.gpus):
            gpu.repeats = None
            connect(self.machine, gpu.memory, ordinal, managed)
        self._open: set[tuple[int, int]] = set()

    def can_access(self, first: int, second: int) -> bool:
        """Whether kernels of the first GPU may be given access to the second one's memory."""
        return self.route(first, second) is not None

    def enable_peer_access(self, first: int, second: int) -> None:
        """Let kernels of the first GPU use arrays of the second one, including later allocations.

        Raises:
            UnsupportedError: the machine has no such route, as ``cudaErrorPeerAccessUnsupported``.
            ArgumentError: both are the same GPU, or not given as numbers.
            IndexError: there is no such GPU.
        """
        self._check(first, second)
        if first == second:
            raise ArgumentError(f"enable_peer_access({first}, {second}): a GPU always has access to its own memory")
        if not self.can_access(first, second):
            raise UnsupportedError(
                f"GPU {first} of {self.machine.name} cannot access the memory of GPU {second}: they share no NVLink and no PCI Express within one "
                "processor (warpwright system show); copy through the host, or through a GPU that both can access"
            )
        if (first, second) not in self._open:
            self._open.add((first, second))
            self.gpus[second].memory.open_to(self.gpus[first].memory)

    def disable_peer_access(self, first: int, second: int) -> None:
        """Undo :meth:`enable_peer_access`: a later access of the first GPU's kernels is a fault.

        Raises:
            ArgumentError: the access is not enabled, as ``cudaErrorPeerAccessNotEnabled``, or a GPU is not given as a number.
            IndexError: there is no such GPU.
        """
        self._check(first, second)
        if (first, second) not in self._open:
            raise ArgumentError(
                f"disable_peer_access({first}, {second}): GPU {first} has no access to the memory of GPU {second}"
            )
        self._open.remove((first, second))
        self.gpus[second].memory.close_to(self.gpus[first].memory)

    def launch(self, *launches: tuple[Launcher, Sequence[Any]], cooperative: bool = False) -> list[Run]:
        """Run one kernel on each of several GPUs, all at once: they begin at the same simulated moment and may wait for each other.

        Args:
            launches: a launcher (``kernel[grid, block]``) and its arguments, for each GPU that takes part.
            cooperative: as ``cudaLaunchCooperativeKernelMultiDevice``: ``multi_grid_group`` has the grids of all, in the order of the launches.

        Returns:
            The runs, in the order of the launches; arrays of the host have their results.

        Raises:
            ArgumentError: there are no launches, a launch is not such a pair, a kernel belongs to no GPU of this machine, or arguments do not fit a kernel's parameters.
            UnsupportedError: two launches on one GPU, a kernel that cannot run beside others, or GPUs of a cooperative launch that peer access does not join.
            LaunchError: a cooperative grid does not fit its chip, or kernels, grids or blocks of a cooperative launch differ.
            ExecutionError: a fault, a trap or a deadlock; the remaining launches are abandoned.
        """
        from warpwright.device_launches import DeviceMember, launch_on_devices
        from warpwright.engine.arguments import pack

        numbers = [self._number_of(launch) for launch in launches]
        if not numbers:
            raise ArgumentError("launch() takes at least one pair (kernel[grid, block], arguments)")

        def reaches(first: int, second: int) -> bool:
            return self.can_access(numbers[first], numbers[second])

        packed = []
        try:
            for launcher, arguments in launches:
                kernel = launcher.kernel
                packed.append(pack(kernel.parameters, kernel.name, arguments, kernel.gpu.memory))
            runs = launch_on_devices(
                [
                    DeviceMember(launcher, bytes(one.parameters))
                    for (launcher, _), one in zip(launches, packed, strict=True)
                ],
                reaches=reaches if cooperative else None,
            )
            for one in packed:
                one.copy_back()
        finally:
            for one in packed:
                one.release()
        for (launcher, _), run in zip(launches, runs, strict=True):
            launcher.kernel.gpu.launches.append(run)
        return runs

    def host_accesses(self, array: DeviceArray) -> HostAccess:
        """Let the processor load or store an array of a GPU, whose lines its caches then have: the GPU's next request for each of them probes the processor.

        Returns:
            How many lines it fetched, how many the GPU took back to stay below its probe filter's watermark, and what a full filter cost.

        Raises:
            UnsupportedError: the machine's processors cannot cache GPUs' memory.
        """
        probes = array.memory.probe_filter
        if probes is None:
            raise UnsupportedError(
                f"the processors of {self.machine.name} do not cache GPUs' memory: its file has no [probe_filter] (ac922 has one)"
            )
        return probes.host_accesses(array.device_address(), array.nbytes)

    def host_remaps(self, array: np.ndarray[Any, Any]) -> list[ShootDown]:
        """Let the processor remap the pages of an array of its own memory, for example because it moves them: each GPU forgets its translations of them.

        Memory that the process gives back needs no call: the next launch finds it gone.

        Returns:
            For each GPU, the translations that it had, and the time until its acknowledgement.

        Raises:
            UnsupportedError: the machine's GPUs do not use the processor's page tables.
        """
        address = int(array.ctypes.data)
        done = [gpu.memory.remap_host(address, address + array.nbytes) for gpu in self.gpus]
        found = [one for one in done if one is not None]
        if not found:
            raise UnsupportedError(
                f"the GPUs of {self.machine.name} do not use the processor's page tables: its file has no [address_translation] (ac922 has one)"
            )
        return found

    def route(self, first: int, second: int) -> Route | None:
        """How packets get from one GPU to another; None where peer access is refused.

        Raises:
            IndexError: there is no such GPU.
        """
        self._check(first, second)
        return route(self.machine, first, second)

    def relay(self, first: int, second: int) -> tuple[tuple[int, ...], float]:
        """The GPUs along the widest of the shortest paths over NVLink, ends included, and the GB/s of a copy over it; empty if there is no path.

        Raises:
            IndexError: there is no such GPU.
        """
        self._check(first, second)
        return relay_route(self.machine, first, second)

    def topology(self) -> str:
        """The matrix of connections, in the form of ``nvidia-smi topo -m``."""
        return topology_matrix(self.machine)

    def _check(self, *ordinals: int) -> None:
        """Raises IndexError for the number of a GPU that the machine lacks, and ArgumentError for what is not a whole number."""
        for ordinal in ordinals:
            if not isinstance(ordinal, Integral):
                raise ArgumentError(f"a GPU's number is expected (0 for gpus[0]), not {type(ordinal).__name__}")
            if not 0 <= ordinal < len(self.gpus):
                raise IndexError(f"{self.machine.name} has no GPU {ordinal}: its GPUs are 0 to {len(self.gpus) - 1}")

    def _number_of(self, launch: object) -> int:
        """The number of a launch's GPU.

        Raises:
            ArgumentError: it is not a launch, or its kernel belongs to no GPU of this machine.
        """
        from warpwright.kernel import Kernel, Launcher

        match launch:
            case (Launcher() as launcher, list() | tuple()):
                pass
            case (Kernel() as kernel, _):
                raise ArgumentError(
                    f"launch() takes {kernel.name} with its grid and block: (kernel[grid, block], [argument, …])"
                )
            case (Launcher() as launcher, arguments):
                raise ArgumentError(
                    f"the arguments of {launcher.kernel.name} are given as a list or tuple, not as {type(arguments).__name__}"
                )
            case _:
                raise ArgumentError(
                    f"launch() takes pairs (kernel[grid, block], [argument, …]), not {type(launch).__name__}"
                )
        number = next((n for n, gpu in enumerate(self.gpus) if gpu is launcher.kernel.gpu), None)
        if number is None:
            raise ArgumentError(
                f"kernel {launcher.kernel.name} does not belong to a GPU of this machine; compile it with gpus[i].compile()"
            )
        return number

    def __repr__(self) -> str:
        return f"<System {self.machine.name} ({self.machine.product}), {len(self.gpus)} GPUs>"

"""Speed of the cycle model with several GPUs at once: ``python -m bench.all_reduce_speed [--system dgx-1] [--mebibytes 4] [--threads 1] [--turns 2]``.

Compares a ring all-reduce of all GPUs of a machine with the same kernel on one GPU, which takes itself for its neighbour: the same instructions over as much memory, without links
and without waiting.  Speed is per second of the host's threads that run windows (CPU time with one thread, elapsed time times threads with several), so one GPU's share of the time is
its own.  A GPU that waits for its links issues few instructions while its cycles pass, so speeds are printed in warp instructions and in cycles of a GPU; the lowest time of
``--turns`` turns counts, and the turns of both cases alternate.  The first launches of a process compile or load the model; they are not counted.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from warpwright.multi_gpu import System
from warpwright.studies import all_reduce as study


@dataclass(frozen=True, slots=True)
class Speed:
    """One run: seconds of host threads, and what all GPUs did in them."""

    seconds: float
    instructions: int
    cycles: int
    """Of all GPUs."""
    bytes_per_gpu: int

    def line(self, name: str) -> str:
        """A row of the table."""
        rates = f"{self.instructions / self.seconds / 1e6:8.2f} {self.cycles / self.seconds / 1e6:8.3f}"
        return f"{name:20} {self.instructions / 1e6:10.2f} {self.cycles / 1e3:10.0f} {self.seconds:8.2f} {rates}"


def run(node: System, order: tuple[int, ...], count: int, mebibytes: int) -> Speed:
    """A ring of ``count`` ranks on the GPUs of ``order``; with one GPU its rank is the first, and it is its own neighbour."""
    memory = study.Memory(node, mebibytes, 1)
    chunk = np.int32(memory.size // study.VECTOR_BYTES // count)
    pairs = list(pairwise((*order, order[0])))
    kernels, launches = study._kernels(node, "ring"), []
    for rank, (own, following) in enumerate(pairs):
        if own != following:
            node.enable_peer_access(own, following)
        addresses = [np.uint64(one) for one in (*memory.addresses(own), *memory.addresses(following))]
        launches.append((kernels[own], (*addresses, np.int32(rank), np.int32(count), chunk)))
    runs = node.launch(*launches)
    assert len(order) < count or memory.right()
    threads = min(node.gpus[0].threads, len(order))
    timings = [one.timing for one in runs if one.timing is not None]
    wall, cpu = sum(one.wall_seconds for one in timings), sum(one.cpu_seconds for one in timings)
    return Speed(
        cpu if threads == 1 else wall * threads,
        sum(one.instructions for one in runs),
        sum(one.cycles for one in runs),
        memory.bytes_per_gpu,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", default="dgx-1")
    parser.add_argument("--mebibytes", type=int, default=4, help="of each GPU's values")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    node = System(arguments.system, threads=arguments.threads)
    ring = study.best_ring(node)
    cases = {"one GPU": ring[:1], f"{len(ring)} GPUs": ring}
    for order in cases.values():
        run(node, order, len(ring), 1)
    best: dict[str, Speed] = {}
    for _ in range(arguments.turns):
        for name, order in cases.items():
            found = run(node, order, len(ring), arguments.mebibytes)
            if name not in best or found.seconds < best[name].seconds:
                best[name] = found
    print(f"{arguments.system}, {arguments.mebibytes} MiB, {arguments.threads} host threads; M warp instructions, k cycles of GPUs, host seconds, M instructions/s, M cycles/s")  # fmt: skip
    for name, one in best.items():
        print(one.line(name))
    alone, together = best.values()
    by_instructions = together.instructions / together.seconds / (alone.instructions / alone.seconds)
    by_cycles = together.cycles / together.seconds / (alone.cycles / alone.seconds)
    print(f"speed per GPU relative to one GPU: {by_instructions:.2f} by instructions, {by_cycles:.2f} by cycles")
    host = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 / len(ring)
    print(f"memory of each GPU: {together.bytes_per_gpu / 2**20:.1f} MiB simulated, {host:.0f} MiB of the host at most")


if __name__ == "__main__":
    main()

"""All-reduces over each machine (ring, tree and direct), compared with the time that the links need for their bytes.

Each algorithm is a list of transfers between GPUs that access each other's memory.  Its closed-form bound is the time of the busiest way (one direction of the links between two
GPUs, or of a GPU's links to its switches): bytes with their packets' heads over the links' rate.  Kernels push lines into the next GPU's memory and raise a flag for each
block behind a fence of the system's scope, so that blocks run down their parts independently of each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from warpwright.multi_gpu import System
from warpwright.run import Run
from warpwright.studies.study import Cell, Result, Step, Table, study
from warpwright.system import Route, peer_routes

PAPER = "closed form: the busiest link's bytes over its rate"
TOLERANCE = 0.10
LINE_BYTES, SECTORS_PER_LINE = 128, 4
THREADS = 256
VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Tuning:
    """Launch parameters of a machine's all-reduces."""

    mebibytes: int
    """MiB per GPU: enough for the first and last steps to take little of the time."""
    blocks: int
    pieces: int
    """Pieces of a block's part in a tree, which are pipelined up and down."""


_SLOW_LINKS, _SWITCHES = Tuning(16, 128, 64), Tuning(64, 256, 32)
SYSTEMS = {
    "p100x2-pcie": _SLOW_LINKS, "p100x2-nvlink": Tuning(64, 128, 32), "dgx-1": _SLOW_LINKS,
    "dgx-a100": _SWITCHES, "h200x2": _SWITCHES, "h200x4": Tuning(64, 256, 64), "h200x8": _SWITCHES,
}  # fmt: skip
SOURCE = """
static __device__ __forceinline__ float4 far(const float4 *at) { return __ldcg(at); }
static __device__ __forceinline__ float4 add(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
static __device__ __forceinline__ void await(const unsigned *flag)
{
    if (threadIdx.x == 0)
        while (*(const volatile unsigned *)flag == 0) {}
    __syncthreads();
}
static __device__ __forceinline__ void raise(unsigned *flag)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        *(volatile unsigned *)flag = 1;
    }
}

// Each chunk goes once around and is summed, and once more with the sum.
extern "C" __global__ void ring(float4 *x, const float4 *come, const unsigned *flags, float4 *next_x, float4 *next_come,
                                unsigned *next_flags, int rank, int gpus, int chunk)
{
    int part = chunk / gridDim.x, begin = blockIdx.x * part;
    for (int step = 0; step < 2 * gpus - 2; step++) {
        int at = (rank - step + 2 * gpus) % gpus * chunk + begin;
        if (step > 0)
            await(flags + (step - 1) * gridDim.x + blockIdx.x);
        bool sums = step < gpus - 1;
        const float4 *other = come + (step - 1) * chunk + begin;
        float4 *to = sums ? next_come + step * chunk + begin : next_x + at;
#pragma unroll 4
        for (int i = threadIdx.x; i < part; i += blockDim.x) {
            float4 value = far(x + at + i);
            if (step > 0 && step < gpus)
                value = add(value, far(other + i));
            if (step == gpus - 1)
                x[at + i] = value;
            to[i] = value;
        }
        raise(next_flags + step * gridDim.x + blockIdx.x);
    }
    await(flags + (2 * gpus - 3) * gridDim.x + blockIdx.x);
}

struct Peers {
    float4 *x[8], *come[8];
    unsigned *flags[8];
};

// Each GPU sums a chunk that all others send it, and sends them the sum.
extern "C" __global__ void direct(Peers peers, int rank, int gpus, int chunk)
{
    int part = chunk / gridDim.x, begin = blockIdx.x * part, own = rank * chunk + begin;
    float4 *x = peers.x[rank];
    const unsigned *flags = peers.flags[rank];
    for (int turn = 1; turn < gpus; turn++) {
        int other = (rank + turn) % gpus;
#pragma unroll 4
        for (int i = threadIdx.x; i < part; i += blockDim.x)
            peers.come[other][rank * chunk + begin + i] = x[other * chunk + begin + i];
        raise(peers.flags[other] + rank * gridDim.x + blockIdx.x);
    }
    for (int turn = 1; turn < gpus; turn++)
        await(flags + (rank + turn) % gpus * gridDim.x + blockIdx.x);
    for (int i = threadIdx.x; i < part; i += blockDim.x) {
        float4 value = x[own + i];
        for (int turn = 1; turn < gpus; turn++)
            value = add(value, far(peers.come[rank] + (rank + turn) % gpus * chunk + begin + i));
        x[own + i] = value;
        for (int turn = 1; turn < gpus; turn++)
            peers.x[(rank + turn) % gpus][own + i] = value;
    }
    for (int turn = 1; turn < gpus; turn++)
        raise(peers.flags[(rank + turn) % gpus] + (gpus + rank) * gridDim.x + blockIdx.x);
    for (int turn = 1; turn < gpus; turn++)
        await(flags + (gpus + (rank + turn) % gpus) * gridDim.x + blockIdx.x);
}

// A child sends its sum to its parent, the root the whole sum to its children, piece by piece; half of the blocks go up, half down.
extern "C" __global__ void tree(float4 *x, const float4 *come, const unsigned *flags, Peers peers, int parent, int place,
                                int children, int size)
{
    int ways = gridDim.x / 2, way = blockIdx.x % ways, part = size / ways, piece = part / PIECES;
    bool up = blockIdx.x < ways;
    for (int k = 0; k < PIECES; k++) {
        int begin = way * part + k * piece, word = way * PIECES + k, words = ways * PIECES;
        if (up) {
            for (int child = 0; child < children; child++)
                await(flags + child * words + word);
            float4 *to = parent < 0 ? x : peers.come[7] + place * size;
#pragma unroll 4
            for (int i = begin + threadIdx.x; i < begin + piece; i += blockDim.x) {
                float4 value = x[i];
                for (int child = 0; child < children; child++)
                    value = add(value, far(come + child * size + i));
                to[i] = value;
            }
            raise(parent < 0 ? (unsigned *)flags + 6 * words + word : peers.flags[7] + place * words + word);
        } else {
            await(flags + 6 * words + word);
#pragma unroll 4
            for (int i = begin + threadIdx.x; i < begin + piece; i += blockDim.x) {
                float4 value = far(x + i);
                for (int child = 0; child < children; child++)
                    peers.x[child][i] = value;
            }
            for (int child = 0; child < children; child++)
                raise(peers.flags[child] + 6 * words + word);
        }
    }
}
"""
Transfer = tuple[int, int, float]
"""From, to, bytes."""


def _rate(machine: Any, first: int, last: int) -> float:
    """Seconds per byte that kernels store over the path from one GPU to another."""
    way = peer_routes(machine, first)[last]
    return (way.packet_ns + SECTORS_PER_LINE * way.sector_ns) / LINE_BYTES * 1e-9


def bound_seconds(node: System, transfers: Iterable[Transfer]) -> float:
    """How long the busiest way takes for its bytes: a direction of the links between two nodes of the machine."""
    busy: defaultdict[tuple[str, str], float] = defaultdict(float)
    for first, last, size in transfers:
        route = node.route(first, last)
        assert route is not None
        for way in route.ways:
            busy[way] += size * _rate(node.machine, first, last)
    return max(busy.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """An all-reduce that has run."""

    seconds: float
    bound_seconds: float
    right: bool
    runs: Sequence[Run]
    bytes_per_gpu: int


def best_ring(node: System) -> tuple[int, ...]:
    """The cyclic order of the GPUs whose narrowest way is the widest."""
    count = len(node.gpus)

    def width(order: tuple[int, ...]) -> float:
        routes: list[Route | None] = [node.route(a, b) for a, b in pairwise((*order, order[0]))]
        return min(0.0 if one is None else one.packet_gb_per_s for one in routes)

    return max(((0, *rest) for rest in permutations(range(1, count))), key=width)


def spanning_tree(node: System) -> list[int]:
    """Each GPU's parent, -1 for the first: as low as peer access and two children for each GPU allow, wide ways first."""
    parents = [-1] * len(node.gpus)
    reached, new = {0}, [0]
    while len(reached) < len(parents):
        found = []
        for at in new:
            near = [g for g in range(len(parents)) if g not in reached and node.can_access(at, g)]
            near.sort(key=lambda g: -_width(node, at, g))
            for other in near[:2]:
                parents[other] = at
                reached.add(other)
                found.append(other)
        new = found
    return parents


def _width(node: System, first: int, last: int) -> float:
    route = node.route(first, last)
    return 0.0 if route is None else route.packet_gb_per_s


class Memory:
    """Arrays of one all-reduce on every GPU, and their addresses."""

    def __init__(self, node: System, mebibytes: int, places: int) -> None:
        self.node = node
        self.size = mebibytes << 20
        count = self.size // 4
        self.values = [((np.arange(count) * (rank + 3)) % 64).astype(np.float32) for rank in range(len(node.gpus))]
        self.x = [gpu.array(values) for gpu, values in zip(node.gpus, self.values, strict=True)]
        self.come = [gpu.zeros(count * places, np.float32) for gpu in node.gpus]
        self.flags = [gpu.zeros(1 << 16, np.uint32) for gpu in node.gpus]

    @property
    def bytes_per_gpu(self) -> int:
        """Memory that an all-reduce uses on each GPU."""
        return int(self.x[0].nbytes + self.come[0].nbytes + self.flags[0].nbytes)

    def addresses(self, gpu: int) -> tuple[int, int, int]:
        """Device addresses of the values, of the received data and of the flags."""
        return tuple(int(array[gpu].device_address()) for array in (self.x, self.come, self.flags))  # type: ignore[return-value]

    def right(self) -> bool:
        """Whether every GPU has the sum."""
        whole = np.sum(self.values, axis=0)
        return all(np.array_equal(array.numpy(), whole) for array in self.x)

    def outcome(self, runs: Sequence[Run], transfers: Iterable[Transfer]) -> Outcome:
        """The outcome of a launch on all GPUs."""
        seconds = max(run.seconds for run in runs)
        return Outcome(seconds, bound_seconds(self.node, transfers), self.right(), runs, self.bytes_per_gpu)


def _open(node: System, pairs: Iterable[tuple[int, int]]) -> None:
    for first, last in pairs:
        node.enable_peer_access(first, last)


def _kernels(node: System, name: str) -> list[Any]:
    tuning = SYSTEMS[node.machine.name]
    options = [f"-DPIECES={tuning.pieces}"]
    return [gpu.compile(SOURCE, options=options)[name][tuning.blocks, THREADS] for gpu in node.gpus]


def ring(node: System, mebibytes: int) -> Outcome:
    """Around the widest ring."""
    order = best_ring(node)
    count = len(order)
    memory = Memory(node, mebibytes, 1)
    pairs = list(pairwise((*order, order[0])))
    _open(node, pairs)
    chunk = np.int32(memory.size // VECTOR_BYTES // count)
    kernels, launches = _kernels(node, "ring"), []
    for rank, (own, following) in enumerate(pairs):
        addresses = [np.uint64(one) for one in (*memory.addresses(own), *memory.addresses(following))]
        launches.append((kernels[own], (*addresses, np.int32(rank), np.int32(count), chunk)))
    runs = node.launch(*launches)
    each = 2 * (count - 1) / count * memory.size
    return memory.outcome(runs, [(a, b, each) for a, b in pairs])


def _peers(memory: Memory, gpus: dict[int, int]) -> np.void:
    """The structure ``Peers``, of GPUs by their places."""
    words = np.zeros((3, 8), np.uint64)
    for place, gpu in gpus.items():
        words[:, place] = memory.addresses(gpu)
    return np.void(words.tobytes())


def direct(node: System, mebibytes: int) -> Outcome | None:
    """All to all; None where some GPUs do not reach others."""
    count = len(node.gpus)
    pairs = list(permutations(range(count), 2))
    if not all(node.can_access(a, b) for a, b in pairs):
        return None
    memory = Memory(node, mebibytes, 1)
    _open(node, pairs)
    chunk = np.int32(memory.size // VECTOR_BYTES // count)
    peers = _peers(memory, {gpu: gpu for gpu in range(count)})
    launches = [
        (kernel, (peers, np.int32(rank), np.int32(count), chunk))
        for rank, kernel in enumerate(_kernels(node, "direct"))
    ]
    runs = node.launch(*launches)
    return memory.outcome(runs, [(a, b, 2 * memory.size / count) for a, b in pairs])


def tree(node: System, mebibytes: int) -> Outcome:
    """Up and down a tree."""
    parents = spanning_tree(node)
    children = [[g for g, parent in enumerate(parents) if parent == own] for own in range(len(parents))]
    memory = Memory(node, mebibytes, 2)
    edges = [(child, parent) for child, parent in enumerate(parents) if parent >= 0]
    _open(node, [pair for a, b in edges for pair in ((a, b), (b, a))])
    launches = []
    for own, kernel in enumerate(_kernels(node, "tree")):
        places = dict(enumerate(children[own]))
        parent = parents[own]
        place = children[parent].index(own) if parent >= 0 else 0
        peers = _peers(memory, places | ({7: parent} if parent >= 0 else {}))
        addresses = [np.uint64(one) for one in memory.addresses(own)]
        sizes = (parent, place, len(places), memory.size // VECTOR_BYTES)
        launches.append((kernel, (*addresses, peers, *(np.int32(one) for one in sizes))))
    runs = node.launch(*launches)
    return memory.outcome(runs, [(a, b, memory.size) for edge in edges for a, b in (edge, edge[::-1])])


ALGORITHMS: dict[str, Callable[[System, int], Outcome | None]] = {"ring": ring, "tree": tree, "direct": direct}


@cache
def all_reduce(system: str, algorithm: str) -> Outcome | None:
    """The all-reduce of a machine's size."""
    return ALGORITHMS[algorithm](System(system), SYSTEMS[system].mebibytes)


@study("all-reduce", PAPER)
def all_reduces(step: Step) -> Result:
    """All-reduces (ring, tree, direct) over each machine, compared with the links' bound."""
    found, times, sums = Result(), [], []
    for system in SYSTEMS:
        for algorithm in ALGORITHMS:
            step(f"{system}, {algorithm}")
            one = all_reduce(system, algorithm)
            if one is None:
                found.remarks.append(f"{system}: no direct all-reduce, because some GPUs do not access others.")
                continue
            size = f"{system}, {SYSTEMS[system].mebibytes} MiB"
            times.append(Cell(size, algorithm, one.seconds * 1e6, one.bound_seconds * 1e6, TOLERANCE))
            found.remarks.append(f"{system}, {algorithm}: {one.bytes_per_gpu >> 20} MiB on each GPU.")
            sums.append(Cell(system, algorithm, int(one.right), 1, 0.0, True))
    found.tables.append(Table("Time to the links' bound", "µs", times))
    found.tables.append(Table("Every GPU has the sum", "1 if so", sums))
    return found

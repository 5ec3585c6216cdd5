"""Machines of several GPUs: their files, routes and topology, what the driver answers, and what copies and accesses over links take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.test_driver_devices import right
from warpwright.chips import ChipError
from warpwright.session import known_chips
from warpwright.system import (
    MachineError,
    load_machine,
    machine_names,
    peer_routes,
    relay_route,
    route,
    topology_matrix,
)
from warpwright.system.routes import host_ways, performance_rank

ROOT = Path(__file__).parents[1]
linux = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")


# --- machines of the package ----------------------------------------------------------------------
def test_every_machine_reads_and_every_number_has_a_kind_and_a_document() -> None:
    assert machine_names() == [
        *("ac922", "dgx-1", "dgx-a100", "h200x2", "h200x4", "h200x8", "p100x2-nvlink", "p100x2-pcie"),
    ]
    for machine in map(load_machine, machine_names()):
        assert machine.kinds
        for key, source in machine.sources.items():
            assert machine.kinds[key] != "set", key
            assert source.partition(":")[0] in machine.documents, key


@pytest.mark.parametrize(("name", "links"), [("dgx-1", 6), ("dgx-a100", 12), ("h200x8", 18), ("p100x2-nvlink", 4)])
def test_a_gpu_has_as_many_nvlinks_as_its_chip(name: str, links: int) -> None:
    machine = load_machine(name)
    for i in range(len(machine.gpus)):
        own = [cable for cable in machine.cables_of[f"gpu{i}"] if cable.link.protocol == "nvlink"]
        assert sum(cable.count for cable in own) == links


def test_dgx_1_is_the_hybrid_cube_mesh() -> None:
    assert topology_matrix(load_machine("dgx-1")).splitlines()[:9] == [
        "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tprocessor",
        "GPU0\tX\tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tcpu0",
        "GPU1\tNV1\tX\tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tcpu0",
        "GPU2\tNV1\tNV2\tX\tNV2\tSYS\tSYS\tNV1\tSYS\tcpu0",
        "GPU3\tNV2\tNV1\tNV2\tX\tSYS\tSYS\tSYS\tNV1\tcpu0",
        "GPU4\tNV2\tSYS\tSYS\tSYS\tX\tNV1\tNV1\tNV2\tcpu1",
        "GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\tX\tNV2\tNV1\tcpu1",
        "GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\tX\tNV2\tcpu1",
        "GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\tX\tcpu1",
    ]


def test_routes_are_direct_over_switches_over_pci_express_or_refused() -> None:
    dgx = load_machine("dgx-1")
    assert route(dgx, 0, 3).nodes == ("gpu0", "gpu3")  # type: ignore[union-attr]
    assert route(dgx, 0, 5) is None
    assert route(dgx, 2, 2) is None
    assert relay_route(dgx, 0, 7)[0] == (0, 4, 7)  # over two links each, and not over GPU 3 with one
    assert relay_route(dgx, 0, 5)[0] == (0, 1, 5)
    switched = route(load_machine("h200x4"), 1, 3)
    assert switched is not None
    assert (switched.topology, switched.link_count) == ("NV18", 18)
    assert switched.nodes[1] == "nvswitch0+nvswitch1+nvswitch2+nvswitch3"
    bus = route(load_machine("p100x2-pcie"), 0, 1)
    assert bus is not None
    assert (bus.nodes, bus.topology, bus.native_atomics) == (("gpu0", "cpu0", "gpu1"), "PHB", False)
    assert performance_rank(dgx, 0, 3) == 0
    assert performance_rank(dgx, 0, 1) == 1


@pytest.mark.parametrize(
    ("name", "links", "aggregate", "card"),
    [
        # Aggregate of both directions, Choquette et al., Table 1 and "NVLink on Volta"; a copy over one link on a card (Dell, Table 3).
        ("p100x2-nvlink", 4, 160.0, 18.31),
        ("dgx-1", 6, 309.4, 23.95),
        # 12 links of 25 GB/s each way on the wire; 18 links, copies of 256 MiB between two H200 (bench/data/h200/transfers.json).
        ("dgx-a100", 12, 600.0, None),
        ("h200x8", 18, 900.0, 395.0 / 18),
    ],
)
def test_links_have_the_published_rate_and_copies_the_measured_one(
    name: str, links: int, aggregate: float, card: float | None
) -> None:
    way = route(load_machine(name), 0, 1)
    assert way is not None
    assert 2 * links * way.link.wire_gb_per_s == pytest.approx(aggregate, rel=1e-3)
    if card is not None:
        assert way.copy_gb_per_s / way.link_count == pytest.approx(card, rel=0.03)


def test_credits_limit_a_link_whose_buffer_does_not_cover_the_way_back(tmp_path: Path) -> None:
    """4 KiB a link, 698 ns until the credit is back: 5.87 GB/s instead of 25.78."""
    path = tmp_path / "small.toml"
    path.write_text('base = "dgx-1"\n[links.nvlink2]\ncredit_bytes = 4096\n')
    narrow = route(load_machine(str(path)), 0, 3)
    assert narrow is not None
    assert narrow.packet_gb_per_s == pytest.approx(2 * 4096 / 698)


@pytest.mark.parametrize(
    ("name", "link", "wire", "copy"),
    [
        ("p100x2-pcie", "pcie3", 16.0, 14.0),
        ("dgx-a100", "pcie4", 32.0, 28.0),
        ("h200x8", "pcie5", 64.0, 56.0),  # an H200 copies 55.5 (bench/data/h200/transfers.json)
    ],
)
def test_each_generation_of_pci_express_doubles_the_rate(name: str, link: str, wire: float, copy: float) -> None:
    kind = next(cable.link for cable in load_machine(name).cables if cable.link.name == link)
    assert kind.wire_gb_per_s == wire
    payload = kind.copy_payload_bytes / (kind.copy_payload_bytes + kind.head_bytes)
    assert kind.packet_gb_per_s * payload == pytest.approx(copy, rel=0.005)


def test_a_link_of_one_lane_has_an_eighth_of_the_bandwidth(tmp_path: Path) -> None:
    path = tmp_path / "narrow.toml"
    path.write_text('base = "dgx-1"\n[links.nvlink2]\nlane_count = 1\n')
    narrow, wide = (peer_routes(load_machine(name), 0)[3] for name in (str(path), "dgx-1"))
    assert narrow.sector_ns == pytest.approx(8 * wide.sector_ns)
    assert narrow.latency_ns == wide.latency_ns


def test_a_copy_of_one_byte_more_than_a_packet_takes_two_heads() -> None:
    way = route(load_machine("p100x2-nvlink"), 0, 1)
    assert way is not None
    assert way.copy_seconds(256) == pytest.approx(272 / 80e9)
    assert way.copy_seconds(257) == pytest.approx(289 / 80e9)


# --- files that are wrong ---------------------------------------------------------------------------
WRONG = [
    ("gpu = 1", "no key is called 'gpu'; did you mean 'gpus'?"),
    ('gpus = "v100"', "gpus must be a list of chips' names, not 'v100'"),
    ("gpus = []", "gpus must name 1 to 16 chips, not 0"),
    ('[switches]\nplx9 = "pci"', "switch 'plx9' must be one of nvlink, pcie, host, not 'pci'; did you mean 'pcie'?"),
    ('[switches]\ngpu9 = "host"', "switch 'gpu9' has a name of a GPU: names that begin with 'gpu' are GPUs'"),
    ("[links.nvlink2]\nlane_count = 0", "field 'lane_count' of [links.nvlink2] must be 1 to 64, not 0"),
    ("[links.nvlink2]\nlane_count = 1.5", "field 'lane_count' of [links.nvlink2] must be a whole number, not 1.5"),
    ("[links.nvlink2]\nlanes_count = 8", "[links.nvlink2] has no field 'lanes_count'; did you mean 'lane_count'"),
    ('[links.fast]\nprotocol = "nvlnk"', "protocol of [links.fast] must be one of nvlink, pcie, smp, not 'nvlnk'; did you mean 'nvlink'?"),
    ('[links.fast]\nprotocol = "nvlink"', "[links.fast] lacks the field 'lane_count'"),
    ("[host]\nstaged_copy_percent = 101", "field 'staged_copy_percent' of [host] must be 1 to 100, not 101"),
    ('[[cables]]\nlink = "nvlink3"\nends = ["gpu0", "gpu1"]', "cable 1: no link is called 'nvlink3'; did you mean 'nvlink2'?"),
    ('[[cables]]\nlink = "nvlink2"\nends = ["gpu0", "gpu8"]', "cable 1: no node is called 'gpu8'"),
    ('[[cables]]\nlink = "nvlink2"\nends = ["gpu0"]', "ends of cable 1 must be two nodes' names, not ['gpu0']"),
    ('[[cables]]\nlink = "nvlink2"\nends = ["gpu0", "gpu1"]\ncount = 65', "count of cable 1 must be 1 to 64, not 65"),
    ('[[cables]]\nlink = "nvlink2"\nends = ["gpu0", "plx0"]', "link 'nvlink2' (nvlink) cannot end at 'plx0', which is a node of kind 'pcie'"),
    ('[[cables]]\nlink = "qpi"\nends = ["gpu0", "cpu0"]', "link 'qpi' (smp) cannot end at 'gpu0', which is a GPU"),
    ('[[cables]]\nlink = "nvlink2"\nends = ["gpu0", "gpu1"]', "gpu0 reaches no host: add a cable of PCI Express to a node of kind 'host'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_file_is_refused_with_what_where_and_what_would_be_valid(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "dgx-1"\n{text}\n')
    with pytest.raises(MachineError) as refusal:
        load_machine(str(path))
    assert str(refusal.value).startswith(f"machine 'mine': {message}")
    assert str(refusal.value).endswith(f"({path})")


def test_a_machine_that_does_not_exist_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"^no machine is called 'dgx1'; did you mean 'dgx-1'"):
        load_machine("dgx1")
    with pytest.raises(
        MachineError, match=r"^no machine is called 'v100': it is a chip; use --gpu v100, or ww.GPU\('v100'\)$"
    ):
        load_machine("v100")
    with pytest.raises(
        ChipError, match=r"^no chip is called 'dgx-1': it is a machine; use --system dgx-1, or ww.System\('dgx-1'\)$"
    ):
        known_chips("a100,dgx-1")
    with pytest.raises(MachineError, match="does not exist"):
        load_machine(str(tmp_path / "none.toml"))
    path = tmp_path / "mine.toml"
    path.write_text('gpus = ["v101"]')
    with pytest.raises(ww.ChipError, match="no chip is called 'v101'"):
        load_machine(str(path))
    path.write_text(f'base = "{path}"')
    with pytest.raises(MachineError, match="is a base of itself"):
        load_machine(str(path))


# --- kernels' accesses ------------------------------------------------------------------------------
SOURCE = """
extern "C" __global__ void read_lines(const int4* at, int turns, int* out) {
    size_t all = (size_t)gridDim.x * blockDim.x;
    const int4* from = at + blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    int sum = 0;
    for (int i = 0; i < turns; i++) {
        int4 v = __ldcg(from + i * all);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 7) out[0] = sum;
}
extern "C" __global__ void sum_up(const int* at, int n, int* out) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(out, at[i]);
}
"""
TURNS, BLOCK, GRID = 2, 256, 40
BYTES = TURNS * BLOCK * GRID * 16


def read_seconds(node: ww.System, reader: int, owner: int) -> float:
    """A read of lines of another GPU's memory by a kernel."""
    node.enable_peer_access(reader, owner)
    there = node.gpus[owner].empty(BYTES // 4, np.int32)
    out = node.gpus[reader].zeros(1, np.int32)
    kernel = node.gpus[reader].compile(SOURCE)["read_lines"]
    run = kernel[GRID, BLOCK](np.uint64(there.device_address()), np.int32(TURNS), out)
    assert run.metrics["nvlrx__bytes_data_user.sum"] == BYTES
    return run.seconds


def test_kernels_read_over_two_links_twice_as_fast_as_over_one() -> None:
    node = ww.System("dgx-1")
    one, two = read_seconds(node, 0, 1), read_seconds(node, 0, 3)
    link = peer_routes(node.machine, 0)
    for seconds, other in ((one, 1), (two, 3)):
        lines = BYTES / 128 * (link[other].packet_ns + 4 * link[other].sector_ns) * 1e-9
        assert lines < seconds < lines * 1.35 + 4e-6
    assert 1.6 < one / two < 2.0
    del node


def test_a_system_of_h200s_has_the_times_that_two_h200s_have() -> None:
    node = ww.System("h200x2")
    first = read_seconds(node, 0, 1)
    node.gpus[0].memory.peer_routes = {}
    node.gpus[0].memory._elsewhere = None
    assert first == pytest.approx(read_seconds(node, 0, 1), rel=0.002)


def test_mistakes_with_a_systems_gpus_are_named() -> None:
    node = ww.System("p100x2-nvlink", timing="off")
    kernels = [gpu.compile(SOURCE)["read_lines"][GRID, BLOCK] for gpu in (*node.gpus, ww.GPU("p100", timing="off"))]
    for call, kind, said in (
        (lambda: node.enable_peer_access(0, 0), ww.ArgumentError, "a GPU always has access to its own memory"),
        (lambda: node.enable_peer_access(2, 2), IndexError, "p100x2-nvlink has no GPU 2: its GPUs are 0 to 1"),
        (
            lambda: node.disable_peer_access(0, 1),
            ww.ArgumentError,
            r"^disable_peer_access\(0, 1\): GPU 0 has no access to the memory of GPU 1$",
        ),
        (lambda: node.relay(0, 2), IndexError, "p100x2-nvlink has no GPU 2: its GPUs are 0 to 1"),
        (lambda: node.launch(), ww.ArgumentError, r"launch\(\) takes at least one pair"),
        (lambda: node.launch(kernels[0]), ww.ArgumentError, r"takes pairs \(.*\), not Launcher"),  # type: ignore[arg-type]
        (
            lambda: node.launch((kernels[2], [])),
            ww.ArgumentError,
            "read_lines does not belong to a GPU of this machine",
        ),
        (lambda: node.enable_peer_access(0.0, 1), ww.ArgumentError, "a GPU's number is expected .*, not float"),  # type: ignore[arg-type]
        (lambda: node.enable_peer_access(*node.gpus), ww.ArgumentError, "number is expected .*, not GPU"),  # type: ignore[arg-type]
        (lambda: node.can_access("0", 1), ww.ArgumentError, "number is expected .*, not str"),  # type: ignore[arg-type]
        (lambda: node.launch((kernels[0].kernel, [])), ww.ArgumentError, "takes read_lines with its grid and block"),  # type: ignore[arg-type]
        (lambda: node.launch((kernels[0], 3)), ww.ArgumentError, "arguments of read_lines .* not as int"),  # type: ignore[arg-type]
        (lambda: node.disable_peer_access(0, 1), ww.ArgumentError, "GPU 0 has no access to the memory of GPU 1"),
    ):
        with pytest.raises(kind, match=said):
            call()


def test_peer_access_can_be_disabled_and_freed_memory_of_a_peer_is_called_so() -> None:
    node = ww.System("p100x2-nvlink", timing="off")
    there, out = node.gpus[1].zeros(BYTES // 4, np.int32), node.gpus[0].zeros(1, np.int32)
    kernel = node.gpus[0].compile(SOURCE)["read_lines"][1, 32]
    node.enable_peer_access(0, 1)
    gone = node.gpus[1].zeros(BYTES // 4, np.int32)
    at = gone.device_address()
    gone.free()
    said = r"in device 1's memory, to which this device has access: .*, which was freed"
    with pytest.raises(ww.MemoryFaultError, match=said):
        kernel(np.uint64(at), np.int32(1), out)
    node.disable_peer_access(0, 1)
    for _ in range(2):
        node.enable_peer_access(0, 1)
        kernel(np.uint64(there.device_address()), np.int32(1), out)
        node.disable_peer_access(0, 1)
        with pytest.raises(ww.MemoryFaultError, match=r"has no access \(.*System\.enable_peer_access in Python\)"):
            kernel(np.uint64(there.device_address()), np.int32(1), out)


def test_systems_compute_and_refuse_what_the_topology_refuses() -> None:
    node = ww.System("dgx-1", timing="off")
    assert len(node.gpus) == 8
    values = node.gpus[4].array(np.arange(1000, dtype=np.int32))
    out = node.gpus[0].zeros(1, np.int32)
    kernel = node.gpus[0].compile(SOURCE)["sum_up"]
    node.enable_peer_access(0, 4)
    kernel[1, 128](np.uint64(values.device_address()), np.int32(1000), out)
    assert out.numpy()[0] == 499500
    assert not node.can_access(0, 5)
    with pytest.raises(ww.UnsupportedError, match="GPU 0 of dgx-1 cannot access the memory of GPU 5"):
        node.enable_peer_access(0, 5)
    with pytest.raises(IndexError, match="dgx-1 has no GPU 8: its GPUs are 0 to 7"):
        node.route(0, 8)


# --- the driver -------------------------------------------------------------------------------------
@pytest.mark.ci
@linux
def test_the_driver_answers_for_the_topology() -> None:
    right(
        """
assert len(devices) == 8
can = lambda a, b: cuda.word("cuDeviceCanAccessPeer", a, b, kind=ctypes.c_int32)
asked = lambda number, a, b: cuda.word("cuDeviceGetP2PAttribute", number, a, b, kind=ctypes.c_int32)
assert [can(0, other) for other in devices] == [0, 1, 1, 1, 1, 0, 0, 0]
assert [can(5, other) for other in devices] == [0, 1, 0, 0, 1, 0, 1, 1]
assert [asked(number, 0, 3) for number in (1, 2, 3, 4, 5)] == [0, 1, 1, 1, 0]
assert [asked(number, 0, 1) for number in (1, 2, 3, 4, 5)] == [1, 1, 1, 1, 0]
assert [asked(number, 0, 5) for number in (1, 2, 3, 4, 5)] == [0, 0, 0, 0, 0]
on(0)
assert cuda.raw("cuCtxEnablePeerAccess", contexts[5], 0) == 217
assert cuda.raw("cuCtxEnablePeerAccess", contexts[3], 0) == 0
""",
        "h200",
        WARPWRIGHT_SYSTEM="dgx-1",
    )


@linux
def test_pools_are_opened_to_devices_that_reach_them() -> None:
    right(
        """
on(0)
for peer, code in ((3, 0), (5, 101)):
    pool = cuda.word("cuDeviceGetDefaultMemPool", peer)
    location, flags = (ctypes.c_int32 * 3)(1, 0, 3), ctypes.c_int32()       # device 0, reading and writing
    assert cuda.raw("cuMemPoolSetAccess", pool, location, 1) == code
    cuda("cuMemPoolGetAccess", ctypes.byref(flags), pool, location)
    assert flags.value == (0 if code else 3)
""",
        "h200",
        WARPWRIGHT_SYSTEM="dgx-1",
    )


@linux
def test_atomics_do_not_cross_pci_express() -> None:
    right(
        """
asked = lambda number: cuda.word("cuDeviceGetP2PAttribute", number, 0, 1, kind=ctypes.c_int32)
assert [asked(number) for number in (1, 2, 3, 4, 5)] == [0, 1, 0, 1, 0]
""",
        "h200",
        WARPWRIGHT_SYSTEM="p100x2-pcie",
    )


COPIES = """
SIZE = 64 << 20
places = []
streams = []
for device in devices:
    on(device)
    for other in devices:
        if cuda.word("cuDeviceCanAccessPeer", device, other, kind=ctypes.c_int32):
            if OPEN:
                cuda("cuCtxEnablePeerAccess", contexts[other], 0)
    places.append([cuda.word("cuMemAlloc_v2", SIZE) for _ in range(2)])
    streams.append([cuda.word("cuStreamCreate", 1) for _ in range(2)])

def took(*pairs):
    for device in devices:
        on(device)
        cuda("cuCtxSynchronize")
    work = []
    for of, to, lane in pairs:
        on(of)
        begin, end = (cuda.word("cuEventCreate", 0) for _ in range(2))
        cuda("cuEventRecord", begin, streams[of][lane])
        cuda("cuMemcpyPeerAsync", places[to][lane], contexts[to], places[of][lane], contexts[of], SIZE, streams[of][lane])
        cuda("cuEventRecord", end, streams[of][lane])
        work.append((of, begin, end))
    times = []
    for of, begin, end in work:
        on(of)
        value = ctypes.c_float()
        cuda("cuEventSynchronize", end)
        cuda("cuEventElapsedTime", ctypes.byref(value), begin, end)
        times.append(SIZE / (1e-3 * value.value) / 1e9)
    print(*times)
"""


def rates(system: str, program: str, access: bool = True) -> list[list[float]]:
    """GB/s of each copy of each line that a program of ``COPIES`` prints."""
    said = right(f"OPEN = {access}\n{COPIES}{program}", "h200", WARPWRIGHT_SYSTEM=system, WARPWRIGHT_TIMING="full")
    return [[float(word) for word in line.split()] for line in said.splitlines()]


@pytest.mark.ci
@linux
def test_copies_between_devices_have_the_bandwidth_of_their_route() -> None:
    """GB/s: the aggregates of Choquette et al. are 160 and 309 on the wire, of which 16 bytes in 272 are heads."""
    alone, both = rates("p100x2-nvlink", "took((0, 1, 0))\ntook((0, 1, 0), (1, 0, 1))")
    assert alone[0] == pytest.approx(80 * 16 / 17, rel=0.01)
    assert sum(both) * 17 / 16 == pytest.approx(160, rel=0.01)
    bus = rates("p100x2-pcie", "took((0, 1, 0))")
    assert bus[0][0] == pytest.approx(14.0, rel=0.01)


@linux
def test_a_v100_moves_309_gb_per_s_over_its_six_links_and_two_copies_over_one_link_share_it() -> None:
    program = """
took((0, 1, 0), (0, 2, 1))
took((0, 3, 0), (0, 4, 1))
took((1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0))
took((0, 1, 0), (0, 1, 1))
took((0, 5, 0))
"""
    narrow, wide, back, shared, staged = rates("dgx-1", program)
    out = sum(narrow) + sum(wide)
    assert (out + sum(back)) * 17 / 16 == pytest.approx(309.4, rel=0.01)
    assert out == pytest.approx(143.71, rel=0.03)  # Dell, Table 3: the sum over three neighbours on a card
    assert shared[0] == pytest.approx(24.26, rel=0.01)
    assert shared[1] == pytest.approx(24.26 / 2, rel=0.01)  # after the first one
    assert staged[0] == pytest.approx(13.9 * 0.67, rel=0.01)  # through the host's memory


HOST_COPIES = """
SIZE = 64 << 20
on(0)
pinned = cuda.word("cuMemHostAlloc", SIZE, 0)
places, streams = [], []
for device in devices:
    on(device)
    places.append(cuda.word("cuMemAlloc_v2", SIZE))
    streams.append([cuda.word("cuStreamCreate", 1) for _ in range(2)])

def took(*copies):
    for device in devices:
        on(device)
        cuda("cuCtxSynchronize")
    work = []
    for device, back in copies:
        on(device)
        begin, end = (cuda.word("cuEventCreate", 0) for _ in range(2))
        cuda("cuEventRecord", begin, streams[device][back])
        if back:
            cuda("cuMemcpyDtoHAsync_v2", pinned, places[device], SIZE, streams[device][back])
        else:
            cuda("cuMemcpyHtoDAsync_v2", places[device], pinned, SIZE, streams[device][back])
        cuda("cuEventRecord", end, streams[device][back])
        work.append((device, begin, end))
    times = []
    for device, begin, end in work:
        on(device)
        value = ctypes.c_float()
        cuda("cuEventSynchronize", end)
        cuda("cuEventElapsedTime", ctypes.byref(value), begin, end)
        times.append(SIZE / (1e-3 * value.value) / 1e9)
    print(*times)
OPEN = False
"""


@linux
def test_gpus_behind_one_switch_share_its_link_to_the_processor() -> None:
    program = """
took((0, 0))
took((0, 0), (2, 0), (4, 0), (6, 0))
took((0, 0), (1, 0))
took((0, 0), (1, 1))
took((0, 1), (1, 1))
"""
    said = right(HOST_COPIES + program, "h200", WARPWRIGHT_SYSTEM="dgx-1", WARPWRIGHT_TIMING="full")
    alone, apart, together, ways, back = [[float(word) for word in line.split()] for line in said.splitlines()]
    assert apart == pytest.approx(alone * 4, rel=0.001)
    assert ways == pytest.approx(alone * 2, rel=0.02)  # each direction is a link of its own
    for one in (together, back):
        assert one[0] == pytest.approx(alone[0], rel=0.02)
        assert one[1] == pytest.approx(alone[0] / 2, rel=0.02)  # after the first one
    # A switch of one GPU each is none that they share, and NVLinks to a processor are a GPU's own.
    assert [way for way, _ in host_ways(load_machine("dgx-1"), 3)] == [("gpu3", "plx1"), ("plx1", "cpu0")]
    assert [way for way, _ in host_ways(load_machine("ac922"), 2)] == [("gpu2", "cpu1")]
    assert [way for way, _ in host_ways(load_machine("p100x2-pcie"), 1)] == [("gpu1", "cpu0")]


@pytest.mark.ci
@linux
def test_copies_without_access_go_by_way_of_the_host() -> None:
    staged = rates("h200x2", "took((0, 1, 0))", access=False)
    assert staged[0][0] == pytest.approx(37.2, rel=0.02)  # NCCL 1264: 36.3 to 38.0 between H100s
    direct = rates("h200x2", "took((0, 1, 0))")
    assert direct[0][0] == pytest.approx(395, rel=0.03)


# --- the command line ---------------------------------------------------------------------------------
def command(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "warpwright", *words], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.ci
def test_the_command_line_shows_machines() -> None:
    listed = command("system", "list").stdout
    assert all(name in listed for name in machine_names())
    shown = command("system", "show", "p100x2-nvlink").stdout
    assert "GPU0\tX\tNV4\tcpu0" in shown
    assert "eight lanes in each direction" in shown
    refused = command("system", "show", "dgx-2")
    assert (refused.returncode, refused.stderr.startswith("no machine is called 'dgx-2'; did you mean")) == (1, True)


@pytest.mark.ci
@linux
def test_programs_run_on_the_machine_of_the_command_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes\nimport warpwright as ww\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\n"
        "count = ctypes.c_int()\ncuda.cuDeviceGetCount(ctypes.byref(count))\n"
        "print(count.value, ww.System(timing='off').machine.name, ww.GPU().chip.name)\n"
    )
    done = command("run", "--system", "dgx-1", str(program))
    assert done.stdout.startswith("8 dgx-1 v100\n"), done.stdout + done.stderr
    both = command("run", "--system", "dgx-1", "--gpu", "a100", str(program))
    assert (both.returncode, both.stderr.strip()) == (2, "--system names the GPUs: omit --gpu")
    unknown = command("run", "--system", "dgx-9", str(program))
    assert unknown.returncode == 2
    assert "no machine is called 'dgx-9'" in unknown.stderr

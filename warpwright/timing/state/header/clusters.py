"""Thread block clusters: barriers, mbarriers, distributed shared memory, bulk copies."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.header.declarations import derived, from_chip


class ClusterWords(Unit):
    """Clusters' barriers, mbarriers, packets between SMs, and the engine of bulk copies."""

    wait_limit = from_chip("cluster.mbarrier_wait_limit_cycles", "cycle", "the longest that a try_wait is held back")
    arrive_interval = from_chip("cluster.mbarrier_arrive_interval_cycles", "cycle", "between two arrivals at mbarriers")
    look_interval = from_chip("cluster.mbarrier_look_interval_cycles", "cycle", "between two looks at their phases")
    remote_send = from_chip(
        "cluster.distributed_shared_packet_send_cycles", "1/256 cycle", "to send a packet of a cluster's atomics"
    )
    remote_take = from_chip("cluster.distributed_shared_packet_take_cycles", "1/256 cycle", "to take one")
    remote_way = from_chip(
        "cluster.distributed_shared_way_packet_cycles", "1/256 cycle", "of one of a GPC's ways for a packet of atomics"
    )
    remote_way_lines = derived(
        lambda z: z.chip.cluster.distributed_shared_way_selector_bits // z.chip.l1.l1_line_bytes,
        "mask",
        "of a line's number in shared memory whose parity chooses the way",
    )
    remote_ask = from_chip(
        "cluster.distributed_shared_line_request_cycles", "1/256 cycle", "of a load's request for a line"
    )
    cluster_events = word("", "somebody has arrived at a cluster's barrier that is not complete")
    cluster_latency = from_chip(
        "cluster.cluster_barrier_latency_cycles", "cycle", "from the last arrival to the first who goes on"
    )
    remote_latency = from_chip(
        "cluster.distributed_shared_latency_cycles", "cycle", "of a load from another block's shared memory"
    )
    bulk_interval = from_chip("cluster.bulk_copy_interval_cycles", "cycle", "between two bulk copies of an SM")
    bulk_bytes = derived(
        lambda z: max(z.chip.cluster.bulk_copy_bytes_per_clk, 1), "bytes", "that an SM's bulk copies move per cycle"
    )
    bulk_to_l2 = derived(lambda z: z.bulk_there // 2, "cycle", "from the bulk engine to a slice")
    bulk_from_l2 = derived(lambda z: z.bulk_there - z.bulk_there // 2, "cycle", "from a slice to shared memory")
    bulk_store = from_chip("cluster.bulk_store_latency_cycles", "cycle", "until a bulk store has read its first bytes")
    bulk_store_bytes = derived(
        lambda z: max(z.chip.cluster.bulk_store_bytes_per_clk, 1), "bytes", "that a bulk store reads per cycle"
    )
    bulk_store_interval = from_chip("cluster.bulk_store_interval_cycles", "cycle", "between two bulk stores of an SM")
    bulk_store_entries = from_chip(
        "cluster.bulk_store_entries", "stores", "that an SM takes before the first has been read"
    )
    remote_atomic = from_chip(
        "cluster.distributed_shared_atomic_latency_cycles", "cycle", "of an atomic on another block's shared memory"
    )
    remote_store_bytes = derived(
        lambda z: max(z.chip.cluster.distributed_shared_store_bytes_per_clk, 1),
        "bytes",
        "that an SM sends to others per cycle",
    )

"""Values of a warp's special registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import GRID_ID, LOCAL_WINDOW, SHARED_WINDOW, WARP_SLOTS

if TYPE_CHECKING:
    from warpwright.engine.interpreter.cluster import BlockState


def specials(block: BlockState, warp_in_block: int) -> dict[str, npt.NDArray[np.uint32]]:
    """The special registers that are constant while the warp runs, uint32 [lanes], by name."""
    x, y, _ = block.launch.geometry.block
    lanes = block.launch.kernel.program.lanes
    linear = warp_in_block * lanes + np.arange(lanes)
    values: dict[str, npt.NDArray[Any]] = {
        "tid.x": linear % x,
        "tid.y": linear // x % y,
        "tid.z": linear // (x * y),
        "laneid": np.arange(lanes),
        "warpid": np.full(lanes, warp_in_block),
    }
    if lanes <= 32:
        own, full = 1 << np.arange(lanes), (1 << lanes) - 1
        values |= {"lanemask_eq": own, "lanemask_lt": own - 1, "lanemask_le": 2 * own - 1}
        values |= {"lanemask_gt": full ^ 2 * own - 1, "lanemask_ge": full ^ own - 1}
    for name, value in of_block(block).items():
        values[name] = np.full(lanes, value)
    return {name: (value & 0xFFFFFFFF).astype(np.uint32) for name, value in values.items()}


def of_block(block: BlockState) -> dict[str, int]:
    """Those that are equal for every thread of a block."""
    launch = block.launch
    geometry = launch.geometry
    values = {
        "nwarpid": WARP_SLOTS,
        "smid": int(launch.sms[block.linear_index % len(launch.sms)]),
        "nsmid": launch.sm_count,
        "gridid": GRID_ID,
        "shared_window_hi": SHARED_WINDOW >> 32,
        "shared_window_lo": SHARED_WINDOW & 0xFFFFFFFF,
        "local_window_hi": LOCAL_WINDOW >> 32,
        "local_window_lo": LOCAL_WINDOW & 0xFFFFFFFF,
        "cluster_ctaid": block.cluster.blocks.index(block),
        "cluster_nctaid": geometry.cluster_blocks,
        "is_explicit_cluster": int(geometry.cluster is not None),
        "dynamic_smem_size": geometry.dynamic_shared_bytes,
        "total_smem_size": block.shared.size_bytes,
    }
    for axis, size, count, index in zip("xyz", geometry.block, geometry.grid, block.index, strict=True):
        values |= {f"ntid.{axis}": size, f"nctaid.{axis}": count, f"ctaid.{axis}": index}
    for axis, size, index in zip("xyz", geometry.cluster_shape, block.index, strict=True):
        values |= {f"cluster_ctaid.{axis}": index % size, f"cluster_nctaid.{axis}": size}
        values |= {f"clusterid.{axis}": index // size, f"nclusterid.{axis}": values[f"nctaid.{axis}"] // size}
    return values

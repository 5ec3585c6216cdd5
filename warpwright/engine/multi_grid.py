"""Workspaces of one cooperative launch on several devices, over which ``multi_grid_group::sync()`` meets.

``toolchain/device_runtime.py`` contains the code that uses them. The devices form a tree, built breadth first from the
first device in launch order, in which a device and its parent can access each other's memory. On DGX-1, GPUs 1 to 4 are
the first one's children, and GPUs 5 to 7, to which it has no NVLink, their children.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import UnsupportedError
from warpwright.toolchain import device_runtime as layout

Reaches = Callable[[int, int], bool]
"""Whether one device of the launch can access the memory of another, by their indices in it."""
_COUNT = 0x7FFF_FFFF


def parents(count: int, reaches: Reaches) -> list[int | None]:
    """The parent of each device; None for the first one.

    Raises:
        UnsupportedError: if a device has no peer access to any other one.
    """
    found: list[int | None] = [None] * count
    reached = [0]
    for parent in reached:
        for child in range(1, count):
            if child not in reached and reaches(parent, child) and reaches(child, parent):
                found[child] = parent
                reached.append(child)
    left = [str(number) for number in range(count) if number not in reached]
    if left:
        raise UnsupportedError(
            f"a cooperative launch on several devices: the machine offers no peer access between {' and '.join(left)} and the other devices of the launch "
            "(counted from 0 in the order of the launches), over which their grids could meet; launch on devices that NVLink or one processor's PCI Express joins"
        )
    return found


def connect(memories: Sequence[DeviceMemory], reaches: Reaches, kernel: str) -> list[Allocation]:
    """Allocate the workspaces, one in each device's memory, and make each accessible to its neighbours in the tree.

    Raises:
        UnsupportedError: as in :func:`parents`.
        OutOfMemoryError: if a device's memory is full.
    """
    tree = parents(len(memories), reaches)
    made: list[Allocation] = []
    try:
        for memory in memories:
            made.append(memory.allocate(layout.GRIDS_WORKSPACE_BYTES, f"barrier of several grids of {kernel}"))
    except BaseException:
        for memory, workspace in zip(memories, made, strict=False):
            memory.free(workspace)
        raise
    for rank, (memory, workspace) in enumerate(zip(memories, made, strict=True)):
        parent = tree[rank]
        children = [child for child, above in enumerate(tree) if above == rank]
        raw = bytearray(layout.GRIDS_WORKSPACE_BYTES)
        struct.pack_into("<3I", raw, layout.GRIDS, len(memories), rank, len(children))
        if parent is not None:
            place = [child for child, above in enumerate(tree) if above == parent].index(rank)
            struct.pack_into("<Q", raw, layout.IN_PARENT, made[parent].address + layout.COME + 4 * place)
            memory.show_to(memories[parent], workspace)
            memories[parent].show_to(memory, made[parent])
        released = [made[child].address + layout.RELEASED for child in children]
        struct.pack_into(f"<{len(released)}Q", raw, layout.IN_CHILD, *released)
        memory.view(workspace.address, len(raw))[:] = memoryview(raw)
    return made


def blocks_come(word: int, blocks: int) -> int:
    """How many blocks have arrived at a barrier: each adds one, the first so much that the highest bit changes with the last."""
    low = word & _COUNT
    return low if low < blocks else low + blocks - (_COUNT + 1)


def state_of(memories: Sequence[DeviceMemory], workspaces: Sequence[Allocation], blocks: int) -> str:
    """Number of blocks of each grid that wait at a barrier of their grid or of all grids, and number of barriers of all
    grids so far."""
    parts = []
    for rank, (memory, workspace) in enumerate(zip(memories, workspaces, strict=True)):
        raw = memory.view(workspace.address, workspace.size_bytes, read_only=True).tobytes()
        arrived, met, released = (
            struct.unpack_from("<I", raw, offset)[0] for offset in (layout.ARRIVED, layout.MET, layout.RELEASED)
        )
        # Between the grid's two barriers of one of all grids, the highest bit is set: all blocks have come to that one.
        come = blocks if met > _COUNT else blocks_come(met, blocks) + blocks_come(arrived, blocks)
        parts.append(
            f"grid {rank}: {come} of {blocks} blocks have arrived after {released} barrier{'s' * (released != 1)}"
        )
    return "; ".join(parts)

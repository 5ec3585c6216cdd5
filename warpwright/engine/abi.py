"""Layouts that compiled code, interpreter, launch and timing model share: state, statuses, trace words.

Everything here is a flat structure of little-endian 64-bit slots, so that LLVM code
(getelementptr by byte), NumPy (int64 views) and Numba (index = byte // 8) read the same
bytes.  Offsets are generated from tables of field names.

Life of a warp
--------------
``status = warp_function(warp)`` runs a warp until it stops.  With tracing off it stops only for
barriers that other warps must reach, a yield in a spin loop, exit, fault, trap.  With tracing
on it also stops *before* each strong (atomic, volatile, acquire, release) access to global or
generic memory and before each clock read, and when its trace buffer is nearly full; the next call resumes and
performs the access.  The timing model calls a warp again when simulated time has consumed its
records and the reason for the stop has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from warpwright.isa.ops import SHARED_RANK_SHIFT as SHARED_RANK_SHIFT


class Layout:
    """Maps names to byte offsets: every field is a number of 8-byte slots, in the given order."""

    def __init__(self, **slots: int) -> None:
        self.offsets: dict[str, int] = {}
        position = 0
        for name, count in slots.items():
            self.offsets[name] = position
            position += 8 * count
        self.size_bytes = (position + 63) // 64 * 64
        self._slots = {name: offset // 8 for name, offset in self.offsets.items()}

    def __getitem__(self, name: str) -> int:
        """Byte offset of a field."""
        return self.offsets[name]

    def slot(self, name: str) -> int:
        """Index of a field in an int64 view."""
        return self._slots[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.offsets)


class Status(IntEnum):
    """Why a warp function returned."""

    EXIT = 0
    """Every lane has exited."""
    BARRIER = 1
    """Arrived at a block barrier: the fields ``barrier_*`` identify it; call again when it has completed."""
    STRONG = 2
    """Tracing only: a strong access to global or generic memory is next."""
    TRACE_FULL = 3
    """Tracing only: the buffer has no room for another block; consume the records, then call again."""
    FAULT = 4
    """``fault_*`` hold kind, address, lanes and instruction."""
    YIELD = 5
    """A spin loop yields: run other warps, then call again."""
    TRAP = 6
    """BPT.TRAP or a failed assertion; ``fault_instruction`` is its address."""
    CLOCK = 7
    """Tracing only: a clock read is next; set ``clock`` before calling again."""
    DEADLOCK = 8
    """No lane of the warp can run: lanes wait at convergence barriers for each other."""
    INTERPRET = 9
    """The compiled code met a case that it does not handle; state was saved in architectural form for the
    interpreter."""
    SLEEP = 10
    """Tracing only: NANOSLEEP; ``sleep_ns`` holds the time."""
    STANDSTILL = 11
    """Status of a run of blocks: every warp runs, but all of them only repeat themselves (``jit/livelock.py``)."""
    NOT_COMPILED = 12
    """The whole function was needed and compiling it failed (``jit/lazy_compile.py``)."""
    STEP = 13
    """Without tracing only: the warp lets the others of its block catch up (``jit/lockstep.py``)."""


PASSED_ON = 256
"""Added to the status by a function that continued with other warps of the block: the status is that of
BLOCK.running."""


class FaultKind(IntEnum):
    NONE = 0
    OUT_OF_BOUNDS = 1
    MISALIGNED = 2
    SHARED_OUT_OF_BOUNDS = 3
    LOCAL_OUT_OF_BOUNDS = 4
    WILD_BRANCH = 5
    ILLEGAL_INSTRUCTION = 6
    STACK_OVERFLOW = 7
    """The reconvergence stack of a warp (chips before Volta) is full."""
    TEXTURE_HANDLE = 8
    """The word is not the handle of a live texture or surface object: ``fault_address`` holds it."""
    SURFACE_OUT_OF_BOUNDS = 9
    """``fault_address`` holds x (bytes), y and z in 21 bits each."""
    NO_SUCH_BLOCK = 10
    """A shared address names a block that the cluster does not have."""
    BLOCK_HAS_EXITED = 11
    """A shared address names a block of the cluster that has ended."""
    TENSOR_COORDINATE = 12
    """A tensor copy begins at a position that is not allowed."""
    OTHER_TENSOR = 13
    """A tensor map whose rank or mode differs from the instruction's."""


BARRIER_MODES = ("sync", "arrive", "popc", "and", "or", "cluster_arrive", "cluster_wait")
"""The kind of barrier at which a warp stopped, by WARP.barrier_mode."""

WARP = Layout(
    launch=1,  # pointer to LAUNCH
    block=1,  # pointer to BLOCK
    warp_in_block=1,
    lanes=1,  # mask of lanes that hold a thread
    resume=1,  # 0 = start; the compiled function's own numbering
    exited=1,  # mask of lanes that have exited
    local_base=1,  # host pointer: this warp's local memory; lane-interleaved: word w of lane l at (w * lanes + l) * 4
    trace_base=1,  # host pointer to the record buffer (0 = tracing off)
    trace_used=1,  # words (u64) written
    trace_limit=1,  # words; the function stops beyond it, after at most the kernel's trace_words further words
    barrier_id=1,
    barrier_threads=1,  # expected thread count (0 = whole block)
    barrier_mode=1,  # index into BARRIER_MODES
    barrier_lanes=1,  # lanes that arrived with this stop
    barrier_vote=1,  # lanes whose predicate is true (reductions)
    barrier_result=1,  # written by the block scheduler before the resume: the reduction's value
    clock=1,  # cycles, for clock reads; with tracing off a count of executed blocks
    globaltimer_ns=1,
    sleep_ns=1,
    holds_back=1,  # tracing only: a try_wait stops again before itself until its phase has ended
    fault_kind=1,
    fault_address=1,
    fault_lanes=1,
    fault_bytes=1,
    fault_instruction=1,  # byte address of the instruction in the program
    cancelled_at=1,  # 1 + byte address of the backward branch at which the warp saw LAUNCH.cancel; its lanes are in fault_lanes
    instructions=1,  # warp-instructions executed so far (counted by basic block)
    thread_instructions=1,  # thread-instructions (active lanes summed)
    sm_id=1,
    spill=1,  # pointer to the engine's own save area (size: the compiled kernel's spill_bytes)
    cluster_arrived=1,  # lanes that have arrived at the cluster's barrier in its current phase
    outside_lanes=1,  # tracing only: lanes that reached a WARPSYNC whose mask lacks them
    outside_instruction=1,  # byte address of the WARPSYNC that the last of them reached
    next=1,  # pointer to the block's next WARP, 0 for the last; only without tracing
)
"""One per resident warp."""

NAMED_BARRIERS = 16
"""Of a block, on every chip (PTX ISA, ``bar``: 0 to 15)."""
BLOCK = Layout(
    index_x=1,
    index_y=1,
    index_z=1,
    linear_index=1,
    shared_base=1,  # host pointer
    shared_bytes=1,  # static + dynamic
    warps=1,  # pointer to the first WARP (contiguous, stride = compiled kernel's warp_bytes)
    warp_count=1,
    barriers=NAMED_BARRIERS,  # engine's block scheduler: arrived threads for each named barrier
    votes=NAMED_BARRIERS,  # running reduction for each named barrier
    long_turns=1,  # engine's block scheduler: turns so far of BACK_EDGES_BEFORE_YIELD iterations, at most LONG_TURNS
    cluster_rank=1,
    cluster_index_x=1,  # index of the block in its cluster
    cluster_index_y=1,
    cluster_index_z=1,
    cluster_id_x=1,  # index of the cluster in the grid
    cluster_id_y=1,
    cluster_id_z=1,
    cluster_blocks=16,  # pointers to the cluster's BLOCKs by rank, this one included; 0 for those that have ended
    running=1,  # pointer to the WARP with which a function continued (PASSED_ON); only without tracing
)
"""One per resident block."""

LAUNCH = Layout(
    grid_x=1,
    grid_y=1,
    grid_z=1,
    block_x=1,
    block_y=1,
    block_z=1,
    dynamic_shared_bytes=1,
    allocations=1,  # pointer to pairs of u64 (first byte, one past the last) of device addresses, sorted
    allocation_count=1,
    host_minus_device=1,  # host pointer = device address + this
    constant_banks=8,  # host pointers for banks 0..7
    constant_bytes=8,  # sizes for banks 0..7; reads beyond give 0
    sm_count=1,  # number of SMs of the whole chip
    cancel=1,  # set to 1 by the host to stop a launch (Ctrl-C): checked at yields, barriers, back edges of long loops
    local_bytes_per_thread=1,
    cluster_x=1,  # blocks of a cluster by axis; 1 for launches without clusters
    cluster_y=1,
    cluster_z=1,
    cluster_count=1,  # blocks of a cluster
    clusters_x=1,  # clusters of the grid by axis
    clusters_y=1,
    clusters_z=1,
    explicit_cluster=1,  # 1 if the launch or the kernel specifies a cluster shape
    bulk=1,  # i32 f(WARP*, u32 lanes, u32 Bulk.number, u32 words[16][32], record, instruction): 1 at fault; record: 0 or where
    service=1,  # void f(WARP*, u32 lanes, u32 number in Program.services, u32 words[16][32], u64 instruction): results in the first two rows
    texture=1,  # void f(WARP*, u32 lanes, u64 TextureAccess.word(), u32 words[16][32], u64 addresses[32], u64 instruction): results in the first four rows, each lane's first texel in addresses
    textures=1,  # pointer to the rows of engine/textures/table.py
    texture_count=1,
    texture_slow_path=1,  # as texture, but Python's function, for cases that compiled code does not handle
    taking_sms=1,  # pointer to u64 numbers of the SMs that take the launch's blocks, ascending
    taking_sm_count=1,
    lanes=1,  # lanes of a warp
    pages=1,  # pointer to pairs as `allocations`: mapped pages, in which accesses outside all allocations do not fault
    page_count=1,  # 0 unless faults are those of a card's pages
    overrun=1,  # pointer to OVERRUN
    miscounted=1,  # a barrier with an invalid number of threads: 0, or instruction << 16 | threads << 1 | 1 if it differs from that of earlier arrivals
)
"""One per launch; read-only for warps, except for ``miscounted``, which the code that counts their arrivals sets."""

OVERRUN = Layout(
    found=1,  # 1 once the other fields are set; 2 by the interpreter, which sets address and bytes only
    launch=1,  # pointer to LAUNCH
    address=1,
    bytes=1,
    instruction=1,
    warp_in_block=1,
    lane=1,
    block_x=1,
    block_y=1,
    block_z=1,
)
"""The first access of a launch that was outside all allocations but in a mapped page."""

SPILL_HEADER_BYTES = 64
"""The part of a save area that must be zeroed before each warp; the rest is zeroed only before a launch."""
STATE_AT = 8
"""Offset in the save area of a warp's state; the block scheduler's, without tracing: 0 can run, 1 at a barrier, 2
ended, 3 stuck, 4 at its cluster's barrier."""
TURNS_AT = 24
"""Offset in the save area of the count of backward branches in a spin loop (u32)."""
BACK_EDGES_BEFORE_YIELD = 64
"""Number of iterations after which a warp in a spin loop yields to other warps."""

SHARED_WINDOW = 0x7E00_0000_0000
"""Generic address of byte 0 of the shared memory of a cluster's first block: the low 32 bits are the offset (24 bits) and the
block's rank in its cluster (8 bits)."""
SHARED_OFFSETS = (1 << SHARED_RANK_SHIFT) - 1
SHARED_WINDOW_BYTES = 1 << 32
"""Size of the shared window: every rank's 16 MiB."""
GRID_ID = 1
"""%gridid: a card counts the launches of a context from 1; here every launch has number 1."""
WARP_SLOTS = 64
"""%nwarpid: the number of warp slots of an SM, however many a launch uses."""
MAX_CLUSTER = 16
"""Number of blocks of the largest cluster (CUDA C++ Programming Guide: 8, or 16 if a kernel allows non-portable
sizes)."""
LOCAL_WINDOW = 0x7E01_0000_0000
"""Generic address of local byte 0 (16 MiB window)."""
WINDOW_BYTES = 1 << 24
"""Size of the local window, and of one block's part of the shared one."""
DEVICE_BASE = 0x7F00_0000_0000
"""First device address of global memory."""

HERE, HOST, PEER, MIGRATES = range(4)
"""Where bytes are stored, from the point of view of the device whose memory lists them: in its own DRAM, the host's,
another device's; or wherever they are used, as managed memory, which migrates."""
PLACE_BITS = 2
"""Bits of a place that hold one of the four; the bits above them number another device's memory."""


def peer_place(ordinal: int) -> int:
    """``PEER`` with the number of the device that has the bytes."""
    return PEER | (ordinal + 1) << PLACE_BITS


def is_peer(place: int) -> bool:
    """Whether a place is another device's memory."""
    return place & (1 << PLACE_BITS) - 1 == PEER


# --- trace records: u64 words in the order of execution ------------------------------------------
# Bits 31..0 of a record's first word are lanes.  Waves of more than 32 lanes have them in a separate word, which follows the
# first one: a record's head then has two words (:func:`head_words`).
# A block record:   bits 63..60 = TAG_BLOCK, 59..32 = basic-block number, 31..0 = active lanes on entry.
# It represents every instruction of that basic block.  Then, for each memory instruction of the block
# in program order, there is exactly one memory record (asynchronous copies: two, global then shared), even if no lane executes it
# and however many operations make up its meaning (``blocks.recorded_accesses``):
#   affine:  bits 63..60 = TAG_AFFINE, 55..32 = stride in bytes between lanes (signed 24 bits), 31..0 = exec lanes;
#            next word = address of lane 0 (also when lane 0 is not active)
#   pattern: bits 63..60 = TAG_PATTERN, 31..0 = exec lanes; next word = address of lane 0; next word = host pointer to
#            a word for each lane, its address less lane 0's (part of the compiled code: valid as long as the kernel)
#   gather:  bits 63..60 = TAG_GATHER, 31..0 = exec lanes; then a word for each lane, its address (undefined for inactive lanes)
# Bit 56 of a store's first word is ALIKE if compiled code has found that lanes which share an address store the same value; it
# tests this only where lanes may share an address.
# Addresses: device addresses for global; SHARED_WINDOW / LOCAL_WINDOW + offset for shared and local, also
# if the instruction is LDS or LDL, so that the address of a generic access determines its space.
TAG_BLOCK = 1
TAG_AFFINE = 2
TAG_GATHER = 3
TAG_PATTERN = 4
TAG_BULK = 5
ALIKE = 1 << 56
#   bulk copy: bits 63..60 = TAG_BULK, 33..32 = direction (isa/bulk.py), 31..0 = exec lanes; then bytes in shared memory, address
#            in global memory (-1: none), bytes of a row, four pairs (rows, stride in bytes) by dimension, offset of the mbarrier
#            (-1: none), mask of the blocks whose mbarrier is signalled, host pointer to BLOCK; place in shared memory as
#            offset | bytes << 32 (-1: none), mask of the blocks whose shared memory it writes (0: it reads the own
#            block's; bit 32: parts of its box are outside the tensor), and the place that it reads for another block.
#            The reader of the records arrives at the mbarriers once the bytes have arrived.
BULK_WORDS = 18
TAG_SYNC = 6
#   warp-wide operation (``*_sync``), for the checks only (``Setting.watched``): bits 63..60 = TAG_SYNC, 59..32 = basic-block number,
#            31..0 = lanes that execute it together; then the lanes that its mask names and that are not among them.


TAG_POLICY = 7
#   access policy: bits 63..60 = TAG_POLICY, 31..0 = its upper word (isa/sass/access_policy.py); precedes the record of
#            the access that it applies to.


def head_words(lanes: int) -> int:
    """Number of words of a record's head: its tag, and for waves of more than 32 lanes the lanes."""
    return 1 if lanes <= 32 else 2


def record_words(lanes: int) -> dict[int, int]:
    """Words of each kind of record, by tag, for waves of a given number of lanes."""
    head = head_words(lanes)
    of_lanes = {TAG_BLOCK: head, TAG_AFFINE: head + 1, TAG_GATHER: head + lanes, TAG_PATTERN: head + 2}
    return {**of_lanes, TAG_BULK: BULK_WORDS, TAG_SYNC: head + 1, TAG_POLICY: 1}

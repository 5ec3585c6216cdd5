"""The machine's state: one flat int64 array, every field with a name.

The array begins with the header (``H_``: the chip's numbers, where areas begin, chip-wide state), then one
region for each SM, then L2 and DRAM.  A region begins with fields at fixed places:
the SM's scalars (``SM_``), its sub-cores (``SC_``), warp slots (``W_``), block slots (``B_``) and scratch; what depends on
the chip or the program (requests, cache tags, instruction lines) follows at offsets that the header holds.

Times are SM cycles since the launch began.  ``INF`` means "not known yet" or "never".
One array and not seventy: a tuple of arrays made the model 2.8 to 36 times slower.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.engine.abi import BULK_WORDS
from warpwright.timing import buffers

INF = 1 << 60
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2**64 over the golden ratio, as a signed number: spreads bits
MAX_WARPS = 16  # warp slots of one sub-core
MAX_SUB_CORES = 4
MAX_BLOCKS = 32
SM_GROUPS = 8  # neighbouring SMs that one host thread runs, one after the other
AT_CLUSTER = 17  # value of W_BARRIER at the barrier of a cluster: one behind the sixteen named ones

# --- pipes: what an instruction occupies when it issues -------------------------------------------
PIPES = ("none", "alu", "fma", "fma_heavy", "half", "fp64", "xu", "tensor", "uniform", "branch", "mio", "fma_lite")
(
    P_NONE,
    P_ALU,
    P_FMA,  # FP32: heavy or lite, whichever is free; its time is the earlier of the two
    P_FMA_HEAVY,
    P_HALF,
    P_FP64,
    P_XU,
    P_TENSOR,
    P_UNIFORM,
    P_BRANCH,
    P_MIO,  # free when the queue has an empty entry
    P_FMA_LITE,
) = range(12)
PIPE_COUNT = 16

# --- why a warp waits, in Nsight Compute's words ---------------------------------------------------
STALLS = (
    *("selected", "not_selected", "wait", "short_scoreboard", "long_scoreboard", "math_pipe_throttle"),
    *("mio_throttle", "no_instruction", "imc_miss", "barrier", "branch_resolving", "membar", "sleeping"),
    *("dispatch_stall", "lg_throttle", "drain"),
)
(
    ST_SELECTED,
    ST_NOT_SELECTED,
    ST_WAIT,
    ST_SHORT,
    ST_LONG,
    ST_MATH,
    ST_MIO,
    ST_NO_INSTRUCTION,
    ST_CONSTANT,
    ST_BARRIER,
    ST_BRANCH,
    ST_MEMBAR,
    ST_SLEEP,
    ST_DISPATCH,
    ST_LG,
    ST_DRAIN,
) = range(16)

# --- header ----------------------------------------------------------------------------------------
(
    H_SMS,
    H_SUB_CORES,
    H_SM_FIRST,  # index of the first SM region
    H_SM_SLOTS,  # size of a region
    H_WINDOW,  # cycles of a window: below the shortest way from an SM to L2 and back
    H_NOW,
    H_ERROR,  # an SM or the serial phase met something that Python must handle
    H_CLOCK_KHZ,
    # launch
    H_FUNCTION,  # address of the warp function
    H_LAUNCH,  # pointer to the LAUNCH structure
    H_GRID_X,
    H_GRID_Y,
    H_BLOCKS,  # blocks of the grid
    H_NEXT_BLOCK,
    H_DONE_BLOCKS,
    H_BLOCKS_PER_SM,
    H_WARPS_PER_BLOCK,
    H_THREADS_PER_BLOCK,
    H_BLOCK_BASE,  # host pointer of the first BLOCK structure
    H_BLOCK_STRIDE,
    H_WARP_BASE,  # host pointer of the first WARP structure
    H_WARP_STRIDE,
    H_SPILL_OFFSET,  # of the save area from its WARP structure
    H_SPILL_BYTES,  # of it that each warp finds zeroed
    H_SHARED_BASE,
    H_SHARED_STRIDE,
    H_SHARED_BYTES,
    H_LOCAL_BASE,
    H_LOCAL_STRIDE,
    H_TRACE_BASE,
    H_TRACE_STRIDE,
    H_TRACE_LIMIT,
    H_AGE,  # launch number of the next warp
    H_LAST_FINISH,
    H_DISPATCH_FREE,  # when the dispatcher can send the next block, in 1/256 cycle
    H_DISPATCH_INTERVAL,  # in 1/256 cycle
    H_BLOCK_SM_INTERVAL,
    H_BLOCK_LATENCY,
    H_OVERHEAD,
    # sub-core
    H_WINDOW_OPERANDS,  # operand read window
    H_BRANCH_LATENCY,
    H_MIO_ENTRIES,
    H_MIO_INTERVAL,
    H_MIO_LATENCY,
    H_L0_LINES,  # capacity
    H_L1I_LINES,
    H_L1I_LATENCY,
    H_L1I_INTERVAL,
    H_L2I_LATENCY,
    H_L2I_INTERVAL,
    H_PREFETCH,
    H_CODE_LINES,  # of this program
    H_CONST_LINES,  # capacity of a first level of constants
    H_CONST_LINE_BYTES,
    H_CONST_BLOCK_LINES,  # lines that L1.5 asks for at once
    H_CONST_MISS,  # beyond a hit: LDC from L1.5
    H_IMMEDIATE_MISS,  # an operand from L1.5
    H_CONST_L2,  # beyond L1.5
    H_CONST_INTERVAL,  # of L1.5
    H_CONST_WORD,  # of the SM for a different word
    H_CONST_REPLAY,
    H_CONST_ARRIVED,  # area: when the first SM got each block
    H_BARRIER_LATENCY,
    H_BARRIER_INTERVAL,
    # L1 and shared
    H_LSU_CAPACITY,  # wavefronts of a calendar bucket
    H_SHARED_LATENCY,
    H_SHARED_STORE_LATENCY,
    H_SHARED_ATOMIC,  # latency of an atomic behind the queue
    H_L1_SETS,
    H_L1_WAYS,
    H_L1_LATENCY,
    H_L1_TAG_BANKS,  # lines of different banks that the tag stage takes a clock
    H_L1_WRITE_BYTES,
    H_L1_LINES,  # sets x ways
    H_FILL_CAPACITY,  # sectors of a calendar bucket
    H_LOCAL_PHYSICAL,  # where local memory lies for caches
    # crossbar, L2, DRAM
    H_GPC_OF_SM,  # area
    H_PARTITION_OF_SM,  # area
    H_SM_ORDER,  # area: SMs in the order in which the dispatcher serves them
    H_GPCS,
    H_GPC_PORTS,  # area of calendars
    H_GPC_CAPACITY,
    H_GPC_WRITE_PORTS,
    H_GPC_WRITE_CAPACITY,
    H_TO_L2,  # cycles from the load/store unit to a slice
    H_FROM_L2,
    H_SLICES,
    H_PARTITIONS,
    H_SLICE_PORTS,  # area of calendars: reads
    H_SLICE_WRITE_PORTS,  # area of calendars: fills, writes, atomics
    H_SLICE_CAPACITY,  # bytes of a calendar bucket
    H_L2_SETS,
    H_L2_WAYS,
    H_L2_TAGS,  # areas
    H_L2_STAMPS,
    H_L2_FILLS,
    H_L2_SLICE_WAYS,  # sets x ways
    H_L2_FETCH,  # sectors of a fetch
    H_L2_ACCESS,  # bytes of the read port that an access takes at least
    H_L2_FILL,  # write port: a sector that comes from DRAM or the other partition, in bytes
    H_L2_WRITE_REQUEST,  # a write, and each of its whole or partial sectors
    H_L2_WRITE_WHOLE,
    H_L2_WRITE_PART,
    H_FAR_LATENCY,
    H_FAR_PORTS,
    H_FAR_CAPACITY,
    H_ATOMIC_LATENCY,
    H_ATOMIC_WHOLE,  # a pass over a whole sector, in bytes of slice bandwidth
    H_ATOMIC_PART,  # over part of one
    H_ATOMIC_SUM,  # between floating-point sums on one word
    H_ATOMIC_TURN,  # from an atomic without an answer to one with an answer, or back
    H_ATOMIC_LAST,  # area: what each slice's atomic unit was asked last
    H_CHUNK_SHIFT,  # log2 of the neighbouring lines that share a slice
    H_BLOCK_ROWS,  # where the program's blocks begin in its table
    H_USES_RING,  # the program has DEPBAR.LE with a count
    H_CHANNELS_PER_SLICE,
    H_DRAM_PORTS,  # area of calendars
    H_DRAM_STATE,  # area: D_ fields of each channel
    H_DRAM_BANKS,  # area: open row and ready time of each bank
    H_DRAM_BANK_COUNT,
    H_DRAM_LATENCY,  # beyond an L2 hit, row open
    H_DRAM_ROW_MISS,
    H_DRAM_ROW_CYCLE,
    H_DRAM_ROW_LINES,  # lines of all slices that share a row of each
    H_DRAM_SECTOR,  # bus time of 32 bytes, in 1/256 cycle
    H_DRAM_TURNAROUND,  # in 1/256 cycle
    H_DRAM_REFRESH_INTERVAL,
    H_DRAM_REFRESH,  # in 1/256 cycle
    H_DRAM_BATCH,
    H_BANK_REFRESH_INTERVAL,
    H_BANK_REFRESH,
    # serial phase
    H_BUCKETS,  # area
    H_ORDER,  # area
    # offsets in an SM's region of what has no fixed place
    H_OFF_REQUESTS,
    H_OFF_WAITERS,
    H_OFF_LOADS,
    H_OFF_CONST,  # LDC's first level
    H_OFF_IMMEDIATE,  # operands' first level
    H_OFF_CONST_BLOCKS,  # L1.5
    H_OFF_L0,
    H_OFF_L1I,
    H_OFF_L1,
    H_OFF_JOIN,  # stores that later ones may join (J_ fields), and the place of the next
    H_INSTRUCTIONS,  # of the program
    H_STALLS,  # area: of each group of SMs, cycles by instruction and reason; issues in the place of "selected"
    H_BLOCK_LOG,  # area: SM, start and end of each block
    H_LOGGED_BLOCKS,  # blocks that the log has room for
    H_LOG_FIRST,  # the block whose entry is the log's first
    H_BEGUN,  # the first blocks of this stretch of the grid are on the chip
    H_STAGGER,  # cycles between the first blocks of an SM
    H_WARM_INSTRUCTIONS,  # executed without time (warming.py)
    H_WARM_THREADS,
    # counters of the serial phase
    H_L2_SECTORS_READ,
    H_L2_SECTORS_WRITE,
    H_L2_SECTORS_ATOMIC,
    H_L2_HITS_READ,
    H_L2_FAR_READS,
    H_L2_FAR_WRITES,
    H_L2_FAR_HITS,
    H_L2_FAR_ATOMICS,
    H_L2_MISSED_ATOMIC,  # sectors
    H_L2_COMPLETED,  # partly written sectors that were read from DRAM and written back
    H_TLB,  # area: by GPC (tlb.py)
    H_TLB_SLOTS,
    H_TLB_SETS,  # 0: every page is at hand
    H_TLB_PORTS,  # area: a calendar of each GPC
    H_TLB_HIT,  # units of it
    H_TLB_MISS,
    H_TLB_LATENCY,
    H_PAGE_SHIFT,  # from a line to its page
    H_COALESCED,  # sectors that a GPC's coalescer did not ask for again
    H_COALESCING,  # cycles for which a request can be joined
    H_COALESCER_LINES,  # of a GPC, a power of two, 0: there is none
    H_COALESCER,  # area: by GPC, lines on their way: line << 4 | sectors, and when they are there
    H_TOUCHED,  # area: which slices each SM has turned to, a bit each
    H_TOUCHED_WORDS,  # of an SM
    H_L2_PARTIAL_WAYS,  # of a set that may hold partly written lines
    H_DRAM_READS,  # sectors
    H_DRAM_WRITES,
    H_DRAM_ACTIVATIONS,
    H_DRAM_ACTIVATE_READ,  # between two rows that a channel opens, 1/256 cycle
    H_DRAM_ACTIVATE_WRITE,
    H_ATOMIC_CHANGE,  # bytes of a slice's bandwidth for an atomic on a line that is none of its last ones; with an answer
    H_ATOMIC_CHANGE_ANSWER,
    H_ATOMIC_LINES,  # area: by slice, the lines of its last atomics
    H_STRONG_CALLS,
    H_CLUSTER_EVENTS,  # somebody has arrived at a cluster's barrier that is not complete
    H_CLUSTER_LATENCY,  # from the last arrival to the first who goes on
    H_REMOTE_LATENCY,  # of a load from another block's shared memory
    H_CLUSTER_BLOCKS,  # blocks of a cluster
    H_CLUSTER_X,
    H_CLUSTER_Y,
    H_CLUSTERS_X,  # clusters of the grid by axis
    H_CLUSTERS_Y,
    H_BULK_INTERVAL,  # between two bulk copies of an SM
    H_BULK_BYTES,  # that an SM's bulk copies move a cycle
    H_BULK_EXTRA,  # of a bulk load beyond the way to L2 and back
    H_BULK_STORE,  # until a bulk store has read its first bytes
    H_BULK_STORE_BYTES,  # that it reads a cycle
    H_SLOTS,
) = range(200)

# --- SM -----------------------------------------------------------------------------------------
(
    SM_INDEX,
    SM_STALLS,  # its group's table
    SM_NEXT,  # earliest time at which something can happen
    SM_ERROR,  # a warp stopped for Python: its slot + 1
    SM_RESIDENT,  # blocks
    SM_REQUESTS,  # in this window
    SM_WAITERS,
    SM_LOADS,
    SM_DONE,  # blocks that ended in this window
    SM_ROTATE,  # sub-core that gets the next warp
    SM_BLOCK_FREE,  # when the next block may start
    SM_ACTIVE_FROM,
    SM_TEXTURE_FREE,  # texture units
    SM_FETCH_FREE,  # L1 instruction cache port
    SM_FETCH_L2_FREE,
    SM_RECONSIDER,  # warp slots (bit mask of 64) of which something became known
    SM_BARRIER_FREE,
    SM_STORE_FREE,  # writes wait until so many are acknowledged
    SM_STORE_BUSY,  # cycles in which stores have occupied the load/store unit
    SM_STORE_END,  # when the last store leaves it
    SM_FINISH,  # last end of a warp, last acknowledged write
    # counters
    SM_ACTIVE,
    SM_BLOCKS_RUN,
    SM_INSTRUCTIONS,
    SM_THREADS,
    SM_WARP_CYCLES,
    SM_GLOBAL_LOADS,
    SM_GLOBAL_STORES,
    SM_GLOBAL_ATOMICS,
    SM_LOAD_SECTORS,
    SM_LOAD_HITS,
    SM_STORE_SECTORS,
    SM_ATOMIC_SECTORS,
    SM_LOCAL_LOADS,
    SM_LOCAL_STORES,
    SM_LOCAL_SECTORS,  # of loads
    SM_LOCAL_HITS,
    SM_SHARED_LOADS,
    SM_SHARED_STORES,
    SM_SHARED_WAVEFRONTS,
    SM_SHARED_IDEAL,
    SM_TAG_LINES,
    SM_LSU_WAVEFRONTS,
    SM_FILL_SECTORS,
    SM_FETCH_MISSES,
    SM_BARRIERS,
    SM_RAN,  # calls of the warp function
    SM_FORETOLD_WRONG,
    SM_BULKS,  # bulk copies issued in this window
    SM_BULK_FREE,  # when the engine of bulk copies takes the next
    SM_TELLS,  # mbarriers of this SM to be told of bytes that are on their way
    SM_PIPE_FIRST,  # issues by pipe, PIPE_COUNT
) = range(52)
SM_DONE_FIRST = SM_PIPE_FIRST + PIPE_COUNT  # pairs (time, block slot), MAX_BLOCKS
SM_SCALARS = (SM_DONE_FIRST + 2 * MAX_BLOCKS + 7) // 8 * 8

# --- sub-core --------------------------------------------------------------------------------------
(
    SC_NEXT,
    SC_LAST,  # slot that issued last, -1 after a yield
    SC_LAST_REUSE,  # slot whose operands the register-file cache holds, -1
    SC_ISSUE_FREE,
    SC_BANK0,  # when each register bank's read port is free
    SC_BANK1,
    SC_MIO_FREE,  # when the queue can hand over its next instruction
    SC_MIO_HEAD,
    SC_FREE,  # free warp slots (bit mask)
    SC_FIELDS,
) = range(10)
SC_READY = 16  # earliest issue of each slot's next instruction
SC_PIPE = SC_READY + MAX_WARPS  # the pipe that it needs
SC_AGE = SC_PIPE + MAX_WARPS  # launch number
SC_PIPE_FREE = SC_AGE + MAX_WARPS
SC_MIO_QUEUE = SC_PIPE_FREE + PIPE_COUNT  # ring: when each of the last instructions left the queue
SC_SLOTS = SC_MIO_QUEUE + 16

# --- warp slot: eight words are a cache line of the host; the first two lines serve most issues -------
(
    W_PC,  # index of the next instruction
    W_END,  # one past the last of its basic block
    W_MASK,  # active lanes of the basic block
    W_LAST,  # time of its last issue
    W_REASON,  # what the next instruction waits for
    W_EARLIEST,  # known part of its next issue time while something else is unknown
    W_LINE,  # instruction line that it holds
    W_SLOT,  # sub-core * 16 + slot
    W_POS,  # words consumed
    W_USED,  # words there are
    W_TRACE,  # host pointer of its records
    W_STATUS,  # last status of its function
    W_PENDING,  # 1: its basic block is foretold, no record yet; 2: it waits for the serial phase to execute
    W_BARRIER,  # 1 + number of the block barrier at which it waits
    W_FENCE,  # latency of the fence that waits for writes, 0: none
    W_NUMBER,  # basic block
    W_SB_TIME,  # 6: when operations whose end is known end
) = range(17)
W_SB_UNKNOWN = W_SB_TIME + 6  # 6: operations whose end is not known
W_SB_LONG = W_SB_UNKNOWN + 6  # 6: 1 when the last one went to L1TEX
(
    W_ACTIVE,
    W_POINTER,  # host pointer of its WARP structure
    W_BLOCK,  # block slot
    W_STARTED,
    W_STORE_TIME,  # when its last write was acknowledged
    W_STORES,  # writes of this window, not known yet
    W_ASYNC_TIME,  # asynchronous copies
    W_ASYNC,
    W_LOCAL,  # physical base of its local memory
    W_IN_BLOCK,
    W_LANES,
    W_RING_COUNT,  # 6
) = range(W_SB_LONG + 6, W_SB_LONG + 18)
W_RING = W_RING_COUNT + 6  # 6 x RING: end of each operation in order, for DEPBAR.LE with a count
RING = 8
W_SLOTS = (W_RING + 6 * RING + 7) // 8 * 8

# --- block slot ----------------------------------------------------------------------------------
(
    B_ACTIVE,
    B_NUMBER,
    B_LIVE,  # warps that have not ended
    B_STARTED,
    B_CLUSTER_TIME,  # last arrival at the cluster's barrier
    B_FIELDS,
) = range(6)
B_ARRIVED = 8  # 16: lanes that arrived at each named barrier
B_VOTES = B_ARRIVED + 16  # 16: running reduction
B_WARPS = B_VOTES + 16  # 32: warp slot of each warp
B_EXPECTED = B_WARPS + 32  # 16
B_SLOTS = B_EXPECTED + 16

# --- calendars: rings of buckets (see ports.py) --------------------------------------------------
CALENDAR_BUCKETS = 512
CALENDAR_SHIFT = 3  # 8 cycles a bucket
DRAM_SHIFT = 5  # 32 cycles: a longer horizon
CALENDAR_SLOTS = CALENDAR_BUCKETS + 8

# --- fixed layout of an SM's region --------------------------------------------------------------
OFF_SUB_CORES = SM_SCALARS
OFF_WARPS = OFF_SUB_CORES + MAX_SUB_CORES * SC_SLOTS
OFF_BLOCKS = OFF_WARPS + MAX_SUB_CORES * MAX_WARPS * W_SLOTS
OFF_LSU = OFF_BLOCKS + MAX_BLOCKS * B_SLOTS
OFF_FILL = OFF_LSU + CALENDAR_SLOTS
OFF_LINES = OFF_FILL + CALENDAR_SLOTS  # coalescer: line number, sector mask, bytes covered
LINE_COUNT = 160
OFF_LINE_SECTORS = OFF_LINES + LINE_COUNT
OFF_LINE_BYTES = OFF_LINE_SECTORS + LINE_COUNT
OFF_BANKS = OFF_LINE_BYTES + LINE_COUNT  # banks: count, then the words of each
OFF_BANK_TURN = OFF_BANKS + 32 + 32 * 32  # number of the last group of lanes
OFF_CONST_PORT = OFF_BANK_TURN + 8  # calendars of LDC's unit and of L1.5
OFF_CONST_FILL = OFF_CONST_PORT + CALENDAR_SLOTS
MAX_BULKS = 64  # bulk copies of a window
OFF_BULKS = OFF_CONST_FILL + CALENDAR_SLOTS  # their records
MAX_TELLS = 256
OFF_TELLS = OFF_BULKS + MAX_BULKS * BULK_WORDS  # time, mbarrier, bytes
SM_FIXED = (OFF_TELLS + MAX_TELLS * 3 + 7) // 8 * 8

# --- requests of a window ---------------------------------------------------------------------------
(R_TIME, R_LINE, R_KIND, R_SECTORS, R_FULL, R_WARP, R_WAITERS, R_ANSWER) = range(8)
R_SLOTS = 8
MAX_REQUESTS = 4096
(RQ_LOAD, RQ_LOAD_AROUND, RQ_STORE, RQ_ATOMIC, RQ_STRONG, RQ_CONSTANT, RQ_BULK) = range(7)
# RQ_LOAD fills an L1 line; RQ_LOAD_AROUND does not.
# waiters: a load that waits for a request, and the next waiter
(X_LOAD, X_NEXT) = range(2)
X_SLOTS = 2
MAX_WAITERS = 8192
# loads in flight whose end is not known
(L_WARP, L_BARRIER, L_LEFT, L_TIME, L_KIND, L_RING) = range(6)
L_SLOTS = 8
MAX_LOADS = 2048
(LD_REGISTER, LD_ASYNC, LD_STORE) = range(3)

# --- cache lines -------------------------------------------------------------------------------------
# L1, one area of all lines for each: line << 8 | pending sectors << 4 | valid sectors; last use; arrival; request
(C_TAG, C_STAMP, C_FILL, C_REQUEST) = range(4)
C_SLOTS = 4
# the store buffer: line, sectors in it, when it has left, its request and the window in which that was made
(J_LINE, J_SECTORS, J_LEFT, J_REQUEST, J_WINDOW) = range(5)
J_SLOTS = 8
# DRAM channel: queued writes, refreshes done, sectors, last batch's end, reads since then, bus time of the queued writes
(D_WRITES, D_REFRESH, D_BUSY, D_WRITTEN, D_READ, D_QUEUED) = range(6)
D_SLOTS = 8
JOIN_LINES = (
    28  # of the store buffer (bench.micro ``columns``: of stores of 32 lines none is joined; ``fills``: most of 16)
)
ATOMIC_LINES = 4  # that a slice's atomics have at hand (bench.micro ``contended``: four lines by turns cost no more than one, eight do)
BUCKETS = 1024  # of the serial phase's counting sort
(G_SM, G_START, G_END) = range(3)  # one block of the log
LOG_SLOTS = 3
MAX_LOGGED_BLOCKS = 1 << 17  # of a larger grid the first ones

# --- one instruction of the program (static.py) --------------------------------------------------------
(
    I_KIND,
    I_PIPE,
    I_INTERVAL,
    I_LATENCY,
    I_STALL,
    I_YIELD,
    I_WAIT,  # wait mask
    I_WRITE_BARRIER,  # -1: none
    I_READ_BARRIER,
    I_READS,  # bank 0 reads | bank 1 reads << 8; with the register-file cache << 16 and << 24
    I_LINE,  # instruction cache line
    I_CONST,  # constant line, -1
    I_OP,  # of memory instructions (OP_); of LDC the line, or its bank's first one
    I_BYTES,
    I_STRONG,
    I_EXTRA,  # of LDC with an index: lines of its bank
) = range(16)
I_SLOTS = 16
TEXTURE_INTERVAL_SHIFT = 16
"""``I_LATENCY`` of a texture instruction: cycles beyond an L1 hit, and above them those that the texture units take."""
COUNTS_LANES = 1 << 20
"""Flag of ``I_EXTRA``: a shared atomic that adds the number of lanes on a word at once (ATOMS.POPC.INC)."""
(
    K_FIXED,
    K_BRANCH,
    K_EXIT,
    K_BARRIER,
    K_MEMORY,
    K_COPY,  # LDGSTS: two records
    K_BULK,  # a bulk copy: one record of its own kind
    K_LOOKUP,  # LDC with an index: a record of offsets
    K_CONSTANT,  # LDC of a known place
    K_MIO,  # shuffles, MATCH …: the queue, no record
    K_COPY_DONE,  # LDGDEPBAR
    K_DEPBAR,
    K_MEMBAR,
    K_INVALIDATE,  # CCTL.IVALL
    K_CLOCK,
    K_SLEEP,
) = range(16)
(OP_LOAD, OP_STORE, OP_ATOMIC, OP_REDUCE) = range(4)
# one basic block of the program: first instruction, one past its last, and the block at which a traced warp may
# have stopped behind it (strong access, clock read), -1 when none
(BL_FIRST, BL_END, BL_STRONG, BL_CLOCK) = range(4)
BL_SLOTS = 4
# statuses of the model's own, beside engine/abi.py's
STATUS_NONE = -1  # has not run yet
STATUS_RELEASED = -2  # the reason for its stop has passed: may be called


@dataclass(slots=True)
class State:
    """The buffer and where its areas begin."""

    words: npt.NDArray[np.int64]
    areas: dict[str, int] = field(default_factory=dict)

    def sm(self, index: int) -> int:
        """Start of an SM's region."""
        return int(self.words[H_SM_FIRST] + index * self.words[H_SM_SLOTS])

    def active_warps(self) -> list[tuple[int, int]]:
        """(SM region, warp slot) of every resident warp that has not ended."""
        regions = [self.sm(index) for index in range(int(self.words[H_SMS]))]
        slots = np.arange(MAX_SUB_CORES * MAX_WARPS) * W_SLOTS + OFF_WARPS + W_ACTIVE
        return [(sm, int(slot)) for sm in regions for slot in np.flatnonzero(self.words[sm + slots])]

    def sms(self) -> npt.NDArray[np.int64]:
        """Every SM's region, shape (SMs, words)."""
        first, size, count = (int(self.words[field]) for field in (H_SM_FIRST, H_SM_SLOTS, H_SMS))
        return self.words[first : first + count * size].reshape(count, size)


def _log2(value: int) -> int:
    return value.bit_length() - 1


def build(
    chip: Chip,
    l1_kib: int,
    code_lines: int,
    const_lines: int,
    instructions: int,
    blocks: int = 0,
    parameter_lines: int = 0,
) -> State:
    """Allocate and fill the state of a chip that is idle, with cold caches.

    ``l1_kib``: what the carve-out leaves to the cache; ``code_lines``, ``const_lines``: of the program; ``blocks``: of the grid;
    ``parameter_lines``: the first constant lines, which the launch brings to L1.5.
    """
    sm, l2, dram = chip.sm, chip.l2, chip.dram
    ways = chip.l1.l1_ways
    sets = max(l1_kib * 1024 // chip.l1.l1_line_bytes // ways, 1)
    l0_lines = chip.instruction_cache.l0_icache_kib * 1024 // chip.instruction_cache.icache_line_bytes
    l1i_lines = chip.instruction_cache.l1_icache_kib * 1024 // chip.instruction_cache.icache_line_bytes
    prefetched_lines = chip.instruction_cache.launch_prefetch_kib * 1024 // chip.instruction_cache.icache_line_bytes
    constants = chip.constant_cache
    l1_constants = constants.l1_constant_kib * 1024 // constants.constant_line_bytes
    block_lines = constants.constant_block_bytes // constants.constant_line_bytes
    position = SM_FIXED
    offsets: dict[int, int] = {}
    for name, size in (
        (H_OFF_REQUESTS, MAX_REQUESTS * R_SLOTS),
        (H_OFF_WAITERS, MAX_WAITERS * X_SLOTS),
        (H_OFF_LOADS, MAX_LOADS * L_SLOTS),
        (H_OFF_CONST, 2 + l1_constants + const_lines),
        (H_OFF_IMMEDIATE, 2 + l1_constants + const_lines),
        (H_OFF_CONST_BLOCKS, const_lines // block_lines + 1),
        (H_OFF_L0, 2 + l0_lines + code_lines),
        (H_OFF_L1I, 2 + l1i_lines + code_lines),
        (H_OFF_L1, sets * ways * C_SLOTS),
        (H_OFF_JOIN, J_SLOTS * (JOIN_LINES + 1)),
    ):
        position = (position + 7) // 8 * 8
        offsets[name] = position
        position += size
    sm_slots = (position + 63) // 64 * 64 + 8  # a line more, so that regions do not share cache sets
    channels_per_slice = max(dram.dram_channel_count // l2.l2_slice_count, 1)
    channels = channels_per_slice * l2.l2_slice_count
    l2_sets = max(l2.l2_kib * 1024 // l2.l2_slice_count // chip.l1.l1_line_bytes // l2.l2_ways, 1)
    slice_ways = l2_sets * l2.l2_ways
    gpcs = len(sm.gpc_sm_counts)
    tlb_slots = 8 + 2 * chip.crossbar.gpc_tlb_page_count
    areas: dict[str, int] = {}
    position = (H_SLOTS + 63) // 64 * 64
    for area, size in (
        ("gpc_of_sm", sm.sm_count),
        ("partition_of_sm", sm.sm_count),
        ("sm_order", sm.sm_count),
        ("sms", sm.sm_count * sm_slots),
        ("gpc_ports", gpcs * CALENDAR_SLOTS),
        ("gpc_write_ports", gpcs * CALENDAR_SLOTS),
        ("slice_ports", l2.l2_slice_count * CALENDAR_SLOTS),
        ("slice_write_ports", l2.l2_slice_count * CALENDAR_SLOTS),
        ("atomic_last", l2.l2_slice_count * 2),
        ("atomic_lines", l2.l2_slice_count * ATOMIC_LINES),
        ("tlb", gpcs * tlb_slots),
        ("tlb_ports", gpcs * CALENDAR_SLOTS),
        ("coalescer", gpcs * chip.crossbar.gpc_coalescer_lines * 4),
        ("touched", sm.sm_count * -(-l2.l2_slice_count // 64)),
        ("far_ports", 2 * CALENDAR_SLOTS),
        ("dram_ports", channels * CALENDAR_SLOTS),
        ("dram_state", channels * D_SLOTS),
        ("dram_banks", channels * dram.dram_bank_count * 2),
        ("buckets", BUCKETS + 1),
        ("stalls", SM_GROUPS * instructions * len(STALLS)),
        ("order", sm.sm_count * MAX_REQUESTS),
        ("const_arrived", const_lines // block_lines + 1),
        ("block_log", min(blocks, MAX_LOGGED_BLOCKS) * LOG_SLOTS),
        ("l2_tags", l2.l2_slice_count * slice_ways),
        ("l2_stamps", l2.l2_slice_count * slice_ways),
        ("l2_fills", l2.l2_slice_count * slice_ways),
    ):
        areas[area] = position
        position += (size + 63) // 64 * 64
    m, fresh = buffers.take("state", position)
    if not fresh:
        sms = m[areas["sms"] : areas["sms"] + sm.sm_count * sm_slots].reshape(sm.sm_count, sm_slots)
        # The requests of a window and what belongs to them are written before they are read.
        sms[:, : offsets[H_OFF_REQUESTS]] = 0
        sms[:, offsets[H_OFF_CONST] :] = 0
        m[: areas["sms"]] = 0
        m[areas["gpc_ports"] :] = 0
    cycles_per_ns = chip.clocks.sm_clock_mhz / 1000.0
    bytes_per_clk = dram.dram_gb_per_s * 1000.0 / chip.clocks.sm_clock_mhz
    row_miss = round(dram.dram_row_miss_ns * cycles_per_ns)
    to_l2 = (l2.l2_hit_latency_cycles - chip.mio.mio_latency_cycles) // 2
    from_l2 = l2.l2_hit_latency_cycles - chip.mio.mio_latency_cycles - to_l2
    bucket = 1 << CALENDAR_SHIFT
    values: dict[int, int] = {
        H_SMS: sm.sm_count,
        H_SUB_CORES: sm.sub_core_count,
        H_SM_FIRST: areas["sms"],
        H_SM_SLOTS: sm_slots,
        H_WINDOW: to_l2 + from_l2 - 2,
        H_CLOCK_KHZ: chip.clocks.sm_clock_mhz * 1000,
        H_DISPATCH_INTERVAL: round(256 * chip.launch.block_dispatch_interval_cycles),
        H_BLOCK_SM_INTERVAL: chip.launch.block_sm_interval_cycles,
        H_BLOCK_LATENCY: chip.launch.block_launch_latency_cycles,
        H_OVERHEAD: chip.launch.launch_overhead_cycles,
        H_WINDOW_OPERANDS: chip.issue.operand_window_cycles,
        H_BRANCH_LATENCY: chip.issue.branch_latency_cycles,
        H_MIO_ENTRIES: chip.mio.mio_queue_entries,
        H_MIO_INTERVAL: chip.mio.mio_sub_core_interval_cycles,
        H_MIO_LATENCY: chip.mio.mio_latency_cycles,
        H_L0_LINES: l0_lines,
        H_L1I_LINES: l1i_lines,
        H_L1I_LATENCY: chip.instruction_cache.l1_icache_latency_cycles,
        H_L1I_INTERVAL: chip.instruction_cache.l1_icache_line_interval_cycles,
        H_L2I_LATENCY: l2.l2_hit_latency_cycles,
        H_L2I_INTERVAL: chip.instruction_cache.l2_icache_line_interval_cycles,
        H_PREFETCH: chip.instruction_cache.icache_prefetch_lines,
        H_CODE_LINES: code_lines,
        H_CONST_LINES: l1_constants,
        H_CONST_LINE_BYTES: constants.constant_line_bytes,
        H_CONST_BLOCK_LINES: block_lines,
        H_CONST_MISS: constants.l15_constant_latency_cycles - constants.ldc_latency_cycles,
        H_IMMEDIATE_MISS: constants.immediate_miss_cycles,
        H_CONST_L2: constants.l2_constant_latency_cycles - constants.l15_constant_latency_cycles,
        H_CONST_INTERVAL: constants.l15_constant_interval_cycles,
        H_CONST_WORD: constants.ldc_word_cycles,
        H_CONST_REPLAY: constants.ldc_replay_cycles,
        H_CONST_ARRIVED: areas["const_arrived"],
        H_BULK_INTERVAL: chip.cluster.bulk_copy_interval_cycles,
        H_BULK_BYTES: max(chip.cluster.bulk_copy_bytes_per_clk, 1),
        H_BULK_EXTRA: chip.cluster.bulk_copy_extra_cycles,
        H_BULK_STORE: chip.cluster.bulk_store_latency_cycles,
        H_BULK_STORE_BYTES: max(chip.cluster.bulk_store_bytes_per_clk, 1),
        H_CLUSTER_LATENCY: chip.cluster.cluster_barrier_latency_cycles,
        H_REMOTE_LATENCY: chip.cluster.distributed_shared_latency_cycles,
        H_BARRIER_LATENCY: chip.shared.block_barrier_latency_cycles,
        H_BARRIER_INTERVAL: chip.shared.block_barrier_warp_interval_cycles,
        H_LSU_CAPACITY: chip.mio.lsu_wavefronts_per_clk * bucket,
        H_SHARED_LATENCY: chip.shared.shared_load_latency_cycles - chip.mio.mio_latency_cycles,
        H_SHARED_STORE_LATENCY: chip.shared.shared_store_latency_cycles - chip.mio.mio_latency_cycles,
        H_SHARED_ATOMIC: chip.shared.shared_atomic_latency_cycles,
        H_L1_SETS: sets,
        H_L1_WAYS: ways,
        H_L1_LATENCY: chip.l1.l1_hit_latency_cycles - chip.mio.mio_latency_cycles,
        H_L1_TAG_BANKS: chip.l1.l1_tag_lines_per_clk,
        H_L1_LINES: sets * ways,
        H_L1_WRITE_BYTES: chip.l1.l1_write_bytes_per_clk,
        H_FILL_CAPACITY: chip.l1.l1_fill_bytes_per_clk * bucket // chip.l1.sector_bytes,
        H_LOCAL_PHYSICAL: 1 << 50,
        H_GPC_OF_SM: areas["gpc_of_sm"],
        H_PARTITION_OF_SM: areas["partition_of_sm"],
        H_SM_ORDER: areas["sm_order"],
        H_GPCS: gpcs,
        H_GPC_PORTS: areas["gpc_ports"],
        H_GPC_CAPACITY: chip.crossbar.gpc_read_bytes_per_clk * bucket // chip.l1.sector_bytes,
        H_GPC_WRITE_PORTS: areas["gpc_write_ports"],
        H_GPC_WRITE_CAPACITY: chip.crossbar.gpc_write_bytes_per_clk * bucket // chip.l1.sector_bytes,
        H_TO_L2: to_l2,
        H_FROM_L2: from_l2,
        H_SLICES: l2.l2_slice_count,
        H_PARTITIONS: l2.l2_partition_count,
        H_SLICE_PORTS: areas["slice_ports"],
        H_SLICE_WRITE_PORTS: areas["slice_write_ports"],
        H_SLICE_CAPACITY: l2.l2_slice_bytes_per_clk * bucket,
        H_L2_SETS: l2_sets,
        H_L2_WAYS: l2.l2_ways,
        H_L2_TAGS: areas["l2_tags"],
        H_L2_STAMPS: areas["l2_stamps"],
        H_L2_FILLS: areas["l2_fills"],
        H_L2_SLICE_WAYS: slice_ways,
        H_L2_FETCH: l2.l2_fetch_bytes // chip.l1.sector_bytes,
        H_L2_ACCESS: l2.l2_slice_access_bytes,
        H_L2_PARTIAL_WAYS: l2.l2_partial_ways,
        H_COALESCER_LINES: chip.crossbar.gpc_coalescer_lines,
        H_TLB: areas["tlb"],
        H_TLB_SLOTS: tlb_slots,
        H_TLB_SETS: chip.crossbar.gpc_tlb_page_count // 16,
        H_TLB_PORTS: areas["tlb_ports"],
        H_TLB_HIT: round(64 * chip.crossbar.gpc_tlb_hit_cycles),
        H_TLB_MISS: round(64 * chip.crossbar.gpc_tlb_miss_cycles),
        H_TLB_LATENCY: chip.crossbar.gpc_tlb_latency_cycles,
        H_PAGE_SHIFT: _log2(chip.crossbar.page_kib * 1024 // chip.l1.l1_line_bytes),
        H_COALESCING: l2.l2_hit_latency_cycles,
        H_COALESCER: areas["coalescer"],
        H_TOUCHED: areas["touched"],
        H_TOUCHED_WORDS: -(-l2.l2_slice_count // 64),
        H_L2_FILL: round(l2.l2_fill_sector_cycles * l2.l2_slice_bytes_per_clk),
        H_L2_WRITE_REQUEST: round(l2.l2_write_request_cycles * l2.l2_slice_bytes_per_clk),
        H_L2_WRITE_WHOLE: round(l2.l2_write_sector_cycles * l2.l2_slice_bytes_per_clk),
        H_L2_WRITE_PART: round(l2.l2_write_partial_cycles * l2.l2_slice_bytes_per_clk),
        H_FAR_LATENCY: l2.l2_far_latency_cycles,
        H_FAR_PORTS: areas["far_ports"],
        H_FAR_CAPACITY: l2.l2_far_bytes_per_clk * bucket // chip.l1.sector_bytes,
        H_ATOMIC_LATENCY: l2.l2_atomic_latency_cycles,
        H_ATOMIC_WHOLE: round(l2.l2_atomic_sector_cycles * l2.l2_slice_bytes_per_clk),
        H_ATOMIC_PART: round(l2.l2_atomic_word_cycles * l2.l2_slice_bytes_per_clk),
        H_ATOMIC_SUM: round(l2.l2_atomic_float_cycles * l2.l2_slice_bytes_per_clk),
        H_ATOMIC_TURN: round(l2.l2_atomic_turn_cycles * l2.l2_slice_bytes_per_clk),
        H_ATOMIC_CHANGE: round(l2.l2_atomic_change_cycles * l2.l2_slice_bytes_per_clk),
        H_ATOMIC_CHANGE_ANSWER: round(l2.l2_atomic_answer_change_cycles * l2.l2_slice_bytes_per_clk),
        H_ATOMIC_LINES: areas["atomic_lines"],
        H_ATOMIC_LAST: areas["atomic_last"],
        H_CHUNK_SHIFT: _log2(l2.l2_interleave_bytes // chip.l1.l1_line_bytes),
        H_CHANNELS_PER_SLICE: channels_per_slice,
        H_DRAM_PORTS: areas["dram_ports"],
        H_DRAM_STATE: areas["dram_state"],
        H_DRAM_BANKS: areas["dram_banks"],
        H_DRAM_BANK_COUNT: dram.dram_bank_count,
        H_DRAM_LATENCY: dram.dram_latency_cycles - l2.l2_hit_latency_cycles - row_miss,
        H_DRAM_ROW_MISS: row_miss,
        H_DRAM_ROW_CYCLE: round(dram.dram_row_cycle_ns * cycles_per_ns),
        H_DRAM_ROW_LINES: dram.dram_row_bytes * channels // chip.l1.l1_line_bytes,
        H_DRAM_SECTOR: round(256 * chip.l1.sector_bytes * channels / bytes_per_clk),
        H_DRAM_ACTIVATE_READ: round(256 * dram.dram_activate_read_ns * cycles_per_ns),
        H_DRAM_ACTIVATE_WRITE: round(256 * dram.dram_activate_write_ns * cycles_per_ns),
        H_DRAM_TURNAROUND: round(256 * dram.dram_turnaround_ns * cycles_per_ns),
        H_DRAM_REFRESH_INTERVAL: round(dram.dram_refresh_interval_ns * cycles_per_ns),
        H_DRAM_REFRESH: round(256 * dram.dram_refresh_ns * cycles_per_ns),
        H_DRAM_BATCH: dram.dram_write_batch_bursts,
        H_BANK_REFRESH_INTERVAL: round(dram.dram_bank_refresh_interval_ns * cycles_per_ns),
        H_BANK_REFRESH: round(dram.dram_bank_refresh_ns * cycles_per_ns),
        H_BUCKETS: areas["buckets"],
        H_ORDER: areas["order"],
        H_INSTRUCTIONS: instructions,
        H_STALLS: areas["stalls"],
        H_BLOCK_LOG: areas["block_log"],
        H_LOGGED_BLOCKS: min(blocks, MAX_LOGGED_BLOCKS),
        **offsets,
    }
    for key, value in values.items():
        m[key] = value
    state = State(m, areas)
    _clusters(state, chip)
    _idle_sms(state, offsets, l0_lines, l1i_lines, code_lines, chip.pipes.fma_lite_lanes > 0)
    _empty_constants(state, offsets, const_lines, parameter_lines)
    _prefetch_code(state.sms(), offsets[H_OFF_L1I], l1i_lines, min(prefetched_lines, code_lines))
    m[areas["const_arrived"] : areas["const_arrived"] + const_lines // block_lines + 1] = INF
    m[areas["dram_banks"] : areas["dram_banks"] + channels * dram.dram_bank_count * 2 : 2] = -1
    return state


def _clusters(state: State, chip: Chip) -> None:
    """GPC and L2 partition of each SM, and the order of first blocks: GPC by GPC (bench.micro ``dispatch`` on H200)."""
    m, areas = state.words, state.areas
    counts = chip.sm.gpc_sm_counts
    first = 0
    members: list[list[int]] = []
    for gpc, count in enumerate(counts):
        members.append(list(range(first, first + count)))
        m[areas["gpc_of_sm"] + first : areas["gpc_of_sm"] + first + count] = gpc
        partition = gpc * chip.l2.l2_partition_count // len(counts)
        m[areas["partition_of_sm"] + first : areas["partition_of_sm"] + first + count] = partition
        first += count
    order = [index for group in members for index in group]
    m[areas["sm_order"] : areas["sm_order"] + len(order)] = order


def _prefetch_code(sms: npt.NDArray[np.int64], cache: int, capacity: int, lines: int) -> None:
    """The first lines of a kernel's code lie in the second level when its first block starts: the launch brings them."""
    held = min(lines, capacity)
    sms[:, cache] = held % capacity
    sms[:, cache + 2 : cache + 2 + held] = np.arange(held)
    sms[:, cache + 2 + capacity : cache + 2 + capacity + held] = 0


def _idle_sms(
    state: State,
    offsets: dict[int, int],
    l0_lines: int,
    l1i_lines: int,
    code_lines: int,
    has_lite: bool,
) -> None:
    sms = state.sms()
    count = len(sms)
    sms[:, SM_INDEX] = np.arange(count)
    groups = np.arange(count) * SM_GROUPS // count
    sms[:, SM_STALLS] = state.areas["stalls"] + groups * int(state.words[H_INSTRUCTIONS]) * len(STALLS)
    sms[:, SM_NEXT] = INF
    sms[:, SM_ACTIVE_FROM] = -1
    for sub in range(int(state.words[H_SUB_CORES])):
        sc = OFF_SUB_CORES + sub * SC_SLOTS
        sms[:, sc + SC_NEXT] = INF
        sms[:, sc + SC_LAST] = -1
        sms[:, sc + SC_LAST_REUSE] = -1
        sms[:, sc + SC_FREE] = (1 << MAX_WARPS) - 1
        sms[:, sc + SC_READY : sc + SC_READY + MAX_WARPS] = INF
        sms[:, sc + SC_PIPE_FREE + P_FMA_LITE] = 0 if has_lite else INF
    warps = MAX_SUB_CORES * MAX_WARPS
    sms[:, OFF_WARPS + W_SLOT : OFF_WARPS + warps * W_SLOTS : W_SLOTS] = np.arange(warps)
    for offset, capacity in ((offsets[H_OFF_L0], l0_lines), (offsets[H_OFF_L1I], l1i_lines)):
        sms[:, offset + 2 : offset + 2 + capacity] = -1
        sms[:, offset + 2 + capacity : offset + 2 + capacity + code_lines] = INF


def _empty_constants(state: State, offsets: dict[int, int], const_lines: int, parameter_lines: int) -> None:
    """No constant is in an SM but the parameters, in L1.5."""
    sms = state.sms()
    capacity, block_lines = int(state.words[H_CONST_LINES]), int(state.words[H_CONST_BLOCK_LINES])
    for cache in (offsets[H_OFF_CONST], offsets[H_OFF_IMMEDIATE]):
        sms[:, cache + 2 : cache + 2 + capacity] = -1
        sms[:, cache + 2 + capacity : cache + 2 + capacity + const_lines] = INF
    blocks = offsets[H_OFF_CONST_BLOCKS]
    sms[:, blocks + parameter_lines // block_lines : blocks + const_lines // block_lines + 1] = INF

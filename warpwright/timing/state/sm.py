"""An SM's region: its scalars (``SM_``), sub-cores (``SC_``), warp slots (``W_``), block slots (``B_``), and where they lie."""

from __future__ import annotations

from warpwright.engine.abi import BULK_WORDS
from warpwright.timing.state.common import CALENDAR_SLOTS, FIELDS, MAX_BLOCKS, MAX_SUB_CORES, MAX_WARPS, PIPE_COUNT

# --- SM -----------------------------------------------------------------------------------------
(
    # what every window asks of every SM, in one line of the host's
    SM_INDEX,
    SM_NEXT,  # earliest time at which something can happen
    SM_ERROR,  # a warp stopped for Python: its slot + 1
    SM_RESIDENT,  # blocks
    SM_REQUESTS,  # in this window
    SM_DONE,  # blocks that ended in this window
    SM_WAITERS,
    SM_LOADS,
    SM_STALLS,  # its GPC's table
    SM_PASSES,  # its GPC's
    SM_PATTERNS,  # its GPC's
    SM_BANKS,  # its GPC's
    SM_SUB_NEXT,  # of each sub-core, the earliest time at which something can happen; INF of one that the chip lacks
    SM_SUB_NEXT_1,
    SM_SUB_NEXT_2,
    SM_SUB_NEXT_3,
    SM_ROTATE,  # sub-core that gets the next warp
    SM_BLOCK_FREE,  # when the next block may start
    SM_ACTIVE_FROM,
    SM_TEXTURE_FREE,  # texture units
    SM_MISS_FREE,  # L1: when the look-up behind the last miss can be
    SM_FETCH_FREE,  # L1 instruction cache port
    SM_FETCH_L2_FREE,
    SM_RECONSIDER,  # warp slots (bit mask of 64) of which something became known
    SM_BARRIER_FREE,
    SM_STORE_FREE,  # writes wait until so many are acknowledged
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
    SM_STORE_JOINED,  # of them, that joined a line in the store buffer
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
    SM_BULK_STORES,  # bulk stores so far
    SM_BULK_STORE_FREE,  # when the engine reads the next one's bytes
    SM_REMOTE_PORT,  # when the port for loads and atomics of clusters is free, in 1/256 cycle
    SM_REMOTE_FREE,  # when the SM has sent what it stored to others
    SM_TELLS,  # mbarriers of this SM to be told of bytes that are on their way
    SM_CONST_LINES,  # constant lines that L1.5 has handed over in this window
    SM_CONST_INTERVAL,  # between two of them for an LDC of several words
    SM_OPERAND_INTERVAL,  # for an operand, ULDC or LDC of one word
    SM_OPERAND_BOOKED,  # when L1.5 begins with the last of those
    SM_FENCES,  # of the last round
    SM_FENCE_ROUND,  # when it began or will begin
    SM_FENCE_END,  # when its last fence is done
    SM_FENCE_TURN,  # when the last fences left for L2
    SM_STORE_TIME,  # when the last of its writes was acknowledged
    SM_WROTE,  # when it last issued a store or an atomic
    SM_CLEAN,  # up to when what it wrote is behind a fence that is over
    SM_FULL_FENCE,  # issue of the last fence for the device behind something written
    SM_FULL_FENCE_DONE,
    SM_FENCE_GROUP,  # how many have left
    SM_FENCE_GAP,  # how long after them the next may leave
    SM_HOST_WRITTEN,  # when the last write to the host was acknowledged
    SM_PEER_WRITTEN,
    SM_LONGER,  # how much longer the answer to the strong access that is being executed may take than L2's
    SM_PIPE_FIRST,  # issues by pipe, PIPE_COUNT
    *_,
) = range(FIELDS)
SM_DONE_FIRST = SM_PIPE_FIRST + PIPE_COUNT  # pairs (time, block slot), MAX_BLOCKS
SM_SCALARS = (SM_DONE_FIRST + 2 * MAX_BLOCKS + 7) // 8 * 8

# --- sub-core --------------------------------------------------------------------------------------
(
    SC_LAST,  # slot that issued last, -1 after a yield
    SC_LAST_REUSE,  # slot whose operands the register-file cache holds, -1
    SC_ISSUE_FREE,
    SC_BANK0,  # when each register bank's read port is free
    SC_BANK1,
    SC_BANK2,  # of chips with four
    SC_BANK3,
    SC_MIO_FREE,  # when the queue can hand over its next instruction
    SC_MIO_HEAD,
    SC_FREE,  # free warp slots (bit mask)
    SC_PRODUCT,  # when the last tensor product was dispatched
    SC_PRODUCT_READS,  # the cycles behind that in which it reads both banks (bit mask)
    SC_BARRIER_HEAD,
    SC_PRODUCT_END,  # until when it makes any difference to what else is dispatched
    *_,
) = range(FIELDS)
SC_READY = 16  # earliest issue of each slot's next instruction
SC_PIPE = SC_READY + MAX_WARPS  # the pipe that it needs
SC_AGE = SC_PIPE + MAX_WARPS  # turn among those that can issue: W_AGE, and since when the warp is ready << AGE_READY
SC_PIPE_FREE = SC_AGE + MAX_WARPS
SC_MIO_QUEUE = SC_PIPE_FREE + PIPE_COUNT  # ring: when each of the last instructions left the queue
SC_BARRIER_QUEUE = SC_MIO_QUEUE + 16  # ring: when the barriers' unit has taken each of the last arrivals
SC_SLOTS = SC_BARRIER_QUEUE + 8

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
    W_PENDING,  # strong accesses that the serial phase has yet to execute, times two; 1 more: its basic block is foretold, no record yet
    W_BARRIER,  # 1 + number of the block barrier at which it waits, and DEFERRED
    W_LOOK,  # cycle of the try_wait that is held back, 0: none
    W_FENCE,  # latency of the fence that waits for writes, and FENCE_AT_L2; 0: none
    W_NUMBER,  # basic block
    W_SB_TIME,  # 6: when operations whose end is known end
    *_,
) = range(FIELDS)
W_SB_UNKNOWN = W_SB_TIME + 6  # 6: operations whose end is not known
W_SB_LONG = W_SB_UNKNOWN + 6  # 6: 1 when the last one went to L1TEX
(
    W_ACTIVE,
    W_POINTER,  # host pointer of its WARP structure
    W_BLOCK,  # block slot
    W_STARTED,
    W_STORE_TIME,  # when its last write was acknowledged
    W_WROTE_SHARED,  # whether it has written to shared memory since its last fence
    W_FENCED,  # when its last fence went on to the slices
    W_STORES,  # writes of this window, not known yet
    W_ASYNC_TIME,  # asynchronous copies
    W_ASYNC,
    W_LOCAL,  # physical base of its local memory
    W_IN_BLOCK,
    W_LANES,
    W_PASSES_END,  # when the passes of its last memory instruction are over
    W_DRAINED,  # when its last store or atomic has left the load/store unit
    W_AGE,  # its turn among those that have been ready equally long: its block's << AGE_BLOCK | the last warp's first
    W_RELEASE,  # when its last block barrier lets it go on
    W_RING_COUNT,  # 6
) = range(W_SB_LONG + 6, W_SB_LONG + 24)
W_RING = W_RING_COUNT + 6  # 6 x RING: end of each operation in order, for DEPBAR.LE with a count
RING = 8
W_SLOTS = (W_RING + 6 * RING + 7) // 8 * 8

# --- block slot ----------------------------------------------------------------------------------
(
    B_ACTIVE,
    B_NUMBER,
    B_LOGGED,  # its entry in the log
    B_LIVE,  # warps that have not ended
    B_STARTED,
    B_CLUSTER_TIME,  # last arrival at the cluster's barrier
    B_CLUSTER_RELEASE,  # when it last let the block's warps go on
    B_DRAINED,  # when the writes of its ended warps have left
    B_FIELDS,
    *_,
) = range(FIELDS)
B_ARRIVED = 8  # 16: lanes that arrived at each named barrier
B_VOTES = B_ARRIVED + 16  # 16: running reduction
B_WARPS = B_VOTES + 16  # 32: warp slot of each warp
B_EXPECTED = B_WARPS + 32  # 16
B_SLOTS = B_EXPECTED + 16

# --- fixed layout of an SM's region --------------------------------------------------------------
OFF_SUB_CORES = SM_SCALARS
OFF_WARPS = OFF_SUB_CORES + MAX_SUB_CORES * SC_SLOTS
OFF_BLOCKS = OFF_WARPS + MAX_SUB_CORES * MAX_WARPS * W_SLOTS
OFF_LSU = OFF_BLOCKS + MAX_BLOCKS * B_SLOTS
OFF_FILL = OFF_LSU + CALENDAR_SLOTS
OFF_LINES = OFF_FILL + CALENDAR_SLOTS  # coalescer: line number, sector mask, bytes covered, words touched
LINE_COUNT = 160
OFF_LINE_SECTORS = OFF_LINES + LINE_COUNT
OFF_LINE_BYTES = OFF_LINE_SECTORS + LINE_COUNT
OFF_LINE_WORDS = OFF_LINE_BYTES + LINE_COUNT
OFF_CONST_PORT = OFF_LINE_WORDS + LINE_COUNT  # calendars of LDC's unit and of L1.5
OFF_CONST_FILL = OFF_CONST_PORT + CALENDAR_SLOTS
MAX_BULKS = 64  # bulk copies of a window
OFF_BULKS = OFF_CONST_FILL + CALENDAR_SLOTS  # their records
MAX_TELLS = 256
OFF_TELLS = OFF_BULKS + MAX_BULKS * BULK_WORDS  # time, mbarrier, bytes
BULK_STORE_RING = 8
OFF_BULK_STORE_ENDS = OFF_TELLS + MAX_TELLS * 3  # when the last bulk stores were read
SM_FIXED = (OFF_BULK_STORE_ENDS + BULK_STORE_RING + 7) // 8 * 8

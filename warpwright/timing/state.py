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

from warpwright.chips.chip import MAX_GPCS
from warpwright.engine.abi import BULK_WORDS

INF = 1 << 60
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2**64 over the golden ratio, as a signed number: spreads bits
MAX_WARPS = 16  # warp slots of one sub-core
MAX_SUB_CORES = 4
MAX_BLOCKS = 32
FIELDS = 1024  # more than any list of names below is long: each takes the numbers that it needs
SLICE_GROUPS = 8  # of L2 slices with all that lies behind them: a power of two; one host thread serves a group
AT_CLUSTER = 17  # value of W_BARRIER at the barrier of a cluster: one behind the sixteen named ones

# --- pipes: what an instruction occupies when it issues -------------------------------------------
PIPES = (
    *("none", "alu", "fma", "fma_heavy", "half", "fp64", "xu", "tensor"),
    *("uniform", "branch", "mio", "fma_lite", "fma_pair"),
)
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
    P_FMA_PAIR,  # both halves at once: sums and products of half-precision pairs
    *_,
) = range(FIELDS)
PIPE_COUNT = 16

# --- why a warp waits, in Nsight Compute's words ---------------------------------------------------
STALLS = (
    *("selected", "not_selected", "wait", "short_scoreboard", "long_scoreboard", "math_pipe_throttle"),
    *("mio_throttle", "no_instruction", "imc_miss", "barrier", "branch_resolving", "membar", "sleeping"),
    *("dispatch_stall", "lg_throttle", "drain"),
)
STALL_COUNT = len(STALLS)
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
    *_,
) = range(FIELDS)

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
    H_AGE,  # turn of the next block's last warp
    H_DISPATCH_FREE,  # when the dispatcher has sent the first blocks so far, or taken note of those that ended, in 1/256 cycle
    H_FIRST_INTERVAL,  # between the first blocks that it sends, in 1/256 cycle
    H_CLUSTER_INTERVAL,  # between clusters
    H_DISPATCH_INTERVAL,  # between two blocks that end, in 1/256 cycle
    H_BLOCK_SM_INTERVAL,
    H_BLOCK_LATENCY,
    H_BLOCK_START,  # from a first block's start to its first instruction
    H_OVERHEAD,
    # sub-core
    H_WINDOW_OPERANDS,  # operand read window
    H_HALF_WITH_FP64,  # 1: HFMA2.MMA and FP64 are dispatched one after the other
    H_BRANCH_LATENCY,
    H_YIELD,  # from a YIELD behind which no other lanes of the warp can go on to the next instruction
    H_GROUP_SWITCH,  # more for a BSYNC behind which another group of lanes goes on
    H_MIO_ENTRIES,
    H_MIO_INTERVAL,
    H_MIO_LATENCY,
    H_L0_LINES,  # capacity
    H_L1I_LINES,
    H_L1I_LATENCY,
    H_L2I_LATENCY,
    H_L2I_INTERVAL,
    H_PREFETCH,  # lines that L1.5 asks L2 for ahead
    H_CHUNK_LINES,  # that the first level asks for at once
    H_CHUNK_INTERVAL,  # between two such requests of an SM
    H_CODE_LINES,  # of this program
    H_CONST_LINES,  # capacity of a first level of constants
    H_CONST_LINE_BYTES,
    H_CONST_BLOCK_LINES,  # lines that L1.5 asks for at once
    H_CONST_MISS,  # beyond a hit: LDC from L1.5
    H_IMMEDIATE_MISS,  # an operand from L1.5
    H_AWAIT,  # the longest that a try_wait is held back
    H_REMOTE_SEND,  # of a packet of a cluster's atomics, in 1/256 cycle
    H_REMOTE_TAKE,
    H_REMOTE_ASK,  # of a load's request for a line
    H_INDEXED_LINES,  # of a sub-core that ULDCs with an index find
    H_INDEXED_SIZE,
    H_IMMEDIATE_SIZE,
    H_INDEXED_MISS,
    H_CONST_L2,  # beyond L1.5
    H_CONST_INTERVAL,  # of L1.5
    H_CONST_GPC_INTERVAL,  # of what a GPC's SMs share, in 1/256 cycle
    H_CONST_ASKED,  # some SM has asked L1.5 in this window
    H_CONST_WORD,  # of the SM for a different word
    H_CONST_REPLAY,
    H_CONST_ARRIVED,  # area: when the first SM got each block
    H_BARRIER_LATENCY,
    H_BARRIER_INTERVAL,
    H_BARRIER_LEAST,  # of the unit, for a barrier however few its warps
    H_BARRIER_LAST,  # of the unit, behind the last arrival
    H_FENCE_PLACES,  # fences of an SM's round at once, 0: any number
    H_FENCE_PLACE_TIME,  # before the place of one is another's
    H_FENCE_TURN,  # between two groups of an SM's fences that leave for L2
    # L1 and shared
    H_LSU_CAPACITY,  # wavefronts of a calendar bucket
    H_SHARED_LATENCY,
    H_SHARED_STORE_LATENCY,
    H_SHARED_ATOMIC,  # latency of an atomic behind the queue
    H_L1_SETS,
    H_L1_WAYS,
    H_L1_LATENCY,
    H_L1_DATA_SECTORS,  # that L1 hands over a clock
    H_L1_TAG_BANKS,  # lines of different banks that the tag stage takes a clock
    H_L1_KEEPS_WRITES,
    H_L1_WRITE_BYTES,
    H_L1_JOIN,  # cycles within which misses of a line leave as one request
    H_FILL_CAPACITY,  # sectors of a calendar bucket
    H_LOCAL_PHYSICAL,  # where local memory lies for caches
    # crossbar, L2, DRAM
    H_GPC_OF_SM,  # area
    H_PARTITION_OF_SM,  # area
    H_FIRST_PLACES,  # area: the SM of each first block
    H_FIRST_BLOCKS,  # so many of them
    H_GPCS,
    H_GPC_PORTS,  # area of calendars
    H_GPC_CAPACITY,
    H_GPC_FETCH_PORTS,  # area of calendars: instruction lines
    H_GPC_FETCH_INTERVAL,  # in 1/256 cycle
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
    H_L2_TAGS,  # area: set after set, the tags of its ways, their stamps, their fills
    H_L2_STAMPS,
    H_L2_FILLS,
    H_L2_SLICE_WORDS,  # of a slice's sets
    H_L2_FETCH,  # sectors of a fetch
    H_L2_ACCESS,  # bytes of the read port that an access takes at least
    H_L2_FILL,  # write port: a sector that comes from DRAM or the other partition, in bytes
    H_L2_WRITE_REQUEST,  # a write, and each of its whole or partial sectors
    H_L2_WRITE_WHOLE,
    H_L2_WRITE_PART,
    H_FAR_LATENCY,
    H_FAR_PORTS,
    H_FAR_CAPACITY,
    H_FAR_MASKED,
    H_FAR_ATOMIC,
    H_ATOMIC_LATENCY,
    H_ATOMIC_WHOLE,  # a pass over a whole sector, in bytes of slice bandwidth
    H_ATOMIC_PART,  # over part of one
    H_ATOMIC_SUM,  # between floating-point sums on one word
    H_ATOMIC_TURN,  # from an atomic without an answer to one with an answer, or back
    H_ATOMIC_LAST,  # area: what each slice's atomic unit was asked last
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
    H_DRAM_ROW_UNITS,  # units of a channel that share a row
    H_DRAM_SECTOR,  # bus time of 32 bytes, in 1/256 cycle
    H_DRAM_TURNAROUND,  # in 1/256 cycle
    H_DRAM_REFRESH_INTERVAL,
    H_DRAM_REFRESH,  # in 1/256 cycle
    H_DRAM_BATCH,
    H_BANK_REFRESH_INTERVAL,
    H_BANK_REFRESH,
    # requests between SMs and L2 (exchange.py)
    H_BUCKETS,  # area: a counting sort of each GPC
    H_ORDER,  # area: the requests of each GPC in the order of their service
    H_GROUP_ORDER,  # area: the same by group of slices; scratch of the dispatcher
    H_QUEUES,  # area: Q_ fields of each group of slices, and of all together
    H_GPC_FIELDS,  # area: GP_ fields of each GPC
    H_GPC_TURNS,  # area: GPCs in the order in which host threads share them
    H_SERVED,  # requests of the last window
    # offsets in an SM's region of what has no fixed place
    H_OFF_REQUESTS,
    H_OFF_WAITERS,
    H_OFF_LOADS,
    H_OFF_CONST,  # LDC's first level
    H_OFF_IMMEDIATE,  # operands' first level, by sub-core
    H_OFF_INDEXED,  # that of ULDCs with an index, by sub-core
    H_OFF_CONST_BLOCKS,  # L1.5
    H_OFF_L0,
    H_OFF_L1I,
    H_OFF_L1,
    H_OFF_JOIN,  # the store buffer: its lines (J_ fields), and what else is known of it (JB_)
    H_INSTRUCTIONS,  # of the program
    H_STALLS,  # area: of each GPC, cycles by instruction and reason; issues in the place of "selected"
    H_BLOCK_LOG,  # area: SM, start and end of each block
    H_LOGGED_BLOCKS,  # blocks that the log has room for
    H_BEGUN,  # the first blocks of this stretch of the grid are on the chip
    H_WARM_INSTRUCTIONS,  # executed without time (warming.py)
    H_WARM_THREADS,
    H_SLICE_GROUPS,  # area: SG_ fields of each group of slices
    H_HALF,  # slices of a partition
    H_TLB,  # area: by GPC (tlb.py)
    H_TLB_SLOTS,
    H_TLB_SETS,  # 0: every page is at hand
    H_TLB_PORTS,  # area: a calendar of each GPC
    H_TLB_HIT,  # units of it
    H_TLB_MISS,
    H_TLB_LATENCY,
    H_PAGE_SHIFT,  # from a line to its page
    H_COALESCING,  # cycles for which a request can be joined
    H_COALESCER_LINES,  # of a GPC for each group of slices, a power of two, 0: there is none
    H_COALESCER,  # area: by GPC and group of slices, lines on their way: line << 4 | sectors, and when they are there
    H_TOUCHED,  # area: which SMs have turned to each slice, a bit each
    H_TOUCHED_WORDS,  # of a slice
    H_L2_PARTIAL_WAYS,  # of a set that may hold partly written lines
    H_DRAM_ACTIVATE_READ,  # between two rows that a channel opens, 1/256 cycle
    H_DRAM_ACTIVATE_WRITE,
    H_ATOMIC_CHANGE,  # bytes of a slice's bandwidth for an atomic on a line that is none of its last ones; with an answer
    H_ATOMIC_CHANGE_ANSWER,
    H_ATOMIC_LINES,  # area: by slice, the lines of its last atomics
    H_SLICE_QUEUES,  # area: SQ_ fields of each slice
    H_READ_AFTER_WRITE,  # cycles of a slice between a write to a line and a read of it
    H_OTHER_SIDE,  # the same between what comes from its own SMs and what comes over the link
    H_READ_AFTER_ATOMIC,
    H_SHORT_UNTIL,  # windows are short: strong accesses without an answer come
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
    H_CREW,  # area: CR_ words, what host threads share
    H_L2_INSTALLS,  # area: by group of slices, places of the first lines that L2 took in
    H_BULK_STORE_INTERVAL,  # between two bulk stores of an SM
    H_BULK_STORE_ENTRIES,  # bulk stores that an SM takes before the first has been read
    H_REMOTE_ATOMIC,  # latency of an atomic on another block's shared memory
    H_REMOTE_STORE_BYTES,  # that an SM sends to others a cycle
    H_SCHEDULER,  # host address of the launch's warp scheduler; 0: the model's own
    H_L1_REPLACEMENT,  # the same of L1's replacement
    H_BAD_SCHEDULER,  # it chose a slot that could not issue
    H_TIMED_PERIOD,  # of a sampled launch: one block of so many is timed, in 1/65536 block; 0: all are
    H_STRETCH,  # timed blocks in a row, behind which blocks are left out in time
    H_LEFT_OUT,  # how many
    H_WARM_SM,  # region of the SM on which blocks without time run; 0: there are none
    H_WARM_NEXT,  # the next block without time
    H_WARM_STOP,  # behind the last of this stretch
    H_WARM_RATIO,  # blocks without time for each that is timed, in 1/65536
    H_WARM_OWN,  # work that timed blocks had done in the window before
    H_WARM_WORK,  # that blocks without time have done beside them
    H_WARM_ALONG,  # they run beside timed ones: what they ask for takes L2's and DRAM's time
    H_WARM_RANDOM,  # the last of the numbers that spread their accesses over a window
    H_WARM_LOADED,  # 1/65536 of the sectors that timed blocks load, which L2 is asked for
    H_WARM_STORED,  # the same of stores
    H_WARM_LOADS,  # how many sectors in 1/65536 the loads that have passed are behind that share
    H_WARM_STORES,
    H_WARM_QUEUE,  # host address of stores that have not come to L2 yet, WQ_ words each
    H_WARM_QUEUED,  # how many have been put there so far
    H_WARM_SENT,  # how many have left
    H_WARM_WRITTEN,  # their sectors
    H_WARM_MOMENT,  # when the last instruction that stores comes to L2
    H_WARM_TO_WRITE,  # how many shall have left
    H_WARM_FREE,  # instructions of blocks that were left out, of H_WARM_INSTRUCTIONS
    H_BAD_REPLACEMENT,  # it chose a way that no set has
    H_MORE,  # Python takes no more names at once
    *_,
) = range(FIELDS)
(
    # memory elsewhere (elsewhere.py)
    H_ELSEWHERE,  # host address of its ranges, EW_ words each, by line
    H_ELSEWHERES,  # how many there are
    H_LINKS,  # area: by way (LK_) and group of slices, when it is free, in 1/256 cycle
    H_HELD_UP,  # area: by slice of a partition, until when what waits for the host holds it up
    H_ATOMICS_ELSEWHERE,  # area: by group of slices, lines and when their last atomics are done, in 1/256 cycle
    H_HOST_LATENCY,
    H_HOST_ASK,  # in 1/256 cycle, as the other times of packets and sectors
    H_HOST_READ,
    H_HOST_READ_SECTOR,
    H_HOST_WRITE,
    H_HOST_WRITE_SECTOR,
    H_HOST_WRITE_LATENCY,
    H_HOST_ATOMIC_LATENCY,
    H_HOST_ATOMIC_TURN,  # in 1/256 cycle
    H_PEER_LATENCY,
    H_PEER_ASK,
    H_PEER_PACKET,
    H_PEER_SECTOR,
    H_PEER_WRITE_LATENCY,
    H_PEER_ATOMIC_LATENCY,
    H_PEER_ATOMIC_TURN,  # in 1/256 cycle
    H_UNORDERED,  # what comes to L2 now comes in no order of time: lines order nothing (line_order.py)
    H_FENCE_LATENCY,  # of a fence for the device
    H_FENCE_SYSTEM,  # of one for the system behind it
    H_FENCE_HOST,  # behind writes to the host
    H_FENCE_PEER,  # behind writes to another device
    H_PRODUCT_READS,  # cycles in which a tensor product reads its registers (bit mask); 0: as other instructions do
    H_PRODUCT_AGAIN,  # cycles in which it is dispatched again
    H_PRODUCT_END,  # cycles for which either goes on
    H_PRODUCT_HALF,  # cycles from a tensor product to HFMA2.MMA or FP64
    H_FENCE_SHARED,  # of one for the block behind something that the warp wrote to shared memory
    H_FENCE_WRITTEN,  # of one for the device behind something that the SM wrote
    H_FENCE_MAPPED,  # longer, where memory elsewhere is mapped
    H_FENCE_SYSTEM_GAP,  # between groups of fences for the system, beyond what they take longer
    H_FENCE_TOGETHER,  # behind the first of an SM's group of fences in which others join it
    H_FENCE_ROUNDS_APART,  # whether a round of an SM's fences begins only when the one before is over
    H_SLOTS,
    *_,
) = range(H_MORE, FIELDS)

# --- group of slices: what its slices count, in sectors ------------------------
(
    SG_READ,
    SG_WRITTEN,
    SG_ATOMIC,
    SG_HITS,  # of reads
    SG_FAR_READS,
    SG_FAR_WRITES,
    SG_FAR_HITS,
    SG_FAR_ATOMICS,
    SG_MISSED_ATOMIC,
    SG_COMPLETED,  # partly written sectors that were read from DRAM and written back
    SG_COALESCED,  # that a GPC's coalescer did not ask for again
    SG_INSTALLED,  # lines that came to L2
    SG_HOST_SECTORS,  # looked up for the host's memory, by SMs
    SG_HOST_READ,  # bytes from the host, with the packets' heads
    SG_HOST_WRITTEN,  # bytes to it
    SG_PEER_READ,  # bytes of data from other devices
    SG_PEER_WRITTEN,
    SG_LINKS,  # by way (LK_): time that packets took, in 1/256 cycle
    *_,
) = range(FIELDS)
LK_TO_HOST, LK_FROM_HOST, LK_TO_PEER, LK_FROM_PEER = range(4)
LINK_WAYS = 4
SG_SLOTS = 32
EW_FIRST, EW_END, EW_PLACE = range(3)
EW_WORDS = 3
LINES_OF_ATOMICS = 64  # elsewhere, that a group of slices remembers
WQ_LINE, WQ_SECTORS, WQ_BYTES = range(
    3
)  # of a store without time: line << 1 | partition, place in its instruction << 4 | sectors, bytes of each
WQ_WORDS = 3
WARM_QUEUE_ENTRIES = 1 << 15

# --- what host threads share (windows.py): each word in a line of the host of its own ---------------
CR_TICKET = 0  # of the phase that is open: its number, its kind and its next piece, which is beyond the last one when all are taken
CR_DONE = 8  # pieces of it that are done
CR_END = 16  # of the window
CR_LEAVE = 24  # helpers are to end
CR_SLOTS = 32
TICKET_NUMBER, TICKET_KIND = 32, 24  # shifts
TICKET_PIECE = (1 << TICKET_KIND) - 1

# --- GPC: its SMs' requests of the last window ------------------------------------------------------
(
    GP_FIRST,  # number of its first SM
    GP_END,  # one past its last
    GP_REQUESTS,
    GP_TOGETHER,  # some must take their turn among those of all SMs
    GP_PASSED,  # they have passed what its SMs share
    GP_AWAITS,  # answers must still come back through it
    *_,
) = range(FIELDS)
GP_COUNTS = 8  # by group of slices
GP_SLOTS = GP_COUNTS + SLICE_GROUPS
# a queue of requests: of each GPC's list the first that was not taken, the place of the next and the end; a ring of those that were
Q_HEADS = 0
Q_NEXT = Q_HEADS + MAX_GPCS
Q_END = Q_NEXT + MAX_GPCS
Q_RING = Q_END + MAX_GPCS
RING_WORDS = 32
Q_SLOTS = Q_RING + RING_WORDS

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
    SC_MIO_FREE,  # when the queue can hand over its next instruction
    SC_MIO_HEAD,
    SC_FREE,  # free warp slots (bit mask)
    SC_PRODUCT,  # when the last tensor product was dispatched
    SC_PRODUCT_READS,  # the cycles behind that in which it reads both banks (bit mask)
    SC_PRODUCT_END,  # until when it makes any difference to what else is dispatched
    *_,
) = range(FIELDS)
SC_READY = 16  # earliest issue of each slot's next instruction
SC_PIPE = SC_READY + MAX_WARPS  # the pipe that it needs
SC_AGE = SC_PIPE + MAX_WARPS  # turn among those that can issue
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
    W_PENDING,  # strong accesses that the serial phase has yet to execute, times two; 1 more: its basic block is foretold, no record yet
    W_BARRIER,  # 1 + number of the block barrier at which it waits
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
    W_RING_COUNT,  # 6
) = range(W_SB_LONG + 6, W_SB_LONG + 22)
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

# --- requests of a window ---------------------------------------------------------------------------
(R_TIME, R_LINE, R_KIND, R_SECTORS, R_FULL, R_WARP, R_WAITERS, R_ANSWER) = range(8)
# R_FULL: bytes of a store's sectors, words of an atomic's, the place in L1 that a load fills, the block of a strong access; R_ANSWER: until it is served its slice
R_SLOTS = 8
MAX_REQUESTS = 4096
(RQ_LOAD, RQ_LOAD_AROUND, RQ_STORE, RQ_ATOMIC, RQ_STRONG, RQ_CONSTANT, RQ_BULK, RQ_FENCE, RQ_REMOTE) = range(9)
# RQ_LOAD fills an L1 line; RQ_LOAD_AROUND does not.  RQ_FENCE: its latency is in R_LINE.  RQ_REMOTE: in R_LINE the SM that is read,
# in R_SECTORS how many lines are asked for and, shifted, how many sectors it answers with.
REMOTE_SECTORS_SHIFT = 8
REMOTE_LINES_MASK = (1 << REMOTE_SECTORS_SHIFT) - 1
FENCE_AT_L2, FENCE_ASKED, FENCE_SYSTEM = 1 << 20, 1 << 21, 1 << 22
"""Flags of ``W_FENCE``: the fence asks the slices once writes are acknowledged; it has; it is for the system."""
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
# L1, of each set one after the other its ways': line << 8 | pending sectors << 4 | valid sectors; last use; arrival; request; words stored in
# sectors that are not valid
(C_TAG, C_STAMP, C_FILL, C_REQUEST, C_WORDS) = range(5)
C_SLOTS = 5
L2_WAY_WORDS = 3
L2_INSTALLS = (
    1024  # places that a group of slices remembers: a launch of few lines leaves L2 empty for the next one (initial.py)
)
# passes of a pattern of lanes (coalescer.py): step, the rest of what they depend on, passes
PASSES_KEPT = 256  # a power of two
PASSES_SLOTS = 4
# lines of a pattern of lanes (coalescer.py): step, the rest of what they depend on, how many; of each its distance from the base's line, sectors, bytes
# and words.  Two patterns share their places: the first has a word for which of them is the older one
PATTERNS_KEPT = 128  # a power of two
PATTERN_LINES = 8
PATTERN_OLDER, PATTERN_HEAD = 3, 4
PATTERN_SLOTS = PATTERN_HEAD + 4 * PATTERN_LINES + 4
# scratch of a GPC: of 32 banks how many words, the words of each, and the number of the last group of lanes
BANK_WORDS = 32
BANK_TURN = BANK_WORDS + 32 * 32
BANK_SLOTS = BANK_TURN + 8
# a line of the store buffer: its sectors, the end of the last store to it and which that was, its request and the window in which that was made,
# cycles of the output, places that it takes, sectors that L1 lacked before
(J_LINE, J_SECTORS, J_TOUCHED, J_STORE, J_REQUEST, J_WINDOW, J_CYCLES, J_ROOM, J_FRESH) = range(9)
J_SLOTS = 9
STORE_QUEUE = 18  # accesses between the load/store unit and the store buffer (bench.micro ``store_times``: a load of L1 waits for 24 to 26 stores, one of shared memory for 8)
OUTPUT_LINES = 7  # that have left the buffer and wait for the output (bench.micro ``joins_once``, ``alone``: seven of eight lines leave, then none for a while)
# behind its lines: first line, lines, places taken, stores so far, accesses that waited in the queue so far, until when a store holds
# the load/store unit up, when the next one can come in, when the last line is out; lines that went to the output so far, when the last one went; when
# each of the last was out and the next one could begin; its line, those of its sectors that L1 lacked before and when they were out; when each of
# the last accesses left the queue
(JB_FIRST, JB_COUNT, JB_ROOM, JB_STORES, JB_TAKES, JB_HELD, JB_FREE, JB_LAST, JB_SENT, JB_WENT, JB_OUTPUT) = range(11)
JB_OUT_LINES = JB_OUTPUT + OUTPUT_LINES
JB_OUT_FRESH = JB_OUT_LINES + OUTPUT_LINES
JB_OUT_UNTIL = JB_OUT_FRESH + OUTPUT_LINES
JB_TAKEN = JB_OUT_UNTIL + OUTPUT_LINES
JB_SLOTS = JB_TAKEN + STORE_QUEUE
# DRAM channel: queued writes, refreshes done, last batch's end, reads since then, bus time of the queued writes; counters: sectors read
# and written, rows opened
(D_WRITES, D_REFRESH, D_WRITTEN, D_READ, D_QUEUED, D_SECTORS_READ, D_SECTORS_WRITTEN, D_ACTIVATIONS) = range(8)
D_SLOTS = 8
JOIN_LINES = 28  # of the store buffer (bench.micro ``joins_once``: three warps' stores of eight lines each join, four warps' do not)
ATOMIC_LINES = 4  # that a slice's atomics have at hand (bench.micro ``contended``: four lines by turns cost no more than one, eight do)
# A slice's queue: until when it is held up; then the last writes of some lines (``line_order.py``): line + 1, start, how long reads wait, from where, writes'
# share of the line's last accesses
SQ_FIRST = 1
(SQ_LINE, SQ_START, SQ_READS, SQ_SIDE, SQ_SHARE) = range(5)
SQ_ENTRY = 5
SQ_ENTRIES = 8  # a power of two
SQ_SLOTS = SQ_FIRST + SQ_ENTRY * SQ_ENTRIES
BUCKETS = 1024  # of the counting sort by time
BUCKET_SLOTS = BUCKETS + 8
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
    I_READS,  # bank 0 reads | bank 1 reads << 8; with the register-file cache << 16 and << 24; cycles of dispatch beyond one << 32; PRODUCT
    I_LINE,  # instruction cache line
    I_CONST,  # constant line, -1
    I_OP,  # of memory instructions (OP_); of LDC the line, or its bank's first one
    I_BYTES,
    I_STRONG,  # a strong access; flags of a fence (FENCE_)
    I_EXTRA,  # of LDC with an index: lines of its bank
    *_,
) = range(FIELDS)
I_SLOTS = 16
TEXTURE_INTERVAL_SHIFT = 16
"""``I_LATENCY`` of a texture instruction: cycles beyond an L1 hit, and above them those that the texture units take."""
COUNTS_LANES = 1 << 20
"""Flag of ``I_EXTRA``: a shared atomic that adds the number of lanes on a word at once (ATOMS.POPC.INC)."""
PRODUCT = 1 << 40
"""Flag of ``I_READS``: a tensor product, which reads its registers at times of its own."""
MATRIX_ROWS = 1 << 22
"""The same: a matrix load (LDSM), whose lanes name rows."""
ONE_PASS = 1 << 23
"""Flag of ``I_EXTRA``: a shared atomic that passes once for each 4 bytes, whatever its lanes' banks (ATOMS.CAST.SPIN)."""
OWN_SHARED = 1 << 21
"""Flag of ``I_EXTRA``: an access to the block's own shared memory (LDS, STS, ATOMS), whatever rank its address carries in a cluster."""
(
    K_FIXED,
    K_BRANCH,
    K_EXIT,
    K_BARRIER,
    K_MEMORY,
    K_COPY,  # LDGSTS: two records
    K_BULK,  # a bulk copy: one record of its own kind
    K_MATCH,  # MATCH.ANY: a record of what the lanes compare
    K_INDEXED,  # ULDC with an index that reads before it issues: a record of its offset
    K_LOOKUP,  # LDC with an index: a record of offsets
    K_CONSTANT,  # LDC of a known place
    K_MIO,  # shuffles, MATCH …: the queue, no record
    K_COPY_DONE,  # LDGDEPBAR
    K_DEPBAR,
    K_MEMBAR,
    K_INVALIDATE,  # CCTL.IVALL
    K_CLOCK,
    K_AWAIT,  # a try_wait: held back until its phase ends
    K_SLEEP,
    K_JOIN,  # BSYNC: a branch to wherever its warp goes on, if only to what follows
    K_YIELD,  # other lanes of the warp may go on first
    *_,
) = range(FIELDS)
(OP_LOAD, OP_STORE, OP_ATOMIC, OP_REDUCE) = range(4)
# one basic block of the program: first instruction, one past its last, the block at which a traced warp may
# have stopped behind it (strong access, clock read), and the one of a strong access to which nothing but itself leads on; -1 when none
(BL_FIRST, BL_END, BL_STRONG, BL_CLOCK, BL_SURE) = range(5)
BL_SLOTS = 5
# statuses of the model's own, beside engine/abi.py's
STATUS_NONE = -1  # has not run yet
STATUS_RELEASED = -2  # the reason for its stop has passed: may be called


def counted(words: npt.NDArray[np.int64], *fields: int) -> int:
    """Sum of counters (``SG_``) over all groups of slices."""
    first = int(words[H_SLICE_GROUPS])
    groups = words[first : first + SLICE_GROUPS * SG_SLOTS].reshape(SLICE_GROUPS, SG_SLOTS)
    return int(groups[:, list(fields)].sum())


def dram_counted(words: npt.NDArray[np.int64], *fields: int) -> int:
    """Sum of fields (``D_``) over all DRAM channels."""
    first = int(words[H_DRAM_STATE])
    count = int(words[H_CHANNELS_PER_SLICE] * words[H_SLICES])
    return int(words[first : first + count * D_SLOTS].reshape(count, D_SLOTS)[:, list(fields)].sum())


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
        regions = [sm for sm in map(self.sm, range(int(self.words[H_SMS]))) if self.words[sm + SM_RESIDENT]]
        slots = np.arange(MAX_SUB_CORES * MAX_WARPS) * W_SLOTS + OFF_WARPS + W_ACTIVE
        return [(sm, int(slot)) for sm in regions for slot in np.flatnonzero(self.words[sm + slots])]

    def sms(self) -> npt.NDArray[np.int64]:
        """Every SM's region, shape (SMs, words)."""
        first, size, count = (int(self.words[field]) for field in (H_SM_FIRST, H_SM_SLOTS, H_SMS))
        return self.words[first : first + count * size].reshape(count, size)

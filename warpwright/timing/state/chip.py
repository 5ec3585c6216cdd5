"""What there is once: the header (``H_``), groups of L2's slices (``SG_``), host threads (``CR_``), GPCs (``GP_``)."""

from __future__ import annotations

from warpwright.chips.sections import MAX_GPCS
from warpwright.timing.state.common import FIELDS, SLICE_GROUPS

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
    H_AGE,  # turn of the next block
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
    # memory elsewhere (links.py)
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
    H_UNORDERED,  # what comes to L2 now comes in no order of time: lines order nothing (l2_hazards.py)
    H_BARRIER_ENTRIES,  # of a sub-core's queue to the unit of block barriers
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
    H_EPOCH,  # cycles of the device's own clock before this launch: L2 keeps times by that clock
    H_BROUGHT,  # host address of the ranges of lines that copies and fills have used since the launch before, BR_ words each
    H_BROUGHTS,  # how many there are
    H_FENCE_ROUNDS_APART,  # whether a round of an SM's fences begins only when the one before is over
    H_L2_DIRTY_WAYS,  # of a set that may hold dirty lines
    # code that L2 lacks (fetch.py)
    H_L2I_COLD_LATENCY,  # of a line of code that no SM of the GPC has asked for
    H_L2I_COLD_INTERVAL,
    H_CODE_ARRIVED,  # area: of each GPC, when each line of code is in L2
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
BR_FIRST, BR_END, BR_HOW = range(3)
BR_WORDS = 3
BR_READ, BR_WRITTEN, BR_DROPPED = range(3)  # BR_HOW
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

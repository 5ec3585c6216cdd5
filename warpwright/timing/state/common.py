"""Sizes, pipes, stall reasons and calendars, to which the fields of all units refer."""

from __future__ import annotations

from warpwright.engine.abi import NAMED_BARRIERS

INF = 1 << 60
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2**64 over the golden ratio, as a signed number: spreads bits
MAX_WARPS = 16  # warp slots of one sub-core
MAX_SUB_CORES = 4
MAX_BLOCK_WARPS = MAX_WARPS * MAX_SUB_CORES  # a block of 1,024 threads in waves of 16 lanes fills an SM
MAX_BLOCKS = 32
PASS_WORD_BITS = 44  # bits for each sector of a line in a word that describes an atomic's lanes
PART_WORD_BITS = 12  # the same, in a word that counts the known words of partly written sectors
FIELDS = 1024  # more than the length of any list of names below
READ_PIECE_SHIFT = 9  # reads are noted by pieces of 512 bytes: allocations, at multiples of 1,024, share none
STEP_ENDS = 128  # number of a grid's last barriers whose times are kept
MAX_PATTERN = 4  # greatest number of steps between barriers that repeat as a group
MAX_LOGGED_BLOCKS = 1 << 17  # the first blocks of a larger grid
SLICE_GROUPS = 8  # groups of L2 slices with their DRAM: a power of two; one host thread serves a group
AGE_READY, AGE_BLOCK = (
    6,
    38,
)  # bits of a warp's turn, from the lowest: its place in the block, the time since which it is ready, its block
AGE_TIMES, AGE_BLOCKS = (1 << 32) - 1, (1 << 21) - 1
DEFERRED = 32  # in W_BARRIER: instructions that do not depend on the barrier's order may issue while the warp waits
AT_CLUSTER = (
    NAMED_BARRIERS + 1
)  # value of ``Warp.barrier`` at the barrier of a cluster: the named ones are 1 to NAMED_BARRIERS
AT_GRID = NAMED_BARRIERS + 2  # the same at a wait for the end of preceding grids
AT_PRODUCT = NAMED_BARRIERS + 3  # the same at a warpgroup's product, to which others of its warps have yet to come

# --- pipes: what an instruction occupies when it issues -------------------------------------------
PIPES = (
    *("none", "alu", "fma", "fma_heavy", "half", "fp64", "xu", "tensor"),
    *("uniform", "branch", "mio", "fma_lite", "fma_pair", "adu", "convergence"),
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
    P_ADU,  # block barriers, WARPSYNC, indirect branches; free when the sub-core's queue to their unit has an empty entry
    P_CONVERGENCE,  # registers of convergence barriers; this and P_ADU lead to units that the SM's sub-cores share
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

# --- calendars: rings of buckets (see ports.py) --------------------------------------------------
CALENDAR_BUCKETS = 512
CALENDAR_SHIFT = 3  # 8 cycles a bucket
DRAM_SHIFT = 5  # 32 cycles: a longer horizon
CALENDAR_SLOTS = CALENDAR_BUCKETS + 8

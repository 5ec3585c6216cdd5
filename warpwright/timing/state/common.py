"""Sizes, pipes, stall reasons and calendars, to which the fields of all units refer."""

from __future__ import annotations

INF = 1 << 60
GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2**64 over the golden ratio, as a signed number: spreads bits
MAX_WARPS = 16  # warp slots of one sub-core
MAX_SUB_CORES = 4
MAX_BLOCKS = 32
PASS_WORD_BITS = 44  # of a word with so many bits for each sector of a line: how an atomic falls on them
PART_WORD_BITS = 12  # the same: how many words are known of sectors that are written in part
FIELDS = 1024  # more than any list of names below is long: each takes the numbers that it needs
MAX_LOGGED_BLOCKS = 1 << 17  # of a larger grid the first ones
SLICE_GROUPS = 8  # of L2 slices with their DRAM: a power of two; one host thread serves a group
AGE_READY, AGE_BLOCK = (
    6,
    38,
)  # bits of a warp's turn: below its place in the block, then since when it is ready, then its block
AGE_TIMES, AGE_BLOCKS = (1 << 32) - 1, (1 << 21) - 1
DEFERRED = 32  # in W_BARRIER: instructions that need nothing of what the barrier orders may issue while the warp waits
AT_GRID = 18  # value of ``Warp.barrier`` at a wait for the end of grids before its own
AT_CLUSTER = 17  # value of ``Warp.barrier`` at the barrier of a cluster: one after the sixteen named ones

# --- pipes: what an instruction occupies when it issues -------------------------------------------
PIPES = (
    *("none", "alu", "fma", "fma_heavy", "half", "fp64", "xu", "tensor"),
    *("uniform", "branch", "mio", "fma_lite", "fma_pair", "adu"),
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
    P_ADU,  # block barriers; free when the sub-core's queue to their unit has an empty entry
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

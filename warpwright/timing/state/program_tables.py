"""Tables of the program that ``instruction_table.py`` fills: instructions, their kinds, basic blocks."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.common import FIELDS


class Instruction(Unit):
    """One instruction of the program."""

    kind = word("", "what the issue stage does with it (K_)")
    pipe = word("", "that it takes (P_)")
    interval = word("cycle", "of its pipe")
    latency = word("cycle", "from issue to its result; of texture instructions see TEXTURE_INTERVAL_SHIFT")
    stall = word("cycle", "from its issue to the warp's next")
    yields = word("", "another warp issues next, if one can")
    wait = word(
        "bits",
        "dependence barriers that it waits for; negative: from its list of barriers and scoreboard entries, of which the first word is the length, to its row",
    )
    write_barrier = word("", "dependence barrier or scoreboard entry that its result counts on; -1: none")
    read_barrier = word("", "that its reads count on; -1: none")
    reads = word(
        "",
        "of each register bank, four bits each; with the register-file cache << 16; cycles of dispatch beyond one << 32; PRODUCT",
    )
    line = word("", "instruction cache line")
    constant = word("", "line of constants of an operand; -1: none")
    op = word(
        "",
        "of memory instructions (OP_); of LDC the line, or its bank's first one; of BMOV and BSYNC the bit of the convergence register, of BSSY negative",
    )
    access_bytes = word("bytes", "of each lane's access")
    strong = word("", "a strong access; flags of a fence (FENCE_)")
    extra = word("", "wavefronts, lines of an LDC's bank, flags of shared accesses")


TEXTURE_INTERVAL_SHIFT = 16
"""``latency`` of a texture instruction: cycles beyond an L1 hit, and above them those that the texture units take."""
DEVICE_SCOPE = 2
"""In ``Instruction.strong``: a strong load whose scope is the device or a cluster of it."""
COUNTS_LANES = 1 << 20
"""Flag of ``Instruction.extra``: a shared atomic that adds the number of lanes on a word at once (ATOMS.POPC.INC)."""
PRODUCT = 1 << 40
"""Flag of ``Instruction.reads``: a tensor product, which reads its registers at its own times."""
MATRIX_ROWS = 1 << 22
"""Flag of ``Instruction.extra``: a matrix load (LDSM), whose lanes name rows."""
ONE_PASS = 1 << 23
"""Flag of ``Instruction.extra``: a shared atomic that passes once for each 4 bytes, whatever its lanes' banks (ATOMS.CAST.SPIN)."""
GLOBAL_SHARE = 1 << 24
"""Flag of ``Instruction.extra``: an access to the chip's global data share, whose banks are like those of shared memory."""
SAMPLES = 1 << 25
"""Of an instruction for the texture unit that its cluster's SMs share."""
FILTERED = 1 << 26
"""Flag of ``Instruction.extra``: a mean of a texture filter, whose lanes' addresses are never joined."""
MBARRIER = 1 << 27
"""Flag of ``Instruction.extra``: an arrival at an mbarrier, or a look at its phase."""
OWN_SHARED = 1 << 21
"""Flag of ``Instruction.extra``: an access to the block's own shared memory (LDS, STS, ATOMS), whatever rank its address carries in a cluster."""
(
    # up to K_AWAIT: only their results and operands are guarded
    K_FIXED,
    K_BRANCH,
    K_EXIT,
    K_JOIN,  # BSYNC and WARPSYNC: a branch to where its warp continues, possibly the next instruction
    K_YIELD,  # other lanes of the warp may continue first
    K_CLOCK,
    K_GROUP,  # a warpgroup's product: begins when all of its warps have come to it
    K_AWAIT,  # a try_wait: held back until its phase ends
    # from K_MEMORY to K_LOOKUP: there is a record
    K_MEMORY,
    K_COPY,  # LDGSTS: two records
    K_BULK,  # a bulk copy: one record of its own kind
    K_MATCH,  # MATCH.ANY: a record of what the lanes compare
    K_INDEXED,  # ULDC with an index that reads before it issues: a record of its offset
    K_GUARDED_FENCE,  # MEMBAR with a guard: a record of the lanes that execute it
    K_LOOKUP,  # LDC with an index: a record of offsets
    K_CONSTANT,  # LDC of a known place
    K_MIO,  # shuffles …: the queue, no record
    K_COMBINE,  # REDUX, MATCH.ALL: the queue and the barrier unit, no record
    K_COPY_DONE,  # LDGDEPBAR
    K_DEPBAR,
    K_GROUP_WAIT,  # for the products of a warpgroup
    K_INVALIDATE,  # CCTL.IVALL
    K_LET_GO,  # griddepcontrol.launch_dependents
    # from K_BARRIER on: the warp may have to wait
    K_BARRIER,
    K_MEMBAR,
    K_SLEEP,
    K_GRID_WAIT,  # griddepcontrol.wait
    *_,
) = range(FIELDS)
(OP_LOAD, OP_STORE, OP_ATOMIC, OP_REDUCE) = range(4)


class BasicBlock(Unit):
    """One basic block of the program; -1 stands for no block."""

    first = word("", "its first instruction")
    end = word("", "one past its last")
    strong = word("", "block at which a traced warp may have stopped after it for a strong access")
    clock = word("", "the same for a read of the clock")
    sure = word("", "block of a strong access to which nothing but this one leads on")


# the model's own statuses, in addition to those of engine/abi.py
STATUS_NONE = -1  # has not run yet
STATUS_RELEASED = -2  # the reason for its stop has passed: may be called

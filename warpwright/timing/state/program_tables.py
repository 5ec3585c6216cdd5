"""Tables of the program (``instruction_table.py`` fills them): instructions (``I_``), kinds (``K_``), basic blocks (``BL_``)."""

from __future__ import annotations

from warpwright.timing.state.common import FIELDS

# --- one instruction of the program (instruction_table.py) --------------------------------------------------------
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
    I_READS,  # reads of each register bank, four bits each; with the register-file cache << 16; cycles of dispatch beyond one << 32; PRODUCT
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
"""Flag of ``I_EXTRA``: a matrix load (LDSM), whose lanes name rows."""
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

"""Records of the memory system: requests, cache lines, the store buffer, DRAM's channels, slices' queues, the log of blocks."""

from __future__ import annotations

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
# waiters: a load that waits for a request, for how many others it waited before it, and the next waiter
(X_LOAD, X_NEXT) = range(2)
X_SLOTS = 2
X_BEHIND_SHIFT = 32
X_LOAD_MASK = (1 << X_BEHIND_SHIFT) - 1
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
    1024  # places that a group of slices remembers: a launch of few lines leaves L2 empty for the next one (reset.py)
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
# and written, rows opened; one more than the time of the first request
(D_WRITES, D_REFRESH, D_WRITTEN, D_READ, D_QUEUED, D_SECTORS_READ, D_SECTORS_WRITTEN, D_ACTIVATIONS, D_FIRST) = range(9)
D_SLOTS = 16
JOIN_LINES = 28  # of the store buffer (bench.micro ``joins_once``: three warps' stores of eight lines each join, four warps' do not)
ATOMIC_LINES = 4  # that a slice's atomics have at hand (bench.micro ``contended``: four lines by turns cost no more than one, eight do)
# A slice's queue: until when it is held up; then the last writes of some lines (``l2_hazards.py``): line + 1, start, how long reads wait, from where, writes'
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

"""Records of the memory system: requests, the store buffer, slices with their queues, DRAM's channels, GPCs, the log of blocks."""

from __future__ import annotations

from warpwright.chips.sections import MAX_GPCS
from warpwright.native.units import Unit, parts, word, words
from warpwright.timing.state.common import SLICE_GROUPS


# --- requests of a window ---------------------------------------------------------------------------
class Request(Unit):
    """A request of an SM to L2."""

    time = word("cycle", "when it leaves the SM")
    line = word("", "that it asks for; of a fence its latency, of a remote load the SM that is read")
    kind = word("", "RQ_")
    sectors = word("bits", "of the line; of a remote load lines and, shifted, sectors of the answer")
    full = word(
        "",
        "bytes of a store's sectors, words of an atomic's, the place in L1 that a load fills, the block of a strong access",
    )
    warp = word("index", "the warp slot that waits for it")
    waiters = word("", "its first waiter, plus one")
    answer = word("cycle", "when the answer is there; until it is served its slice")


MAX_REQUESTS = 4224
PLACE_BITS = 28
"""Of a request's place in the state (exchange.py)."""
MAX_RUN, RUN_BITS = 16, 5
"""Requests that may be one (runs.py), and bits of their number."""
(RQ_LOAD, RQ_LOAD_AROUND, RQ_STORE, RQ_ATOMIC, RQ_STRONG, RQ_CONSTANT, RQ_BULK, RQ_FENCE, RQ_REMOTE, RQ_TEXTURE) = (
    range(10)
)
# RQ_LOAD fills an L1 line; RQ_LOAD_AROUND does not.
REMOTE_SECTORS_SHIFT = 8
REMOTE_LINES_MASK = (1 << REMOTE_SECTORS_SHIFT) - 1
FENCE_AT_L2, FENCE_ASKED, FENCE_SYSTEM = 1 << 20, 1 << 21, 1 << 22
"""Flags of ``Warp.fence``: the fence will go to the slices once writes are acknowledged; it has gone; it has system scope."""
FENCE_AFTER_LOADS, FENCE_IN_TURN, FENCE_NOT_YET, FENCE_IN_ROUND = range(4)
"""``Request.full`` of a fence: follows the loads at the slices; takes a turn among polls; cannot leave yet; takes a turn, with a round of an SM that has stored."""


class Waiter(Unit):
    """A load that waits for a request."""

    load = word("", "the load and, shifted, how many others the request waited for before it")
    next = word("", "the next waiter, plus one")


WAITER_BEHIND_SHIFT = 32
WAITER_LOAD_MASK = (1 << WAITER_BEHIND_SHIFT) - 1
MAX_WAITERS = 8192


class PendingLoad(Unit, size=8):
    """A load in flight whose end is not known."""

    warp = word("index", "its warp slot")
    barrier = word("", "dependence barrier that it counts on")
    left = word("requests", "that it waits for; of a free place the next free one")
    time = word("cycle", "latest answer so far")
    kind = word("", "LD_")
    ring = word("", "its number among the barrier's operations")
    passes = word("cycle", "that its passes take when its lines have come")
    more = word("cycle", "of the load/store unit, because its lines arrive at different times")


MAX_LOADS = 2048
(LD_REGISTER, LD_ASYNC, LD_STORE) = range(3)

# --- cache lines -------------------------------------------------------------------------------------
# L1, of each set one after the other its ways': line << 8 | pending sectors << 4 | valid sectors; last use; arrival; request; words stored in
# sectors that are not valid
(C_TAG, C_STAMP, C_FILL, C_REQUEST, C_WORDS) = range(5)
C_SLOTS = 5
L2_WAY_WORDS = 3
L2_INSTALLS = 1024
"""Places of L2 that a group of slices records, so that a launch of few lines can clear them for the next one (reset.py)."""
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
BANK_ROOM = 32  # no more lanes are served at once
BANK_TURN = BANK_WORDS + BANK_WORDS * BANK_ROOM
BANK_SLOTS = BANK_TURN + 8

# --- store buffer ------------------------------------------------------------------------------------
MAX_STORE_QUEUE = 64
"""The most entries of the queue before the store buffer."""
MAX_OUTPUT_LINES = 16
"""The most lines that wait for the buffer's output."""


class StoreLine(Unit):
    """A line of the store buffer."""

    line = word("", "its number")
    sectors = word("bits", "that were stored to")
    touched = word("cycle", "end of the last store to it")
    store = word("", "number of that store")
    request = word("", "its request")
    window = word("cycle", "the window in which that was made")
    cycles = word("cycle", "of the output")
    room = word("places", "that it takes")
    fresh = word("bits", "sectors that L1 lacked before")


class StoreBuffer(Unit):
    """The store buffer after its lines."""

    first = word("", "its first line")
    count = word("lines", "in it")
    room = word("places", "taken")
    stores = word("stores", "so far")
    takes = word("accesses", "that waited in the queue so far")
    held = word("cycle", "until when a store holds the load/store unit up")
    free = word("cycle", "when the next store can come in")
    array = word("cycle", "when L1's array has made the passes of stores whose lines leave, and of loads between them")
    last = word("cycle", "when the last line is out")
    last_shared = word("cycle", "when the last line that is not of local memory is out")
    sent = word("lines", "that went to the output so far")
    went = word("cycle", "when the last one went")
    output = words(MAX_OUTPUT_LINES, "cycle", "when each of the last was out and the next one could begin")
    out_lines = words(MAX_OUTPUT_LINES, "", "their numbers")
    out_fresh = words(MAX_OUTPUT_LINES, "bits", "those of their sectors that L1 lacked before")
    out_until = words(MAX_OUTPUT_LINES, "cycle", "when they were out")
    taken = words(MAX_STORE_QUEUE, "cycle", "when each of the last accesses left the queue")


# --- GPCs --------------------------------------------------------------------------------------------
CLUSTER_WAYS = 2
"""A GPC's paths for packets between its SMs' shared memories."""


class Gpc(Unit):
    """A GPC: its SMs' requests of the last window."""

    first = word("", "number of its first SM")
    end = word("", "one past its last")
    requests = word("requests", "of the window")
    latest = word("cycle", "when the last of them leaves its SM")
    ordered = word("", "each SM made them in the order of time, and they are kept in runs (runs.py)")
    together = word("", "some must take their turn among those of all SMs")
    passed = word("", "they have passed what its SMs share")
    awaits = word("", "answers must still come back through it")
    cluster_ways = words(CLUSTER_WAYS, "1/256 cycle", "until when packets of atomics pass between its SMs, by way")
    counts = words(SLICE_GROUPS, "requests", "by group of slices", align=8)


RING_WORDS = 32


class RequestQueue(Unit):
    """A queue of requests: the GPCs' lists, and a ring of requests that were taken from them."""

    heads = words(MAX_GPCS, "", "of each GPC's list the first that was not taken")
    next = words(MAX_GPCS, "", "the place of the next one")
    end = words(MAX_GPCS, "", "the list's end")
    ring = words(RING_WORDS, "", "requests that were taken")
    left = word("", "words of the lists that were not taken")


BUCKETS = 1024
"""Of the counting sort by time."""
BUCKET_SLOTS = BUCKETS + 8


# --- slices ------------------------------------------------------------------------------------------
class SliceGroup(Unit, size=32):
    """A group of slices: the counters of its slices."""

    read = word("sectors", "that SMs read")
    written = word("sectors", "that SMs wrote")
    atomic = word("sectors", "of atomics")
    hits = word("sectors", "of reads that hit")
    far_reads = word("sectors", "read over the link between the partitions")
    far_writes = word("sectors", "written over it")
    far_hits = word("sectors", "of those reads that hit")
    far_atomics = word("sectors", "of atomics over it")
    missed_atomic = word("sectors", "of atomics that missed")
    completed = word("sectors", "partly written ones that were read from DRAM and written back")
    coalesced = word("sectors", "that a GPC's coalescer did not ask for again")
    installed = word("lines", "that came to L2")
    host_sectors = word("sectors", "looked up for the host's memory, by SMs")
    host_read = word("bytes", "from the host, with the packets' heads")
    host_written = word("bytes", "to it")
    peer_read = word("bytes", "of data from other devices")
    peer_written = word("bytes", "of data to them")
    replays = word("packets", "sent again after an error")
    policy = word("", "what the access that is served asks for its line (access_policy.py)")
    streamed = word("percent", "of the next streaming line that leaves first once it has been written back")


LK_TO_HOST, LK_FROM_HOST, LK_TO_PEER, LK_FROM_PEER = range(4)
MAX_GANGS = 16
"""Gangs of links to other devices that have routes of their own; each has a way out and a way back after those of ``LK_``."""
LINK_WAYS = 4 + 2 * MAX_GANGS


class PeerRoute(Unit):
    """Times of accesses to the memory of other devices, by route (``peer_routes.PeerRoute``); the first is the chip's own."""

    out = word("", "the way of requests and writes (LK_)")
    back = word("", "the way of answers")
    ask = word("1/256 cycle", "of the link for a request")
    packet = word("1/256 cycle", "for a packet's head")
    sector = word("1/256 cycle", "for each of its sectors")
    latency = word("cycle", "of a load")
    write_latency = word("cycle", "until a write is acknowledged")
    atomic_latency = word("cycle", "of an atomic")
    errors = word("1/2^32", "share of packets that arrive broken")
    replay = word("1/256 cycle", "of the way, for each of those beside the packet itself")
    posted = word("", "writes have no answer")
    acknowledge = word("1/256 cycle", "of the way back, for the answer to a write that is not posted")


class LinkWidth(Unit):
    """The width of one direction of a gang of links, which may reduce it to save power (``peer_routes.WidthRule``)."""

    slow = word("1/256", "time of a packet, over that at full width; 0: it has full width")
    slowdown = word("1/256", "the same at reduced width; 0: it never reduces its width")
    reduce_below = word("1/256", "share of a window in use below which it reduces its width")
    widen_above = word("1/256", "share above which it takes its full width again")
    window = word("cycle", "over which activity is counted")
    power = word("1/256", "at reduced width, of that at full width")
    change = word("cycle", "without packets while it takes its full width again")
    began = word("cycle", "when the window began")
    since = word("cycle", "since when it is reduced")
    reduced = word("cycle", "that it was reduced before")
    changes = word("changes", "of its width")


MAX_PEER_ROUTES = 1 + MAX_GANGS
# ranges of lines that copies and fills have used, in the host's memory: first, one past the last, how
BR_FIRST, BR_END, BR_HOW = range(3)
BR_WORDS = 3
BR_READ, BR_WRITTEN, BR_DROPPED = range(3)
"""Values of ``BR_HOW``."""


class Processor(Unit):
    """A processor of the machine, as a GPU's page migration has it (``page_migration.py``)."""

    place = word("", "of its memory, as links have it; -1: kernels cannot access it without a copy")
    copy = word("ps", "that a page takes from it")


# ranges of lines elsewhere, in the host's memory: first, one past the last, where they are, how far from what caches know them by, page table (managed_pages.py)
EW_FIRST, EW_END, EW_PLACE, EW_MOVED, EW_TABLE = range(5)
EW_WORDS = 5
# ranges of compressible lines, in the host's memory: first, one past the last, where a word for each is
CR_FIRST, CR_END, CR_TABLE = range(3)
CR_WORDS = 3
# a translation of a page of the host, in the host's memory: its number plus one, the cycle when it came
TR_PAGE, TR_READY = range(2)
TR_WORDS = 2
LINES_OF_ATOMICS = 64
"""Lines of other memory that a group of slices remembers."""
# a store without time, in the host's memory: line << 1 | partition, place in its instruction << 4 | sectors, bytes of each
WQ_LINE, WQ_SECTORS, WQ_BYTES = range(3)
WQ_WORDS = 3
WARM_QUEUE_ENTRIES = 1 << 15


class LastWrite(Unit):
    """A slice's record of the last write of a line (``l2_hazards.py``)."""

    line = word("", "its number, plus one")
    start = word("cycle", "when the write began")
    reads = word("cycle", "that reads wait for it")
    side = word("", "from where it came")
    share = word("", "its own SMs' writes among them and the reads of the line's last accesses")
    far_share = word("", "the same of writes that came over the link")


LAST_WRITES = 32
"""Of a slice, a power of two."""


class LineAtomics(Unit):
    """A home's record of the atomics on a line (``l2_hazards.py``)."""

    line = word("", "its number, plus one")
    near = word("cycle", "when the last of those from the home's side is over")
    far = word("cycle", "the same of those from the other side")
    read = word("cycle", "when the other side's last read was taken")
    held = word("cycle", "until when the line waits for the other side to let go of its copy")
    leaves = word("cycle", "when the other side's copy is gone; 0: nobody asked for that")
    share = word("", "of atomics among its accesses, of 256, with a fraction")
    turn = word(
        "cycle", "when a read of the home's side has its next turn between atomics of the other side, with a fraction"
    )
    free = word("cycle", "when the line has its next turn: atomics, and reads among them, wait for it; with a fraction")
    taken = word("cycle", "that its atomics have taken so far, with a fraction")
    requests = word("atomics", "of them, one for each instruction of a warp")


class SliceQueue(Unit):
    """A slice's queue."""

    held = word("cycle", "until when it is held up, with a fraction")
    looked = word("", "the line of the last strong load of the device's scope, plus one")
    polled = word("", "the line of the last strong load of an SM of its side, plus one")
    awaited = word("", "the line, among those that atomics change, for which a read has waited last, plus one")
    accepted = word("cycle", "when it accepted its last atomic, less the way from the other side for one from there")
    waits = word("cycle", "until when atomics that need DRAM hold up one of its channels")
    busiest = word("", "the line whose atomics have taken most, plus one")
    busiest_taken = word("cycle", "that they have taken but for the last one, with a fraction")
    busiest_requests = word("atomics", "of them")
    atomics_taken = word("cycle", "that its atomics have taken but for the last one, with a fraction")
    atomics_last = word("cycle", "that the last one has taken, with a fraction")
    atomics_requests = word("atomics", "of them, one for each instruction of a warp")
    atomics_passes = word("passes", "of them")
    writes = parts(LastWrite, LAST_WRITES, "the last writes of some lines")
    atomics = parts(LineAtomics, LAST_WRITES, "the atomics on some lines")


# --- DRAM --------------------------------------------------------------------------------------------
class Channel(Unit, size=16):
    """A DRAM channel."""

    writes = word("sectors", "of queued writes")
    requests = word("requests", "of queued writes")
    refresh = word("refreshes", "done")
    batch = word("cycle", "beginning of the last batch of writes")
    written = word("cycle", "end of it")
    read = word("sectors", "read since then")
    queued = word("1/256 cycle", "of the bus for the queued writes")
    sectors_read = word("sectors", "read so far")
    sectors_written = word("sectors", "written so far")
    activations = word("rows", "opened so far")
    first = word("cycle", "of the first request, plus one")
    begun = word("cycle", "when it begins the last read that it was asked for")
    left = word("bursts or requests", "in the last batch of writes")
    full = word("cycle", "when the queue of writes was filled")
    held = word("cycle", "until which accesses to its lines wait for a batch of writes, because an atomic does")


WAITING_WRITES = 4
"""Writes of a channel that the model keeps in order, per place of its queue: those in the queue, and those that wait in L2 for a place."""


class QueuedWrite(Unit):
    """A place of a channel's queue of writes."""

    row = word("", "the row's number times the number of banks, plus the bank's number; negative: none")
    sectors = word("sectors", "to write")


# --- texture units (texture_unit.py) ----------------------------------------------------------------
class TextureUnit(Unit, size=16):
    """The texture unit of a GPC's SMs, before the lines of its cache."""

    free = word("1/256 cycle", "when it takes its next quad")
    out = word("1/256 cycle", "when its last result has left")
    busy = word("1/256 cycle", "for which it has looked up and filtered")
    quads = word("quads", "that it has served")
    hits = word("lines", "that its cache had")
    misses = word("lines", "that it lacked")
    l2_misses = word("lines", "of those, that the second cache lacked too")
    requests = word("instructions", "of warps")


T_LINE, T_STAMP, T_FILL = range(3)
"""A way of a texture cache: its line plus one, its last use, and its arrival."""
T_WORDS = 3
Q_LINES_SHIFT = 32
"""In the first word of a quad's record: cycles of the unit, and above them how many lines follow."""

# --- host threads (windows.py): each word in a line of the host of its own ---------------------------
PHASE_TICKET = 0  # of the phase that is open: its number, its kind and its next piece, which is beyond the last one when all are taken
PHASE_DONE = 8  # completed pieces of it
PHASE_END = 16  # of the window
PHASE_LEAVE = 24  # nonzero when helpers must end
PHASE_SLOTS = 32
TICKET_NUMBER, TICKET_KIND = 32, 24  # shifts
TICKET_PIECE = (1 << TICKET_KIND) - 1

# --- several devices at once (device_windows.py): the group's words, then a row for each device, in lines of the host of their own ---
DG_COUNT = 0  # devices
DG_HELPERS = 1  # host threads besides the one that runs the loop
DG_STEP = 8  # that is open
DG_DONE = 16  # devices that have done it
DG_LEAVE = 24  # nonzero when helpers must end
DG_WORDS = 32
DV_STATE, DV_PROGRAM = 0, 1  # host addresses of the device's state and instructions
DV_PERIOD = 2  # femtoseconds of a cycle
DV_RUNS = 3  # it has blocks left
DV_JOINS = 4  # 0: it has no window in the round
DV_REQUESTS = 5  # of that window, which are left for the groups of slices
DV_OUTCOME = 6  # of close_window
DV_TAKEN = 8  # 0: nobody has taken the open step
DV_WORDS = 16


class LoggedBlock(Unit):
    """One block of the log."""

    sm = word("", "on which it ran")
    start = word("cycle", "when it started")
    end = word("cycle", "when it ended")

"""An SM's region: the SM's own fields, its sub-cores, warp slots, block slots, calendars and scratch.

What depends on the chip or the program (requests, caches) follows at offsets that the header holds.
"""

from __future__ import annotations

from warpwright.engine.abi import BULK_WORDS, NAMED_BARRIERS
from warpwright.native.units import Unit, parts, word, words
from warpwright.timing.state.common import (
    CALENDAR_SLOTS,
    INF,
    MAX_BLOCK_WARPS,
    MAX_BLOCKS,
    MAX_SUB_CORES,
    MAX_WARPS,
    PIPE_COUNT,
)

RING = 8
"""Operations of a barrier whose ends a warp remembers, for DEPBAR.LE with a count."""
LINE_COUNT = 288  # of 64 lanes that name four words of local memory each
"""Maximum number of lines of one instruction in the coalescer."""
MAX_BULKS = 64
"""Bulk copies of an SM in one window."""
MAX_TELLS = 256
BULK_STORE_RING = 8
MAX_ATOMICS_IN_FLIGHT = 1024
DEPENDENCE_BARRIERS = 6
UNKNOWN_BITS = 10
"""Unit of ``Warp.sb_unknown`` for each of them: a warp issues fewer instructions per window than this."""


class SubCore(Unit):
    """A sub-core: its scheduler's slots, register banks, pipes and MIO queue."""

    last = word("", "slot that issued last, -1 after a yield", reset=-1)
    last_reuse = word("", "slot whose operands the register-file cache holds, -1: none", reset=-1)
    issue_free = word("cycle", "when the next instruction may issue")
    bank0 = word("cycle", "when each register bank's read port is free")
    bank1 = word("cycle", "of the second bank")
    bank2 = word("cycle", "of the third bank, on chips with four")
    bank3 = word("cycle", "of the fourth bank")
    mio_free = word("cycle", "when the queue can hand over its next instruction")
    mio_head = word("", "place of the queue's next instruction in its ring")
    free = word("bits", "free warp slots", reset=(1 << MAX_WARPS) - 1)
    product = word("cycle", "when the last tensor product was dispatched")
    product_reads = word("bits", "cycles after that in which it reads the banks")
    constant_head = word("", "place of the next LDC in its ring")
    barrier_head = word("", "place of the next arrival in the queue to the barriers' unit")
    product_end = word("cycle", "until when it makes any difference to what else is dispatched")
    paired = word("", "the instruction that has just issued may have the next one of its warp beside it")
    ready = words(MAX_WARPS, "cycle", "earliest issue of each slot's next instruction", reset=INF, align=16)
    pipe = words(MAX_WARPS, "", "the pipe that it needs")
    age = words(MAX_WARPS, "", "its turn among those that can issue: Warp.age, and since when it is ready << AGE_READY")
    pipe_free = words(PIPE_COUNT, "cycle", "when each pipe takes its next instruction")
    mio_queue = words(16, "cycle", "ring: when each of the last instructions left the queue")
    constant_queue = words(16, "cycle", "ring: when each of the last LDCs has its words")
    barrier_queue = words(8, "cycle", "ring: when the barriers' unit has taken each of the last arrivals")


GROUP_RING = 4
"""Groups of a warpgroup's products whose ends are kept: a wait that leaves more of them open does not wait."""


class Warp(Unit, align=8):
    """A warp slot; eight words are a cache line of the host, and the first three lines serve most issues."""

    pc = word("", "index of the next instruction")
    end = word("", "one past the last of its basic block")
    mask = word("bits", "active lanes of the basic block")
    last = word("cycle", "its last issue")
    reason = word("", "what the next instruction waits for (ST_)")
    earliest = word("cycle", "known part of its next issue time while something else is unknown")
    line = word("", "instruction line that it holds")
    slot = word("", "sub-core * 16 + slot")
    # the second line
    pos = word("words", "of its records that it has consumed")
    used = word("words", "of its records that there are")
    trace = word("host address", "its records")
    pending = word(
        "",
        "strong accesses that the serial phase has yet to execute, times two; 1 more: its basic block is foretold, no record yet",
    )
    barrier = word("", "1 + number of the block barrier at which it waits, and DEFERRED")
    fence = word("cycle", "latency of the fence that waits for writes, and flags (FENCE_); 0: none")
    release = word("cycle", "when its last block barrier lets it go on")
    restored = word("bits", "convergence registers that were restored after lanes were last put into them")
    early_clock = word("cycle", "at which it has read the clock after the barrier at which it still waits, or 0")
    age = word(
        "", "its turn among those that have been ready equally long: its block's << AGE_BLOCK | the last warp's first"
    )
    # the third
    sb_time = words(DEPENDENCE_BARRIERS, "cycle", "when operations whose end is known end")
    sb_unknown = word("operations", "whose end is not known, UNKNOWN_BITS for each dependence barrier")
    sb_long = word("bits", "of each dependence barrier: its last operation went to L1TEX")
    # needed by its function and basic blocks
    status = word("", "last status of its function")
    number = word("", "basic block")
    block_rows = word("index", "where its kernel's basic blocks begin in the table of the program")
    function = word("host address", "its kernel's warp function")
    pointer = word("host address", "its WARP structure")
    block = word("", "block slot")
    passes_end = word("cycle", "when the passes of its last memory instruction are over")
    look = word("cycle", "of the try_wait that is held back, 0: none")
    products = word("products", "of its warpgroup that it has issued")
    at_product = word("products", "of its warpgroup that it has come to")
    begun_products = word("products", "of its warpgroup for which the tensor cores have a time")
    product_end = word("cycle", "when the last of them is complete")
    groups = word("groups", "of products that end with one of them")
    group_end = words(GROUP_RING, "cycle", "ring: when each of the last groups is complete")
    active = word("", "a warp is in the slot and has not ended")
    started = word("cycle", "when it started")
    store_time = word("cycle", "when its last write was acknowledged")
    wrote = word("", "it has stored since its last fence")
    fenced = word("cycle", "when its last fence went on to the slices")
    step = word("", "the grid's step (grid_steps.py) in which it has last executed a strong access")
    polled = word("instructions", "of threads, in polls")
    stored = word("cycle", "when the load/store unit began with its last store")
    written_round = word("", "number of the round of its SM's fences with which its own leaves; 0: none")
    stores = word("", "writes of this window, not known yet")
    async_time = word("cycle", "when its asynchronous copies that are known end")
    async_copies = word("copies", "asynchronous ones whose end is not known")
    local = word("address", "physical base of its local memory")
    in_block = word("", "its number within its block")
    lanes = word("bits", "lanes that have not ended")
    drained = word("cycle", "when its last store or atomic has left the load/store unit")
    policy = word("", "access policy of its last memory record; 0: none (access_policy.py)")
    scoreboard = word("host address", "its scoreboard's first entry (scoreboard.py)")
    ring_count = words(DEPENDENCE_BARRIERS, "operations", "of each barrier so far")
    ring = words(DEPENDENCE_BARRIERS * RING, "cycle", "end of each operation in order, RING for a barrier")


class BlockSlot(Unit):
    """A block slot of an SM."""

    active = word("", "a block is in the slot")
    number = word("", "of the block in the grid")
    logged = word("", "its entry in the log")
    kernel = word("index", "its kernel's context")
    taken = word("", "a block is in the slot, or its end has not come to the dispatcher")
    place = word("", "its number among the places that the SM has for blocks of its kernel")
    live = word("warps", "that have not ended")
    started = word("cycle", "when it started")
    let_go = word("cycle", "when it let dependent grids begin; 0: it has not")
    counted = word("", "the dispatcher has taken note of that")
    cluster_time = word("cycle", "last arrival at the cluster's barrier")
    cluster_release = word("cycle", "when that last let the block's warps go on")
    drained = word("cycle", "when the writes of its ended warps have left")
    arrived = words(NAMED_BARRIERS, "lanes", "that arrived at each named barrier")
    votes = words(NAMED_BARRIERS, "", "running reduction of each named barrier")
    warps = words(MAX_BLOCK_WARPS, "", "warp slot of each warp")
    expected = words(NAMED_BARRIERS, "lanes", "that each named barrier waits for")


class EndedBlock(Unit):
    """A block that ended in this window."""

    time = word("cycle", "when it ended")
    slot = word("", "its block slot")


class SM(Unit, align=8):
    """The part of an SM's region whose layout is the same on every chip."""

    # fields that every window reads, in one cache line of the host
    index = word("", "number of the SM")
    next = word("cycle", "earliest time at which something can happen", reset=INF)
    error = word("", "a warp stopped for Python: its slot + 1")
    resident = word("blocks", "on the SM")
    requests = word("requests", "in this window")
    repeated = word("requests", "in this window that are not the first of their run (runs.py)")
    listed = word("requests", "of this window that are in the list of their GPC")
    listed_of_run = word("requests", "of the run after them that are there")
    done = word("blocks", "that ended in this window")
    waiters = word("waiters", "in this window")
    loads = word("loads", "in flight whose end is not known")
    stalls = word("index", "its GPC's table of stalls")
    passes = word("index", "its GPC's passes of patterns of lanes")
    let_go = word("blocks", "that let dependent grids begin in this window")
    patterns = word("index", "its GPC's lines of patterns of lanes")
    banks = word("index", "its GPC's scratch for banks")
    sub_next = words(
        MAX_SUB_CORES,
        "cycle",
        "of each sub-core, earliest time at which something can happen; INF of one that the chip lacks",
        reset=INF,
    )
    rotate = word("", "sub-core that gets the next warp")
    group_free = word("cycle", "when the tensor cores take the next product of a warpgroup")
    block_free = word("cycle", "when the next block may start")
    active_from = word("cycle", "since when the SM has had a block, -1: it has none", reset=-1)
    texture_free = word("cycle", "when the texture units take their next quads")
    miss_free = word("cycle", "when L1 makes the look-up that follows its last miss")
    fetch_free = word("cycle", "when the L1 instruction cache hands over its next line")
    fetch_l2_free = word("cycle", "when L2 takes its next request for instructions")
    reconsider = word("bits", "warp slots of which something became known")
    barrier_free = word("cycle", "when the barrier unit takes its next warp")
    convergence_free = word("cycle", "when the unit of the convergence barriers' registers takes its next warp")
    store_free = word("cycle", "until when writes wait for acknowledgements")
    atomics_sent = word("atomics", "that have left for L2, one for each line")
    atomics_served = word("atomics", "of them of which it is known when L2 accepts them")
    finish = word("cycle", "last end of a warp, last acknowledged write")
    # the dispatcher's fields (residency.py)
    l1_sets = word("sets", "of L1 that its set-up of shared memory leaves")
    setup = word("bytes", "of shared memory that it is set up for")
    taken = word("blocks", "that it has, or whose end has not come to the dispatcher")
    warps_used = word("warps", "of them")
    registers_used = word("registers", "that they take")
    shared_used = word("bytes", "of shared memory that they take")
    barriers_used = word("barriers", "that they take")
    written = word("cycle", "when the last of its writes and atomics was done")
    newest = word("", "turn of the latest kernel that has begun on it")
    # counters
    active = word("cycle", "for which the SM had a block")
    blocks_run = word("blocks", "that have run")
    instructions = word("instructions", "issued")
    threads = word("thread instructions", "issued")
    warp_cycles = word("cycle", "of resident warps, added up")
    global_loads = word("instructions", "that load from global memory")
    global_stores = word("instructions", "that store to it")
    global_atomics = word("instructions", "that change it")
    load_sectors = word("sectors", "of global loads")
    load_hits = word("sectors", "of global loads that hit L1")
    store_sectors = word("sectors", "of global stores")
    store_joined = word("sectors", "of them that joined a line in the store buffer")
    atomic_sectors = word("sectors", "of global atomics")
    local_loads = word("instructions", "that load from local memory")
    local_stores = word("instructions", "that store to it")
    local_sectors = word("sectors", "of local loads")
    local_hits = word("sectors", "of local loads that hit L1")
    shared_loads = word("instructions", "that load from shared memory")
    shared_stores = word("instructions", "that store to it")
    shared_wavefronts = word("wavefronts", "of shared memory")
    shared_ideal = word("wavefronts", "that they would be without conflicts")
    tag_lines = word("lines", "that L1's tag stage looked up")
    lsu_wavefronts = word("wavefronts", "of the load/store unit")
    fill_sectors = word("sectors", "that came from L2")
    fetch_misses = word("lines", "of instructions that L0 lacked")
    barriers = word("barriers", "of blocks that completed")
    ran = word("calls", "of the warp function")
    foretold_wrong = word("blocks", "of code that were foretold wrongly")
    bulks = word("copies", "in bulk issued in this window")
    bulk_free = word("cycle", "when the engine of bulk copies takes the next")
    bulk_stores = word("stores", "in bulk so far")
    bulk_store_free = word("cycle", "when the engine reads the next one's bytes")
    remote_port = word("1/256 cycle", "when the port for loads and atomics of clusters is free")
    remote_free = word("cycle", "when the SM has sent what it stored to others")
    tells = word("mbarriers", "of this SM to be told of bytes that are on their way")
    const_lines = word("lines", "of constants that L1.5 has handed over in this window")
    const_interval = word("cycle", "between two of them for an LDC of several words")
    operand_interval = word("cycle", "for an operand, ULDC or LDC of one word")
    operand_booked = word("cycle", "when L1.5 begins with the last of those")
    held_up = word("", "not 0: a warp of it waits only because an earlier strong access has not been executed yet")
    fences = word("fences", "of the last round")
    fence_round = word("cycle", "when that began or will begin")
    fence_end = word("cycle", "when its last fence is done")
    fence_turn = word("cycle", "when the last fences left for L2")
    store_time = word("cycle", "when the last of its writes was acknowledged")
    wrote = word("cycle", "when it last issued a store or an atomic")
    wrote_far = word("cycle", "when what it last wrote to a line with its home on the other side of L2 left")
    clean = word("cycle", "up to which what it wrote is ordered by a fence that is over")
    full_fence = word("cycle", "issue of the last fence for the device after something was written")
    full_fence_done = word("cycle", "when that fence is done")
    round_left = word("cycle", "when the last round of its fences left for the slices, or will leave")
    round_waits = word("cycles", "that it waits there")
    round_back = word("cycle", "when the next round may leave")
    round_fences = word("fences", "of the last round")
    fence_group = word("fences", "that left together")
    written_round = word("", "number of the last round of its fences after stores")
    written_open = word("cycle", "when the first fence of that round came to L1")
    written_leaves = word("cycle", "when that round leaves; INF: not known yet")
    written_before = word("cycle", "when the round before left")
    written_known = word("cycle", "at which it was known when the last round leaves")
    written_crosses = word("cycle", "by which that round returns later from the other side of L2")
    written_late = word("", "not 0: fences have come that leave with the next round")
    written_fences = word("fences", "that have left with the last round, or after it")
    stores_sent = word("lines", "of stores so far")
    stores_known = word("lines", "of them whose acknowledgements are known")
    fence_gap = word("cycle", "after them before the next may leave")
    fence_most = word("fences", "for the system that leave together in the last group; 0: any number")
    host_written = word("cycle", "when the last write to the host was acknowledged")
    peer_written = word("cycle", "when the last write to another device was acknowledged")
    posted = word("", "writes to other devices have left that no fence has asked about")
    atomics_left = words(MAX_ATOMICS_IN_FLIGHT, "cycle", "ring: until when the last atomics had their places")
    pipe_issues = words(PIPE_COUNT, "instructions", "issued to each pipe")
    ended = parts(EndedBlock, MAX_BLOCKS, "blocks that ended in this window")
    sub_cores = parts(SubCore, MAX_SUB_CORES, "sub-cores", align=8)
    warps = parts(Warp, MAX_SUB_CORES * MAX_WARPS, "warp slots, sub-core after sub-core")
    blocks = parts(BlockSlot, MAX_BLOCKS, "block slots")
    lsu_calendar = words(CALENDAR_SLOTS, "wavefronts", "calendar of the load/store unit")
    arrive_calendar = words(CALENDAR_SLOTS, "cycles", "calendar of arrivals at mbarriers")
    look_calendar = words(CALENDAR_SLOTS, "cycles", "calendar of looks at their phases")
    fill_calendar = words(CALENDAR_SLOTS, "sectors", "calendar of L1's fills")
    return_calendar = words(CALENDAR_SLOTS, "passes", "calendar of the passes of loads whose lines come from L2")
    lines = words(LINE_COUNT, "", "of an instruction, as the coalescer finds them: their numbers")
    line_sectors = words(LINE_COUNT, "bits", "their sectors")
    line_bytes = words(LINE_COUNT, "bytes", "that they cover")
    line_words = words(LINE_COUNT, "words", "that they touch")
    const_port = words(CALENDAR_SLOTS, "cycle", "calendar of LDC's unit")
    const_fill = words(CALENDAR_SLOTS, "cycle", "calendar of L1.5")
    bulk_records = words(MAX_BULKS * BULK_WORDS, "", "records of this window's bulk copies")
    tell_records = words(MAX_TELLS * 3, "", "time, mbarrier and bytes of those to be told")
    bulk_store_ends = words(BULK_STORE_RING, "cycle", "ring: when the last bulk stores were read")

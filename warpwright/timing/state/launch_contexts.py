"""Contexts of the launches that the machine runs, which blocks and warps refer to."""

from __future__ import annotations

from warpwright.native.units import Unit, word, words

MAX_KERNELS = 60
"""Launches of one machine: each is a bit of ``Kernel.needs``."""
HOST_BIT = 1 << 61
"""In ``Kernel.needs``: the launch waits for work of the host."""


class Kernel(Unit, align=8):
    """One launch: its code, its grid, the SM's resources that a block needs, and the host addresses of its blocks and warps."""

    function = word("host address", "the warp function")
    block_rows = word("index", "where its basic blocks begin in the table of the program")
    launch = word("host address", "the LAUNCH structure")
    blocks = word("blocks", "of the grid")
    next_block = word("", "number of the block that starts next")
    done_blocks = word("blocks", "that have ended")
    grid_x = word("blocks", "of the grid, first axis")
    grid_y = word("blocks", "of the grid, second axis")
    cluster_blocks = word("blocks", "of a cluster")
    cluster_x = word("blocks", "of a cluster, first axis")
    cluster_y = word("blocks", "of a cluster, second axis")
    clusters_x = word("clusters", "of the grid, first axis")
    clusters_y = word("clusters", "of the grid, second axis")
    blocks_per_sm = word("blocks", "that an idle SM holds")
    warps_per_block = word("warps", "of a block")
    threads_per_block = word("threads", "of a block")
    block_base = word("host address", "the first BLOCK structure")
    warp_base = word("host address", "the first WARP structure")
    warp_stride = word("bytes", "from one WARP to the next")
    spill_offset = word("bytes", "from a WARP to its save area")
    spill_bytes = word("bytes", "of the save area that each warp finds zeroed")
    shared_base = word("host address", "shared memory of the first block")
    shared_stride = word("bytes", "from one block's shared memory to the next")
    shared_bytes = word("bytes", "of shared memory of a block")
    first_places = word("index", "the SM of each first block, where the chip is idle")
    first_blocks = word("blocks", "that an idle chip takes at first")
    block_log = word("index", "its blocks in the log")
    logged_blocks = word("blocks", "that the log has room for")
    window_first = word("line", "the first one of its access-policy window")
    window_end = word("line", "one past the window's last; the window is empty without one")
    window_share = word("1/65536", "of the window's lines that get its first property")
    window_hit = word("", "what accesses ask for them (access_policy.py)")
    window_miss = word("", "what they ask for the window's others")
    # beside other kernels
    number = word("", "its place among the kernels")
    waited = word("cycle", "at which it may begin, if known: its earliest one, or the end of a preceding kernel")
    begins = word("cycle", "of its launch; INF: not known yet")
    gap = word("cycle", "from the end of the last kernel that it waits for to its launch, or from the machine's first")
    needs = word("bits", "kernels that must have ended before it begins")
    early = word("bits", "of those, kernels whose blocks need only have let their dependents begin, or have ended")
    awaits = word("bits", "kernels that must have ended before its warps pass a grid_wait")
    released = word("cycle", "when the last of them lets its warps go on")
    let_go_blocks = word("blocks", "that have let dependents begin, or have ended")
    let_go = word("cycle", "when the last of them has")
    delays = words(MAX_KERNELS, "cycles", "from the end of each of those on that it waits")
    arrived = word("", "its turn among those that have come to the dispatcher, from 1 on; 0: it has not")
    priority = word("", "blocks of higher ones go first")
    client = word("", "the process that it belongs to, among those that share the chip")
    most_sms = word("SMs", "that the client's blocks may be on at once; 0: all")
    finish = word("cycle", "end of its last block so far; with the last of its writes when all have ended")
    settles = word(
        "windows", "until its last writes are known to be done; 0: no block has ended that was the last, or they are"
    )
    ran_on = words(16, "bits", "SMs that had blocks of it")
    instructions = word("instructions", "of warps that have ended")
    thread_instructions = word("instructions", "of their threads")
    registers = word("registers", "that a block takes of an SM")
    shared_need = word("bytes", "that it takes of an SM's shared memory, the system's part included")
    least_setup = word("bytes", "of shared memory that an SM in use must be set up for to take its blocks")
    setup = word("bytes", "of shared memory that an idle SM is set up for")
    l1_sets = word("sets", "of L1 that this leaves")
    barriers = word("barriers", "that a block takes of an SM")
    code_first = word("line", "its first line of code")
    code_lines = word("lines", "of it that the launch brings to L1.5")

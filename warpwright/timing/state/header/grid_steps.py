"""Steps of a grid between its barriers."""

from __future__ import annotations

from warpwright.native.units import Unit, word, words
from warpwright.timing.state.common import MAX_PATTERN, STEP_ENDS


class GridStepWords(Unit):
    """Steps between grid barriers, timed and untimed (``timing/grid_steps.py``)."""

    grid_barrier = word(
        "host address",
        "of the 8 bytes whose highest bit changes when the grid passes a barrier; 0: steps are not followed",
    )
    grid_word = word("address", "of these bytes on the device")
    grid_bit = word("", "its value after the last barrier")
    grid_steps = word("steps", "that have ended")
    step_ends = words(STEP_ENDS, "cycle", "when the last of them ended")
    step_left = word("cycle", "when the last warp so far has made its first strong access of the present step")
    step_leaves = words(
        STEP_ENDS,
        "cycles",
        "from the end of the step before each of them until the last warp's first strong access in it",
    )
    step_work = words(STEP_ENDS, "instructions", "of threads that the grid had executed when each of them ended")
    pattern_steps = word("steps", "after which they repeat")
    pattern_cycles = words(MAX_PATTERN, "cycles", "of each of these steps")
    pattern_work = words(MAX_PATTERN, "instructions", "of threads in each of them")
    pattern_leaves = word("cycles", "of a step until the last block has left the barrier before it, on average")
    rest_begun = word("", "the rest of the launch runs untimed")
    rest_clock = word("cycle", "that untimed warps read from the clock")
    rest_lead = word("cycles", "of the first untimed step that had been timed")
    rest_steps = word("steps", "that have run untimed")
    rest_work = word("instructions", "of threads in the present one")
    rest_corrected = word("cycles", "by which untimed steps are longer or shorter than the pattern, in all")

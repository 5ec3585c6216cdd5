"""The machine's state: one flat int64 array, every field with a name.

The array begins with the header (``H_``: the chip's numbers, where areas begin, chip-wide state), then one
region for each SM, then L2 and DRAM.  A region begins with fields at fixed places:
the SM's scalars (``SM_``), its sub-cores (``SC_``), warp slots (``W_``), block slots (``B_``) and scratch; what depends on
the chip or the program (requests, cache tags, instruction lines) follows at offsets that the header holds.

Times are SM cycles since the launch began.  ``INF`` means "not known yet" or "never".
One array and not seventy: a tuple of arrays made the model 2.8 to 36 times slower.
"""

# One namespace: a unit reads the fields of its neighbours as ``s.NAME``, wherever they are listed.
from warpwright.timing.state.buffer import State as State
from warpwright.timing.state.buffer import counted as counted
from warpwright.timing.state.buffer import dram_counted as dram_counted
from warpwright.timing.state.chip import *  # noqa: F403
from warpwright.timing.state.common import *  # noqa: F403
from warpwright.timing.state.memory_system import *  # noqa: F403
from warpwright.timing.state.program_tables import *  # noqa: F403
from warpwright.timing.state.sm import *  # noqa: F403

"""The machine's state: one flat array of int64, and units that declare their fields once (``native/units.py``).

The array begins with the header (``chip``: the chip's numbers, where areas begin, chip-wide state), then one region for each SM
(``SM``, with its ``SubCore``, ``Warp`` and ``BlockSlot`` parts), then L2 and DRAM.  A unit's value is the index of its first
word, so that ``m[sm.finish]`` is a field of an SM; what depends on the chip or the program (requests, cache tags, instruction
lines) follows an SM's region at offsets that the header holds.

Times are SM cycles since the launch began.  ``INF`` means "not known yet" or "never".
One array and not seventy: a tuple of arrays made the model 2.8 to 36 times slower.
"""

# One namespace: a unit reads the fields of other units as ``s.Name``, wherever they are declared.
from warpwright.engine.abi import NAMED_BARRIERS as NAMED_BARRIERS
from warpwright.timing.state.buffer import State as State
from warpwright.timing.state.buffer import counted as counted
from warpwright.timing.state.buffer import dram_counted as dram_counted
from warpwright.timing.state.common import *  # noqa: F403
from warpwright.timing.state.header import Header as Header
from warpwright.timing.state.header import chip as chip
from warpwright.timing.state.header.declarations import Derived as Derived
from warpwright.timing.state.header.declarations import OfChip as OfChip
from warpwright.timing.state.launch_contexts import HOST_BIT as HOST_BIT
from warpwright.timing.state.launch_contexts import MAX_KERNELS as MAX_KERNELS
from warpwright.timing.state.launch_contexts import Kernel as Kernel
from warpwright.timing.state.memory_system import *  # noqa: F403
from warpwright.timing.state.program_tables import *  # noqa: F403
from warpwright.timing.state.sm import *  # noqa: F403

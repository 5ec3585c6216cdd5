"""Virtual functions of one simulated card (SR-IOV), each used by a process of its own.

``registers.py`` has the register page of a function, with its doorbell, and the rings in which commands go to the card; ``guest.py`` is what a process
sees of its function, ``card.py`` the card with its functions, which runs the processes.

Imports nothing above ``sharing`` and ``mig``.
"""

from warpwright.vgpu.card import VirtualizedGPU
from warpwright.vgpu.guest import GuestArray, GuestRun, VirtualFunction
from warpwright.vgpu.registers import GuestError

__all__ = ["GuestArray", "GuestError", "GuestRun", "VirtualFunction", "VirtualizedGPU"]

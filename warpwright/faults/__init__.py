"""Errors of the hardware: bits that flip, the codes that find them, and what the chip and its driver do then.

``secded`` is the code; ``injection`` says which bits flip, and when; ``device_faults`` holds a device's flipped words, counters, remapped rows and
off-lined pages; ``sm_faults`` and ``injected_launch`` run a launch with them; ``particles`` draws flips by rates and by a flux of neutrons.
Facts about the reaction of the driver are NVIDIA's "GPU Memory Error Management" and "XID Errors" (docs.nvidia.com/deploy), and the A100 whitepaper's
"ECC Memory Resiliency" and "Error and Fault Detection, Isolation, and Containment".  Imports the engine, and nothing above it.
"""

from warpwright.faults.device_faults import DeviceFaults
from warpwright.faults.error_counters import UncorrectableEccError
from warpwright.faults.injection import Injection, InjectionError, parse_injections

__all__ = ["DeviceFaults", "Injection", "InjectionError", "UncorrectableEccError", "parse_injections"]

"""Access-policy windows of streams, launches and kernel nodes, and the part of L2 that is set aside.

The driver's structure is ``CUaccessPolicyWindow``: an address, a number of bytes, the hit ratio, and the properties of
the lines that hit and miss.  A window of zero bytes counts as none.
"""

from __future__ import annotations

import struct

from warpwright.driver import results
from warpwright.driver.cuda_error import CudaError
from warpwright.engine.access_policy import LARGEST_WINDOW_BYTES, AccessProperty, AccessWindow

WINDOW = 1
"""CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW."""
_LAYOUT = "<QQfII"


def window_of(raw: bytes | None) -> AccessWindow | None:
    """The window that an attribute's value describes; None if it has no bytes, or none was set.

    Raises:
        CudaError: a property that does not exist, a hit ratio beyond 0 to 1, or a window that is too large.
    """
    if raw is None:
        return None
    address, size, ratio, hit, miss = struct.unpack_from(_LAYOUT, raw)
    if not size:
        return None
    if size > LARGEST_WINDOW_BYTES or not 0.0 <= ratio <= 1.0 or hit > 3 or miss == AccessProperty.PERSISTING:
        raise CudaError(results.INVALID_VALUE)
    # A card takes 3 for either (``bench.machine.l2_policies limits``); its meaning is not documented, so such lines are normal ones here.
    hit, miss = (AccessProperty(n) if n <= AccessProperty.PERSISTING else AccessProperty.NORMAL for n in (hit, miss))
    return AccessWindow(address, size, ratio, hit, miss)

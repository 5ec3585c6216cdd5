"""Code that belongs to no context: placed on a device when it is first used there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpwright.driver.driver_state import Device, in_context, state

if TYPE_CHECKING:
    from warpwright.driver.functions import LoadedImage


class PlacedCode:
    """An image on every device that has used it."""

    def __init__(self) -> None:
        self.images: dict[Device, LoadedImage] = {}

    def place(self) -> LoadedImage:
        """Load it on the calling thread's device, in the current context."""
        raise NotImplementedError

    def here(self) -> LoadedImage:
        """The image on the calling thread's device: in the current context, or in the device's primary one."""
        s = state()
        device = s.device
        found = self.images.get(device)
        if found is None or not found.alive:
            with in_context(s.current() if s.stack else device.primary):
                found = self.images[device] = self.place()
        return found

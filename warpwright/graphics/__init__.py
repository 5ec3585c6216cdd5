"""The graphics pipeline of Tesla (G80): command streams, copies, fixed-function stages, and shader programs between them.

Work enters as words of a pushbuffer (``pushbuffer.py``), which a drop-in of the kernel's interface hands over
(``driver/drm``) or a recording holds (``recording.py``).  Methods write registers of four engines; some of them start
work.  Modules here import the ISAs and engines, and nothing from ``driver``.

``warpwright.graphics.Context`` writes command streams from Python (``context.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpwright.graphics.context import Context

__all__ = ["Context"]


def __getattr__(name: str) -> Any:
    if name == "Context":
        from warpwright.graphics.context import Context

        return Context
    raise AttributeError(f"module 'warpwright.graphics' has no attribute {name!r}")

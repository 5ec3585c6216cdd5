"""Offsets of the fields of a texture object's row and of its levels, for compiled code (``table.py`` has the row)."""

from __future__ import annotations

from warpwright.engine.textures.table import LEVEL_SLOTS, ROW

ROW_BYTES = ROW.size_bytes
HANDLE, PURPOSE, AXES, LAYERS = ROW["handle"], ROW["purpose"], ROW["axes"], ROW["layers"]
KIND, CHANNEL_BYTES, CHANNELS = ROW["kind"], ROW["channel_bytes"], ROW["channels"]
CUBE, NORMALIZED, AS_INTEGER, SRGB_FLAG = ROW["cube"], ROW["normalized"], ROW["as_integer"], ROW["srgb"]
LINEAR, MIP_LINEAR, IS_BUFFER, ADDRESS = ROW["linear"], ROW["mip_linear"], ROW["buffer"], ROW["address"]
BORDER_ELEMENT, BIAS, LEAST, MOST = ROW["border_element"], ROW["bias"], ROW["least"], ROW["most"]
LEVELS, LEVEL = ROW["levels"], ROW["level"]
LEVEL_BYTES = 8 * LEVEL_SLOTS
LEVEL_ADDRESS, LEVEL_ROW, LEVEL_SLICE = 24, 32, 40
"""Offset of a field within a level; the sizes come first."""

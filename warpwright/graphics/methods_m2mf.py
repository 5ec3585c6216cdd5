"""Methods of the memory-to-memory class 0x5039: offsets and names as documented in envytools' rnndb."""

from __future__ import annotations

from warpwright.graphics.methods import MethodTable, Row

CLASS = 0x5039
ROWS: tuple[Row, ...] = (
    (0x0100, "NOP"),
    (0x0104, "NOTIFY"),
    (0x0110, "SERIALIZE"),
    (0x0180, "DMA_NOTIFY"),
    (0x0184, "DMA_BUFFER_IN"),
    (0x0188, "DMA_BUFFER_OUT"),
    (0x0200, "LINEAR_IN"),
    (0x0204, "TILING_MODE_IN"),
    (0x0208, "TILING_PITCH_IN"),
    (0x020C, "TILING_HEIGHT_IN"),
    (0x0210, "TILING_DEPTH_IN"),
    (0x0214, "TILING_POSITION_IN_Z"),
    (0x0218, "TILING_POSITION_IN"),
    (0x021C, "LINEAR_OUT"),
    (0x0220, "TILING_MODE_OUT"),
    (0x0224, "TILING_PITCH_OUT"),
    (0x0228, "TILING_HEIGHT_OUT"),
    (0x022C, "TILING_DEPTH_OUT"),
    (0x0230, "TILING_POSITION_OUT_Z"),
    (0x0234, "TILING_POSITION_OUT"),
    (0x0238, "OFFSET_IN_HIGH"),
    (0x023C, "OFFSET_OUT_HIGH"),
    (0x030C, "OFFSET_IN"),
    (0x0310, "OFFSET_OUT"),
    (0x0314, "PITCH_IN"),
    (0x0318, "PITCH_OUT"),
    (0x031C, "LINE_LENGTH_IN"),
    (0x0320, "LINE_COUNT"),
    (0x0324, "FORMAT"),
    (0x0328, "BUF_NOTIFY"),
)
TABLE = MethodTable("the memory-to-memory class (0x5039)", ROWS)

"""The 2D class 0x502D: uploads of words from the command stream, and blits between surfaces without scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpwright.graphics import methods_2d
from warpwright.graphics.conditions import holds
from warpwright.graphics.formats import Format, colour_format, decode, encode
from warpwright.graphics.methods import Handler, RegisterEngine
from warpwright.graphics.pushbuffer import Words
from warpwright.graphics.surface_layout import Layout, check, linear, read_elements, tiled, write_elements
from warpwright.graphics.video_memory import VideoMemory

if TYPE_CHECKING:
    from warpwright.graphics.timed.timer import GraphicsTimer

_SRCCOPY, _ROP, _SRCCOPY_PREMULT = 3, 4, 5
_PATTERN_SELECTS = 0xCA
"""ROP: the source where the pattern's bits are set, otherwise the destination."""
_A8R8G8B8 = 2
_MOST_PIXELS = 1 << 27
"""An upper bound: larger than the memory of any of these chips."""


class Engine2D(RegisterEngine):
    """Starts an upload when SIFC_DST_Y_INT is written, and a blit when BLIT_SRC_Y_INT is."""

    def __init__(self, memory: VideoMemory) -> None:
        handlers: dict[str, Handler] = {
            "SIFC_DST_Y_INT": self._start_upload,
            "SIFC_DATA": self._upload,
            "BLIT_SRC_Y_INT": self._blit,
        }
        super().__init__(methods_2d.TABLE, handlers)
        self.memory = memory
        self.timer: GraphicsTimer | None = None
        """Times uploads and blits."""
        self._received: list[Words] = []
        self._left = 0

    def _surface(self, side: str) -> tuple[Layout, Format, int]:
        """Layout, format and first slice of the destination (``DST``) or the source (``SRC``)."""
        form = colour_format(self[f"{side}_FORMAT"], f"2D {side}_FORMAT")
        address, rows = self.address(f"{side}_ADDRESS_HIGH"), self[f"{side}_HEIGHT"]
        if self[f"{side}_LINEAR"]:
            return linear(address, self[f"{side}_PITCH"], rows), form, 0
        width, mode = self[f"{side}_WIDTH"] * form.size, self[f"{side}_BLOCK_DIMENSIONS"]
        return tiled(address, width, mode, rows, self[f"{side}_DEPTH"]), form, self[f"{side}_LAYER"]

    # --- uploads --------------------------------------------------------------------------------------
    def _start_upload(self, method: int, words: Words) -> None:
        if self["SIFC_BITMAP_ENABLE"]:
            raise self.refuse("SIFC_BITMAP_ENABLE", 1, "uploads have full colours")
        steps = ("SIFC_DX_DU_FRACT", 0), ("SIFC_DX_DU_INT", 1), ("SIFC_DY_DV_FRACT", 0), ("SIFC_DY_DV_INT", 1)
        for name, wanted in steps:
            if self[name] != wanted:
                raise self.refuse(name, self[name], "uploads are not scaled")
        size = colour_format(self["SIFC_FORMAT"], "2D SIFC_FORMAT").size
        row_words = -(-self["SIFC_WIDTH"] * size // 4)
        self._check_size("SIFC_WIDTH", self["SIFC_WIDTH"], self["SIFC_HEIGHT"])
        self._received, self._left = [], row_words * self["SIFC_HEIGHT"]

    def _check_size(self, name: str, width: int, height: int) -> None:
        if width * height > _MOST_PIXELS:
            raise self.refuse(name, width, f"with a height of {height} it is more than memory holds")

    def _upload(self, method: int, words: Words) -> None:
        taken = words[: self._left]
        self._received.append(taken.copy())
        self._left -= len(taken)
        if self._left or not len(taken):
            return
        layout, form, z = self._surface("DST")
        source = colour_format(self["SIFC_FORMAT"], "2D SIFC_FORMAT")
        width, height = self["SIFC_WIDTH"], self["SIFC_HEIGHT"]
        rows = np.concatenate(self._received).view(np.uint8).reshape(height, -1)
        self._received = []
        elements = rows[:, : width * source.size].reshape(height, width, source.size)
        if source.number != form.number:
            elements = encode(decode(elements, source), form)
        left, top = self["SIFC_DST_X_INT"], self["SIFC_DST_Y_INT"]
        sides = (left * form.size, (left + width) * form.size - 1), (top, top + height - 1)
        base = check(self.memory, layout, *sides, z, "a 2D upload")
        x, y = left + np.arange(width), top + np.arange(height)
        write_elements(self.memory, base, layout.offsets(x * form.size, y[:, None], z), elements)
        if self.timer is not None:
            # The words are in the command stream, which the front end fetches.
            self.timer.copied("upload", None, (layout.address, elements.size), words=rows.size // 4)

    # --- blits ----------------------------------------------------------------------------------------
    def _steps(self, length: int, names: tuple[str, str, str, str]) -> npt.NDArray[np.int64]:
        """Positions in the source along one axis."""
        step_fraction, step, start_fraction, start = (self[name] for name in names)
        signed = step - (1 << 32) if step >> 31 else step
        if step_fraction or abs(signed) != 1:
            raise self.refuse(names[1], f"{signed} + {step_fraction}/2**32", "blits are not scaled")
        first = (start - (1 << 32) if start >> 31 else start) + (start_fraction >> 31)
        return first + signed * np.arange(length)

    def _blit(self, method: int, words: Words) -> None:
        if not holds(self, self.memory):
            return
        target, target_format, target_z = self._surface("DST")
        source, source_format, source_z = self._surface("SRC")
        width, height = self["BLIT_DST_W"], self["BLIT_DST_H"]
        self._check_size("BLIT_DST_W", max(width, 1), max(height, 1))
        x, y = self["BLIT_DST_X"] + np.arange(width), self["BLIT_DST_Y"] + np.arange(height)
        u = self._steps(width, ("BLIT_DU_DX_FRACT", "BLIT_DU_DX_INT", "BLIT_SRC_X_FRACT", "BLIT_SRC_X_INT"))
        v = self._steps(height, ("BLIT_DV_DY_FRACT", "BLIT_DV_DY_INT", "BLIT_SRC_Y_FRACT", "BLIT_SRC_Y_INT"))
        if self["CLIP_ENABLE"]:
            left, top = self["CLIP_X"], self["CLIP_Y"]
            in_x = (x >= left) & (x < left + self["CLIP_W"])
            in_y = (y >= top) & (y < top + self["CLIP_H"])
            x, u, y, v = x[in_x], u[in_x], y[in_y], v[in_y]
        # Beyond the source's edges, the edge elements are repeated.
        u, v = np.clip(u, 0, self["SRC_WIDTH"] - 1), np.clip(v, 0, self["SRC_HEIGHT"] - 1)
        if not len(x) or not len(y):
            return
        size = source_format.size
        sides = (int(u.min()) * size, (int(u.max()) + 1) * size - 1), (int(v.min()), int(v.max()))
        base = check(self.memory, source, *sides, source_z, "a blit (from)")
        elements = read_elements(self.memory, base, source.offsets(u * size, v[:, None], source_z), size)
        elements = self._converted(elements, source_format, target_format)
        size = target_format.size
        sides = (int(x[0]) * size, (int(x[-1]) + 1) * size - 1), (int(y[0]), int(y[-1]))
        base = check(self.memory, target, *sides, target_z, "a blit (to)")
        to = target.offsets(x * size, y[:, None], target_z)
        elements = self._combined(elements, base, to, target_format)
        write_elements(self.memory, base, to, elements)
        if self.timer is not None:
            read = len(x) * len(y) * source_format.size
            self.timer.copied("blit", (source.address, read), (target.address, elements.size))

    def _converted(self, elements: npt.NDArray[np.uint8], source: Format, target: Format) -> npt.NDArray[np.uint8]:
        operation = self["OPERATION"]
        if operation == _SRCCOPY_PREMULT:
            colours = decode(elements, source)
            beta = self["BETA4"]
            # A8R8G8B8: one factor per channel.
            factors = np.array(
                [beta >> 16 & 255, beta >> 8 & 255, beta & 255, beta >> 24], dtype=np.float32
            ) / np.float32(255)
            return encode(colours * factors, target)
        if operation not in (_SRCCOPY, _ROP):
            raise self.refuse("OPERATION", operation, "blits copy (3), combine by ROP 0xCA (4) or scale channels (5)")
        if source.number == target.number or (source.size == target.size and source.channels == target.channels):
            return elements
        return encode(decode(elements, source), target)

    def _combined(
        self, elements: npt.NDArray[np.uint8], base: int, offsets: npt.NDArray[np.int64], form: Format
    ) -> npt.NDArray[np.uint8]:
        """Apply the raster operation; drivers only use a constant pattern that selects bits."""
        if self["OPERATION"] != _ROP:
            return elements
        chosen = self.at("PATTERN_BITMAP_COLOR", 1)
        whole = self.at("PATTERN_BITMAP", 0) & self.at("PATTERN_BITMAP", 1) == 0xFFFFFFFF
        if self["ROP"] != _PATTERN_SELECTS or self["PATTERN_COLOR_FORMAT"] != _A8R8G8B8 or not whole or form.size != 4:
            raise self.refuse("ROP", self["ROP"], "only 0xCA with a constant pattern on elements of 32 bits is")
        before = read_elements(self.memory, base, offsets, form.size).view(np.uint32)
        mask = np.uint32(chosen)
        return (elements.view(np.uint32) & mask | before & ~mask).view(np.uint8)

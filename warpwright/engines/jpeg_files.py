"""What a JPEG file is: its size, sampling and coding, from the markers before its first scan (ITU-T T.81, annex B)."""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.errors import ArgumentError

_START, _SCAN, _END = 0xD8, 0xDA, 0xD9
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""SOF0 to SOF15; the three others among them are tables."""
_ALONE = frozenset((0x01, *range(0xD0, 0xD8)))
"""Markers without a length."""
BASELINE, EXTENDED = 0xC0, 0xC1
_PROCESSES = {0xC2: "progressive", 0xC3: "lossless", 0xC9: "arithmetic", 0xCA: "arithmetic, progressive"}
BLOCK = 8
"""Samples along a side of a block."""


@dataclass(frozen=True, slots=True)
class JpegFile:
    """An image as its file describes it."""

    width: int
    height: int
    bits: int
    """Of a sample."""
    frame: int
    """The marker of its frame, which names the coding: ``BASELINE`` or ``EXTENDED`` where it is sequential with Huffman codes."""
    sampling: tuple[tuple[int, int], ...]
    """Of each component: blocks across and down in one minimum coded unit."""
    scan_components: int
    """Of the first scan."""

    @property
    def coding(self) -> str:
        """The coding in words."""
        if self.frame in (BASELINE, EXTENDED):
            return "sequential"
        return _PROCESSES.get(self.frame, f"SOF{self.frame - BASELINE}")

    @property
    def format(self) -> str:
        """``400``, ``420``, ``422``, ``444``; empty for other samplings."""
        if len(self.sampling) == 1:
            return "400"
        luma, *chroma = self.sampling
        if len(chroma) != 2 or chroma[0] != chroma[1] or luma[0] % chroma[0][0] or luma[1] % chroma[0][1]:
            return ""
        steps = luma[0] // chroma[0][0], luma[1] // chroma[0][1]
        return {(1, 1): "444", (2, 1): "422", (2, 2): "420"}.get(steps, "")

    @property
    def samples(self) -> tuple[int, int]:
        """Samples of luma and of both chroma components that are coded: of whole minimum coded units."""
        if len(self.sampling) == 1:
            # A scan of one component has whole blocks.
            blocks = -(-self.width // BLOCK) * -(-self.height // BLOCK)
            return blocks * BLOCK * BLOCK, 0
        across, down = (max(sides) for sides in zip(*self.sampling, strict=True))
        units = -(-self.width // (BLOCK * across)) * -(-self.height // (BLOCK * down))
        luma, *chroma = (units * h * v * BLOCK * BLOCK for h, v in self.sampling)
        return luma, sum(chroma)


def read_jpeg(data: bytes, name: str) -> JpegFile:
    """What a file is.

    Raises:
        ArgumentError: it is no JPEG file, or ends before its first scan.
    """
    if data[:2] != bytes((0xFF, _START)):
        raise ArgumentError(f"{name} is not a JPEG file: it begins with {data[:4].hex(' ') or 'nothing'}, not ff d8")
    at = 2
    frame: tuple[int, bytes] | None = None
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker in _ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker == _END:
            break
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        segment = data[at + 4 : at + 2 + length]
        if marker in _FRAMES:
            frame = marker, segment
        elif marker == _SCAN and frame is not None and segment:
            return _described(*frame, segment[0], name)
        at += 2 + max(length, 2)
    raise ArgumentError(
        f"{name} is not a complete JPEG file: it has no {'scan' if frame else 'frame'} within {len(data):,} bytes"
    )


def _described(marker: int, segment: bytes, scan_components: int, name: str) -> JpegFile:
    count = segment[5] if len(segment) > 5 else 0
    if not count or len(segment) < 6 + 3 * count:
        raise ArgumentError(f"{name} is not a complete JPEG file: its frame header has {len(segment)} bytes")
    sampling = tuple((segment[7 + 3 * i] >> 4, segment[7 + 3 * i] & 15) for i in range(count))
    height, width = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big")
    if not width or not height or any(not h or not v for h, v in sampling):
        raise ArgumentError(f"{name} is not a JPEG file that can be decoded: it has {width} x {height} pixels")
    return JpegFile(width, height, segment[0], marker, sampling, scan_components)

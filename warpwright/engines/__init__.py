"""Fixed-function engines of a GPU: ``gpu.jpeg``, ``gpu.video`` and ``gpu.optical_flow``.

``timeline.py`` is their clock, on which kernels and copies are too; ``jpeg_files.py`` reads what a JPEG file is, ``jpeg.py`` decodes
it; ``video_streams.py`` and ``video.py`` do so for videos; ``optical_flow.py`` finds vectors and disparities (``flow_vectors.py``).  ``jobs.py`` is what jobs have in common.
Results are those of public libraries (the extra ``engines``); times follow from the chip file's section ``[engines]``.

Imports nothing above ``arrays``.
"""

from warpwright.engines.jpeg import JpegDecoder, JpegJob
from warpwright.engines.optical_flow import FlowJob, OpticalFlow
from warpwright.engines.timeline import Timeline
from warpwright.engines.video import VideoDecoder, VideoJob
from warpwright.engines.video_streams import VideoStream

__all__ = ["FlowJob", "JpegDecoder", "JpegJob", "OpticalFlow", "Timeline", "VideoDecoder", "VideoJob", "VideoStream"]

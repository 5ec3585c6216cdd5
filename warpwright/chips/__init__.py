"""Chips as data: one TOML file per chip, read by ``chip_files.py`` into the typed record of ``chip.py``, whose units are in ``sections.py``.

``kinds.py`` lists how a number can be known, ``limits.py`` what it may be; ``occupancy.py`` counts resident blocks, ``partition.py``
makes parts of a chip.

Imports nothing from the rest of the package.
"""

from warpwright.chips.chip import Chip, ChipError, describe, kind_counts
from warpwright.chips.chip_files import chip_names, load_chip
from warpwright.chips.occupancy import Occupancy, OccupancyError, occupancy
from warpwright.chips.partition import Partition, partition

__all__ = [
    "Chip",
    "ChipError",
    "Occupancy",
    "OccupancyError",
    "Partition",
    "chip_names",
    "describe",
    "kind_counts",
    "load_chip",
    "occupancy",
    "partition",
]

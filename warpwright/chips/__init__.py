"""Chips as data: one TOML file a chip, read by ``chip.py`` into the typed record whose units are in ``sections.py``; ``occupancy.py`` counts resident blocks.

Imports nothing from the rest of the package.
"""

from warpwright.chips.chip import Chip, ChipError, chip_names, describe, load_chip
from warpwright.chips.occupancy import Occupancy, OccupancyError, occupancy

__all__ = ["Chip", "ChipError", "Occupancy", "OccupancyError", "chip_names", "describe", "load_chip", "occupancy"]

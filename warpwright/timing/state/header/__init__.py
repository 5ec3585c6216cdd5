"""Chip-wide state: the chip's numbers, offsets of areas, the launch, and what all units share.

One module for each unit of ``timing/`` declares its words; ``Header`` has them one after the other.
"""

from warpwright.timing.state.header.clusters import ClusterWords
from warpwright.timing.state.header.coherent_host import CoherentHostWords
from warpwright.timing.state.header.constant import ConstantWords
from warpwright.timing.state.header.crossbar import CrossbarWords
from warpwright.timing.state.header.dispatcher import DispatcherWords
from warpwright.timing.state.header.dram import DramWords
from warpwright.timing.state.header.fences import FenceWords
from warpwright.timing.state.header.fetch import FetchWords
from warpwright.timing.state.header.grid_steps import GridStepWords
from warpwright.timing.state.header.l1 import L1Words
from warpwright.timing.state.header.l2 import L2Words
from warpwright.timing.state.header.links import LinkWords
from warpwright.timing.state.header.page_migration import PageMigrationWords
from warpwright.timing.state.header.sm import SMParts
from warpwright.timing.state.header.sub_core import SubCoreWords
from warpwright.timing.state.header.texture_unit import TextureUnitWords
from warpwright.timing.state.header.warming import WarmingWords


class Header(
    DispatcherWords,
    SubCoreWords,
    FenceWords,
    FetchWords,
    ConstantWords,
    ClusterWords,
    L1Words,
    SMParts,
    CrossbarWords,
    TextureUnitWords,
    L2Words,
    DramWords,
    LinkWords,
    PageMigrationWords,
    CoherentHostWords,
    WarmingWords,
    GridStepWords,
):
    """The first words of the state: the chip's numbers, where areas begin, the launch."""


chip = Header(0)
"""The header of the state, whose first word is the array's first."""

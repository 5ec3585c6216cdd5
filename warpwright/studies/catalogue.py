"""The studies that there are; importing this module enters them."""

from __future__ import annotations

from warpwright.studies import a100_engines as a100_engines
from warpwright.studies import a100_features as a100_features
from warpwright.studies import a100_histogram as a100_histogram
from warpwright.studies import a100_memory as a100_memory
from warpwright.studies import a100_optical_flow as a100_optical_flow
from warpwright.studies import a100_refinement as a100_refinement
from warpwright.studies import a100_sparsity as a100_sparsity
from warpwright.studies import a100_speedups as a100_speedups
from warpwright.studies import a100_tables as a100_tables
from warpwright.studies import a100_tensor_cores as a100_tensor_cores
from warpwright.studies import a100_video as a100_video
from warpwright.studies import all_reduce as all_reduce
from warpwright.studies import block_and_grid as block_and_grid
from warpwright.studies import cayman as cayman
from warpwright.studies import cayman_vs_fermi as cayman_vs_fermi
from warpwright.studies import ecc_campaign as ecc_campaign
from warpwright.studies import graph_launch as graph_launch
from warpwright.studies import mig_isolation as mig_isolation
from warpwright.studies import multi_grid as multi_grid
from warpwright.studies import synchronisation as synchronisation
from warpwright.studies import tesla as tesla
from warpwright.studies import tesla_compute as tesla_compute
from warpwright.studies import tesla_example as tesla_example
from warpwright.studies import tesla_graphics as tesla_graphics
from warpwright.studies import tesla_speed as tesla_speed
from warpwright.studies import tesla_texture as tesla_texture
from warpwright.studies import volta_demos as volta_demos
from warpwright.studies import volta_figures as volta_figures
from warpwright.studies import volta_gemm as volta_gemm
from warpwright.studies import volta_tiles as volta_tiles
from warpwright.studies import warp_level as warp_level
from warpwright.studies.study import STUDIES, Study

__all__ = ["STUDIES", "Study"]

"""Predefined registers (PTX ISA, chapter 10) as special registers of the common operations.

A launch without clusters counts as one with clusters of one block, as the manual defines it.
"""

from __future__ import annotations

CURRENT_GRAPH_EXEC = "current_graph_exec"
"""Special register of 64 bits, which compiled code reads from constant bank 0."""
AXES = ("x", "y", "z")

SPECIALS: dict[str, str | int] = {
    **{f"{name}.{axis}": f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in AXES},
    **{f"{name}.{axis}": f"{name}.{axis}" for name in ("clusterid", "nclusterid") for axis in AXES},
    **{f"{name}.{axis}": f"{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid") for axis in AXES},
    **{"cluster_ctarank": "cluster_ctaid", "cluster_nctarank": "cluster_nctaid"},
    **{"is_explicit_cluster": "is_explicit_cluster"},
    **{name: name for name in ("laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid")},
    **{f"lanemask_{relation}": f"lanemask_{relation}" for relation in ("eq", "lt", "le", "gt", "ge")},
    **{"clock": "clock_lo", "clock_hi": "clock_hi", "clock64": "clock"},
    **{"globaltimer": "globaltimer", "globaltimer_lo": "globaltimer_lo", "globaltimer_hi": "globaltimer_hi"},
    **{
        "dynamic_smem_size": "dynamic_smem_size",
        "total_smem_size": "total_smem_size",
        "aggr_smem_size": "total_smem_size",
    },
    CURRENT_GRAPH_EXEC: CURRENT_GRAPH_EXEC,
    **{"reserved_smem_offset_begin": 0, "reserved_smem_offset_end": 0, "reserved_smem_offset_cap": 0},
    **{"reserved_smem_offset_0": 0, "reserved_smem_offset_1": 0},
}
"""For each name without the percent sign: the special register's name, or its constant value."""
WIDE = ("clock64", "globaltimer")
"""Registers of 64 bits."""

"""Bit fields of the words of Evergreen and Cayman, under the names of AMD's manuals in lower case.

The names are those of *Evergreen Family Instruction Set Architecture* and *HD 6900 Series Instruction Set Architecture* (AMD, 2011),
chapter "Microcode Formats".  The bits were read from Mesa's ``r600`` driver and LLVM's ``R600InstrFormats.td``, which agree where
both have a word.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpwright.isa.r600.fields import Layout

Fields = Mapping[str, tuple[int, int]]

EVERGREEN, CAYMAN = "evergreen", "cayman"
GENERATIONS = (EVERGREEN, CAYMAN)
"""Families of encodings: Cypress (HD 5870) is ``evergreen``; Cayman (HD 6970) has its own."""


def without(fields: Fields, *names: str) -> Fields:
    return {name: place for name, place in fields.items() if name not in names}


def only(**layouts: Layout) -> Mapping[str, Layout]:
    return layouts


_CF_0: Fields = {"addr": (0, 23), "jumptable_sel": (24, 26)}
_CF_1: Fields = {
    "pop_count": (0, 2),
    "cf_const": (3, 7),
    "cond": (8, 9),
    "count": (10, 15),
    "valid_pixel_mode": (20, 20),
    "end_of_program": (21, 21),
    "cf_inst": (22, 29),
    "whole_quad_mode": (30, 30),
    "barrier": (31, 31),
}
CONTROL = only(
    evergreen=Layout("CF_WORD", (_CF_0, _CF_1)),
    cayman=Layout("CF_WORD", (_CF_0, without(_CF_1, "end_of_program", "whole_quad_mode"))),
)

CONTROL_ALU = Layout(
    "CF_ALU_WORD",
    (
        {"addr": (0, 21), "kcache_bank0": (22, 25), "kcache_bank1": (26, 29), "kcache_mode0": (30, 31)},
        {
            "kcache_mode1": (0, 1),
            "kcache_addr0": (2, 9),
            "kcache_addr1": (10, 17),
            "count": (18, 24),
            "alt_const": (25, 25),
            "cf_inst": (26, 29),
            "whole_quad_mode": (30, 30),
            "barrier": (31, 31),
        },
    ),
)
CONTROL_ALU_EXTENDED = Layout(
    "CF_ALU_WORD_EXT",
    (
        {
            "kcache_bank_index_mode0": (4, 5),
            "kcache_bank_index_mode1": (6, 7),
            "kcache_bank_index_mode2": (8, 9),
            "kcache_bank_index_mode3": (10, 11),
            "kcache_bank2": (22, 25),
            "kcache_bank3": (26, 29),
            "kcache_mode2": (30, 31),
        },
        {
            "kcache_mode3": (0, 1),
            "kcache_addr2": (2, 9),
            "kcache_addr3": (10, 17),
            "cf_inst": (26, 29),
            "barrier": (31, 31),
        },
    ),
)

_EXPORT_0: Fields = {
    "array_base": (0, 12),
    "type": (13, 14),
    "rw_gpr": (15, 21),
    "rw_rel": (22, 22),
    "index_gpr": (23, 29),
    "elem_size": (30, 31),
}
_RAT_0: Fields = {"rat_id": (0, 3), "rat_inst": (4, 9), "rat_index_mode": (11, 12), **without(_EXPORT_0, "array_base")}
_EXPORT_1: Fields = {
    "burst_count": (16, 19),
    "valid_pixel_mode": (20, 20),
    "end_of_program": (21, 21),
    "cf_inst": (22, 29),
    "mark": (30, 30),
    "barrier": (31, 31),
}
_BUFFER_1: Fields = {"array_size": (0, 11), "comp_mask": (12, 15), **_EXPORT_1}
_SWIZZLE_1: Fields = {"sel_x": (0, 2), "sel_y": (3, 5), "sel_z": (6, 8), "sel_w": (9, 11), **_EXPORT_1}
EXPORT = only(
    evergreen=Layout("CF_ALLOC_EXPORT_WORD_SWIZ", (_EXPORT_0, _SWIZZLE_1)),
    cayman=Layout("CF_ALLOC_EXPORT_WORD_SWIZ", (_EXPORT_0, without(_SWIZZLE_1, "end_of_program"))),
)
MEMORY_EXPORT = only(
    evergreen=Layout("CF_ALLOC_EXPORT_WORD_BUF", (_EXPORT_0, _BUFFER_1)),
    cayman=Layout("CF_ALLOC_EXPORT_WORD_BUF", (_EXPORT_0, without(_BUFFER_1, "end_of_program"))),
)
RAT = only(
    evergreen=Layout("CF_ALLOC_EXPORT_WORD_RAT", (_RAT_0, _BUFFER_1)),
    cayman=Layout("CF_ALLOC_EXPORT_WORD_RAT", (_RAT_0, without(_BUFFER_1, "end_of_program"))),
)

_ALU_0: Fields = {
    "src0_sel": (0, 8),
    "src0_rel": (9, 9),
    "src0_chan": (10, 11),
    "src0_neg": (12, 12),
    "src1_sel": (13, 21),
    "src1_rel": (22, 22),
    "src1_chan": (23, 24),
    "src1_neg": (25, 25),
    "index_mode": (26, 28),
    "pred_sel": (29, 30),
    "last": (31, 31),
}
_ALU_DESTINATION: Fields = {
    "bank_swizzle": (18, 20),
    "dst_gpr": (21, 27),
    "dst_rel": (28, 28),
    "dst_chan": (29, 30),
    "clamp": (31, 31),
}
_SOURCE_2: Fields = {"src2_sel": (0, 8), "src2_rel": (9, 9), "src2_chan": (10, 11)}
ALU_OP2 = Layout(
    "ALU_WORD1_OP2",
    (
        _ALU_0,
        {
            "src0_abs": (0, 0),
            "src1_abs": (1, 1),
            "update_exec_mask": (2, 2),
            "update_pred": (3, 3),
            "write_mask": (4, 4),
            "omod": (5, 6),
            "alu_inst": (7, 17),
            **_ALU_DESTINATION,
        },
    ),
)
ALU_OP3 = Layout(
    "ALU_WORD1_OP3", (_ALU_0, {**_SOURCE_2, "src2_neg": (12, 12), "alu_inst": (13, 17), **_ALU_DESTINATION})
)
ALU_LDS = Layout(
    "ALU_WORD1_LDS_IDX_OP",
    (
        {**without(_ALU_0, "src0_neg", "src1_neg"), "idx_offset_4": (12, 12), "idx_offset_5": (25, 25)},
        {
            **_SOURCE_2,
            "idx_offset_1": (12, 12),
            "alu_inst": (13, 17),
            "bank_swizzle": (18, 20),
            "lds_op": (21, 26),
            "idx_offset_0": (27, 27),
            "idx_offset_2": (28, 28),
            "dst_chan": (29, 30),
            "idx_offset_3": (31, 31),
        },
    ),
)

_FETCH_SELECTS: Fields = {"dst_sel_x": (9, 11), "dst_sel_y": (12, 14), "dst_sel_z": (15, 17), "dst_sel_w": (18, 20)}
_FETCH_FORMAT: Fields = {
    "data_format": (22, 27),
    "num_format_all": (28, 29),
    "format_comp_all": (30, 30),
    "srf_mode_all": (31, 31),
}
_VTX_0: Fields = {
    "inst": (0, 4),
    "fetch_type": (5, 6),
    "fetch_whole_quad": (7, 7),
    "buffer_id": (8, 15),
    "src_gpr": (16, 22),
    "src_rel": (23, 23),
    "src_sel_x": (24, 25),
}
_VTX_1: Fields = {"dst_gpr": (0, 6), "dst_rel": (7, 7), **_FETCH_SELECTS, "use_const_fields": (21, 21), **_FETCH_FORMAT}
_VTX_1_SEMANTIC: Fields = {"semantic_id": (0, 7), **without(_VTX_1, "dst_gpr", "dst_rel")}
_VTX_2: Fields = {
    "offset": (0, 15),
    "endian_swap": (16, 17),
    "const_buf_no_stride": (18, 18),
    "mega_fetch": (19, 19),
    "alt_const": (20, 20),
    "buffer_index_mode": (21, 22),
}
_VTX_0_EVERGREEN: Fields = {**_VTX_0, "mega_fetch_count": (26, 31)}
_VTX_0_CAYMAN: Fields = {
    **_VTX_0,
    "src_sel_y": (26, 27),
    "structured_read": (28, 29),
    "lds_req": (30, 30),
    "coalesced_read": (31, 31),
}
VERTEX = only(
    evergreen=Layout("VTX_WORD", (_VTX_0_EVERGREEN, _VTX_1, _VTX_2, {})),
    cayman=Layout("VTX_WORD", (_VTX_0_CAYMAN, _VTX_1, without(_VTX_2, "mega_fetch"), {})),
)
VERTEX_SEMANTIC = only(
    evergreen=Layout("VTX_WORD_SEM", (_VTX_0_EVERGREEN, _VTX_1_SEMANTIC, _VTX_2, {})),
    cayman=Layout("VTX_WORD_SEM", (_VTX_0_CAYMAN, _VTX_1_SEMANTIC, without(_VTX_2, "mega_fetch"), {})),
)
TEXTURE = Layout(
    "TEX_WORD",
    (
        {
            "inst": (0, 4),
            "inst_mod": (5, 6),
            "fetch_whole_quad": (7, 7),
            "resource_id": (8, 15),
            "src_gpr": (16, 22),
            "src_rel": (23, 23),
            "alt_const": (24, 24),
            "resource_index_mode": (25, 26),
            "sampler_index_mode": (27, 28),
        },
        {
            "dst_gpr": (0, 6),
            "dst_rel": (7, 7),
            **_FETCH_SELECTS,
            "lod_bias": (21, 27),
            "coord_type_x": (28, 28),
            "coord_type_y": (29, 29),
            "coord_type_z": (30, 30),
            "coord_type_w": (31, 31),
        },
        {
            "offset_x": (0, 4),
            "offset_y": (5, 9),
            "offset_z": (10, 14),
            "sampler_id": (15, 19),
            "src_sel_x": (20, 22),
            "src_sel_y": (23, 25),
            "src_sel_z": (26, 28),
            "src_sel_w": (29, 31),
        },
        {},
    ),
)
MEMORY_READ = Layout(
    "MEM_RD_WORD",
    (
        {
            "inst": (0, 4),
            "elem_size": (5, 6),
            "fetch_whole_quad": (7, 7),
            "mem_op": (8, 10),
            "uncached": (11, 11),
            "indexed": (12, 12),
            "src_sel_y": (13, 14),
            "src_gpr": (16, 22),
            "src_rel": (23, 23),
            "src_sel_x": (24, 25),
            "burst_count": (26, 29),
            "lds_req": (30, 30),
            "coalesced_read": (31, 31),
        },
        {"dst_gpr": (0, 6), "dst_rel": (7, 7), **_FETCH_SELECTS, **_FETCH_FORMAT},
        {"array_base": (0, 12), "endian_swap": (16, 17), "array_size": (20, 31)},
        {},
    ),
)
GLOBAL_SHARE = Layout(
    "MEM_GDS_WORD",
    (
        {
            "inst": (0, 4),
            "mem_op": (8, 10),
            "src_gpr": (11, 17),
            "src_rel_mode": (18, 19),
            "src_sel_x": (20, 22),
            "src_sel_y": (23, 25),
            "src_sel_z": (26, 28),
        },
        {
            "dst_gpr": (0, 6),
            "dst_rel_mode": (7, 8),
            "gds_op": (9, 14),
            "second_src_gpr": (16, 22),
            "uav_index_mode": (24, 25),
            "uav_id": (26, 29),
            "alloc_consume": (30, 30),
            "bcast_first_req": (31, 31),
        },
        {"dst_sel_x": (0, 2), "dst_sel_y": (3, 5), "dst_sel_z": (6, 8), "dst_sel_w": (9, 11)},
        {},
    ),
)

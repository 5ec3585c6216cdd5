"""Names of the field values in the SASS encodings: comparisons, booleans, roundings, special registers.

Source: NVIDIA's disassembler, queried for every value of each field.
"""

from __future__ import annotations

from warpwright.isa.sass.fields import Choice, at, flag

COMPARE_INTEGER = Choice(at(76, 3), ("F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"))
COMPARE_FLOAT_NAMES = (
    "F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T",
)  # fmt: skip
COMPARE_FLOAT = Choice(at(76, 4), COMPARE_FLOAT_NAMES)
COMPARE_DOUBLE = Choice(at(76, 4), ("MIN", *COMPARE_FLOAT_NAMES[1:15], "MAX"))
BOOLEAN = Choice(at(74, 2), ("AND", "OR", "XOR"))
BOOLEAN_HALF = Choice(at(69, 2), ("AND", "OR", "XOR"))
ROUNDING = Choice(at(78, 2), ("", "RM", "RP", "RZ"))
ROUND_TO_INTEGER = Choice(at(78, 2), ("", "FLOOR", "CEIL", "TRUNC"))
FTZ = flag(80, "FTZ")
FTZ_OR_FMZ = Choice(at(76, 1, 80, 1), ("", "FMZ", "FTZ"))
FTZ_FMZ_OR_OOB = Choice(at(76, 1, 80, 1), ("", "FMZ", "FTZ", "OOB"))
SATURATE = flag(77, "SAT")
MUFU_FUNCTIONS = Choice(
    at(74, 4), ("COS", "SIN", "EX2", "LG2", "RCP", "RSQ", "RCP64H", "RSQ64H", "SQRT", "TANH")
)  # fmt: skip

_SPECIAL_NAMES = {
    0: "SR_LANEID", 1: "SR_CLOCK", 2: "SR_VIRTCFG", 3: "SR_VIRTID", 15: "SR_ORDERING_TICKET", 16: "SR_PRIM_TYPE",
    17: "SR_INVOCATION_ID", 18: "SR_Y_DIRECTION", 19: "SR_THREAD_KILL", 20: "SM_SHADER_TYPE",
    21: "SR_DIRECTCBEWRITEADDRESSLOW", 22: "SR_DIRECTCBEWRITEADDRESSHIGH", 23: "SR_DIRECTCBEWRITEENABLED",
    24: "SR_SW_SCRATCH", 25: "SR_MACHINE_ID_1", 26: "SR_MACHINE_ID_2", 27: "SR_MACHINE_ID_3", 28: "SR_AFFINITY",
    29: "SR_INVOCATION_INFO", 30: "SR_WSCALEFACTOR_XY", 31: "SR_WSCALEFACTOR_Z", 32: "SR_TID", 33: "SR_TID.X",
    34: "SR_TID.Y", 35: "SR_TID.Z", 37: "SR_CTAID.X", 38: "SR_CTAID.Y", 39: "SR_CTAID.Z", 40: "SR_NTID",
    41: "SR_CirQueueIncrMinusOne", 42: "SR_NLATC", 44: "SR_SM_SPA_VERSION", 45: "SR_MULTIPASSSHADERINFO",
    46: "SR_LWINHI", 47: "SR_SWINHI", 48: "SR_SWINLO", 49: "SR_SWINSZ", 50: "SR_SMEMSZ", 51: "SR_SMEMBANKS",
    52: "SR_LWINLO", 53: "SR_LWINSZ", 54: "SR_LMEMLOSZ", 55: "SR_LMEMHIOFF", 56: "SR_EQMASK", 57: "SR_LTMASK",
    58: "SR_LEMASK", 59: "SR_GTMASK", 60: "SR_GEMASK", 61: "SR_REGALLOC", 62: "SR_BARRIERALLOC",
    64: "SR_GLOBALERRORSTATUS", 65: "SR_CGAERRORSTATUS", 66: "SR_WARPERRORSTATUS", 67: "SR_VIRTUALSMID",
    68: "SR_VIRTUALENGINEID", 80: "SR_CLOCKLO", 81: "SR_CLOCKHI", 82: "SR_GLOBALTIMERLO", 83: "SR_GLOBALTIMERHI",
    84: "SR_ESR_PC", 85: "SR_ESR_PC_HI", 96: "SR_HWTASKID", 97: "SR_CIRCULARQUEUEENTRYINDEX",
    98: "SR_CIRCULARQUEUEENTRYADDRESSLOW", 99: "SR_CIRCULARQUEUEENTRYADDRESSHIGH", 132: "SR_VARIABLE_RATE",
    133: "SR_TTU_TICKET_INFO", 134: "SR_WARPGROUP_INFO", 135: "SR_WARPGROUPID", 136: "SR_CgaCtaId",
    137: "SR_GpcLocalCgaId", 139: "SR_CTARegPoolSz", 255: "SRZ",
}  # fmt: skip


def _special_name(number: int) -> str:
    """Performance counters come in pairs of low and high words; numbers without a name print as ``SR<number>``."""
    if 100 <= number < 132:
        prefix = "SR_PM" if number < 116 else "SR_SNAP_PM"
        return f"{prefix}{'_HI' if number & 1 else ''}{(number - 100) % 16 // 2}"
    return _SPECIAL_NAMES.get(number, f"SR{number}")


SPECIAL_REGISTERS = tuple(_special_name(number) for number in range(256))
"""Special registers by number, as printed for sm_90; those that programs read have the same numbers from sm_70 on."""

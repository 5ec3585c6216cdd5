"""Names of the field values in the 64-bit encodings."""

from __future__ import annotations

_NAMED = (
    *("LANEID", "CLOCK", "VIRTCFG", "VIRTID", "PM0", "PM1", "PM2", "PM3", "PM4", "PM5", "PM6", "PM7", "", "", ""),
    *("ORDERING_TICKET", "PRIM_TYPE", "INVOCATION_ID", "Y_DIRECTION", "THREAD_KILL", "SM_SHADER_TYPE"),
    *("DIRECTCBEWRITEADDRESSLOW", "DIRECTCBEWRITEADDRESSHIGH", "DIRECTCBEWRITEENABLED"),
    *("MACHINE_ID_0", "MACHINE_ID_1", "MACHINE_ID_2", "MACHINE_ID_3", "AFFINITY", "INVOCATION_INFO"),
    *("WSCALEFACTOR_XY", "WSCALEFACTOR_Z", "TID", "TID.X", "TID.Y", "TID.Z", "CTA_PARAM", "CTAID.X", "CTAID.Y"),
    *("CTAID.Z", "NTID", "CirQueueIncrMinusOne", "NLATC", "", "SM_SPA_VERSION", "MULTIPASSSHADERINFO", "LWINHI"),
    *("SWINHI", "SWINLO", "SWINSZ", "SMEMSZ", "SMEMBANKS", "LWINLO", "LWINSZ", "LMEMLOSZ", "LMEMHIOFF", "EQMASK"),
    *("LTMASK", "LEMASK", "GTMASK", "GEMASK", "REGALLOC", "BARRIERALLOC", "", "GLOBALERRORSTATUS", ""),
    *("WARPERRORSTATUS", "WARPERRORSTATUSCLEAR", "", "", "", "", "PM_HI0", "PM_HI1", "PM_HI2", "PM_HI3", "PM_HI4"),
    *("PM_HI5", "PM_HI6", "PM_HI7", "CLOCKLO", "CLOCKHI", "GLOBALTIMERLO", "GLOBALTIMERHI"),
    *("",) * 12,
    *("HWTASKID", "CIRCULARQUEUEENTRYINDEX", "CIRCULARQUEUEENTRYADDRESSLOW", "CIRCULARQUEUEENTRYADDRESSHIGH"),
)
SPECIAL_REGISTERS: tuple[str, ...] = tuple(
    "SM_SHADER_TYPE" if name == "SM_SHADER_TYPE" else f"SR_{name}" if name else f"SR{number}"
    for number, name in ((n, _NAMED[n] if n < len(_NAMED) else "") for n in range(256))
)
"""Special registers by number, as printed."""

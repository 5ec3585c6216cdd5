"""The functions of the two libraries, with the letters of their signatures: ``i`` int, ``u`` unsigned, ``Q`` a pointer or 64 bits.

``libdrm.so.2`` has those that Mesa's loader, EGL, GBM and drivers import (``nm -D``), and those that the libraries
beside it import, which are loaded with Mesa's drivers; ``libdrm_nouveau.so.2`` has its public header's.
"""

from __future__ import annotations

import ctypes
from typing import Any

DRM: dict[str, str] = {
    "drmAuthMagic": "iu",
    "drmCloseBufferHandle": "iu",
    "drmCommandNone": "iQ",
    "drmCommandRead": "iQQQ",
    "drmCommandWrite": "iQQQ",
    "drmCommandWriteRead": "iQQQ",
    "drmDevicesEqual": "QQ",
    "drmFreeDevice": "Q",
    "drmFreeDevices": "Qi",
    "drmFreeVersion": "Q",
    "drmGetCap": "iQQ",
    "drmGetDevice2": "iuQ",
    "drmGetDevices2": "uQi",
    "drmGetDeviceFromDevId": "QuQ",
    "drmGetDeviceNameFromFd2": "i",
    "drmGetMagic": "iQ",
    "drmGetNodeTypeFromFd": "i",
    "drmGetPrimaryDeviceNameFromFd": "i",
    "drmGetRenderDeviceNameFromFd": "i",
    "drmGetVersion": "i",
    "drmIoctl": "iQQ",
    "drmMsg": "Q",
    "drmPrimeFDToHandle": "iiQ",
    "drmPrimeHandleToFD": "iuuQ",
    "drmSyncobjCreate": "iuQ",
    "drmSyncobjDestroy": "iu",
    "drmSyncobjExportSyncFile": "iuQ",
    "drmSyncobjFDToHandle": "iiQ",
    "drmSyncobjHandleToFD": "iuQ",
    "drmSyncobjImportSyncFile": "iui",
    "drmSyncobjQuery": "iQQu",
    "drmSyncobjQuery2": "iQQuu",
    "drmSyncobjReset": "iQu",
    "drmSyncobjSignal": "iQu",
    "drmSyncobjTimelineSignal": "iQQu",
    "drmSyncobjTimelineWait": "iQQuQuQ",
    "drmSyncobjTransfer": "iuQuQu",
    "drmSyncobjWait": "iQuQuQ",
}
NOUVEAU: dict[str, str] = {
    "nouveau_object_new": "QQuQuQ",
    "nouveau_object_del": "Q",
    "nouveau_object_mthd": "QuQu",
    "nouveau_object_sclass_get": "QQ",
    "nouveau_object_sclass_put": "Q",
    "nouveau_object_mclass": "QQ",
    "nouveau_drm_new": "iQ",
    "nouveau_drm_del": "Q",
    "nouveau_device_new": "QiQuQ",
    "nouveau_device_del": "Q",
    "nouveau_device_wrap": "iiQ",
    "nouveau_device_open": "QQ",
    "nouveau_device_open_existing": "QiiQ",
    "nouveau_getparam": "QQQ",
    "nouveau_setparam": "QQQ",
    "nouveau_client_new": "QQ",
    "nouveau_client_del": "Q",
    "nouveau_bo_new": "QuuQQQ",
    "nouveau_bo_wrap": "QuQ",
    "nouveau_bo_name_ref": "QuQ",
    "nouveau_bo_name_get": "QQ",
    "nouveau_bo_ref": "QQ",
    "nouveau_bo_map": "QuQ",
    "nouveau_bo_wait": "QuQ",
    "nouveau_bo_prime_handle_ref": "QiQ",
    "nouveau_bo_set_prime": "QQ",
    "nouveau_bufctx_new": "QiQ",
    "nouveau_bufctx_del": "Q",
    "nouveau_bufctx_refn": "QiQu",
    "nouveau_bufctx_mthd": "QiuQQuuu",
    "nouveau_bufctx_reset": "Qi",
    "nouveau_check_dead_channel": "QQ",
    "nouveau_pushbuf_new": "QQiuiQ",
    "nouveau_pushbuf_del": "Q",
    "nouveau_pushbuf_space": "Quuu",
    "nouveau_pushbuf_data": "QQQQ",
    "nouveau_pushbuf_refn": "QQi",
    "nouveau_pushbuf_refd": "QQ",
    "nouveau_pushbuf_reloc": "QQuuuu",
    "nouveau_pushbuf_validate": "Q",
    "nouveau_pushbuf_kick": "QQ",
    "nouveau_pushbuf_bufctx": "QQ",
}
LIBRARIES: dict[str, dict[str, str]] = {"libdrm.so.2": DRM, "libdrm_nouveau.so.2": NOUVEAU}
POINTERS = {
    "drmGetVersion",
    "drmGetDeviceNameFromFd2",
    "drmGetPrimaryDeviceNameFromFd",
    "drmGetRenderDeviceNameFromFd",
    "nouveau_bufctx_refn",
    "nouveau_bufctx_mthd",
    "nouveau_pushbuf_bufctx",
}
"""Functions that return a pointer rather than an int."""
_TYPES: dict[str, Any] = {"i": ctypes.c_int32, "u": ctypes.c_uint32, "Q": ctypes.c_uint64}


def prototype(name: str, letters: str) -> Any:
    """The ctypes type of a function's callback."""
    result = ctypes.c_uint64 if name in POINTERS else ctypes.c_int32
    return ctypes.CFUNCTYPE(result, *(_TYPES[letter] for letter in letters))

"""An OpenGL program whose context is destroyed while the interpreter shuts down (``during``) or afterwards (``after``), with commands that are not yet
submitted: ``late_destruction.py WHEN``."""

from __future__ import annotations

import builtins
import ctypes
import sys
from ctypes import c_char_p, c_int, c_uint, c_void_p
from typing import Any

SURFACELESS, OPENGL_API, COLOUR = 0x31DD, 0x30A2, 0x4000
TEXTURE_2D, FRAMEBUFFER, COLOUR_ATTACHMENT, GPU_COMMANDS_COMPLETE = 0x0DE1, 0x8D40, 0x8CE0, 0x9117
egl = ctypes.CDLL("libEGL.so.1")
for name, kinds in {
    "eglGetPlatformDisplay": (c_uint, c_void_p, c_void_p),
    "eglInitialize": (c_void_p, c_void_p, c_void_p),
    "eglCreateContext": (c_void_p, c_void_p, c_void_p, c_void_p),
    "eglMakeCurrent": (c_void_p, c_void_p, c_void_p, c_void_p),
    "eglDestroyContext": (c_void_p, c_void_p),
    "eglGetProcAddress": (c_char_p,),
}.items():
    called = getattr(egl, name)
    called.argtypes, called.restype = kinds, c_void_p
display = egl.eglGetPlatformDisplay(SURFACELESS, None, None)
egl.eglInitialize(display, None, None)
egl.eglBindAPI(OPENGL_API)
context = egl.eglCreateContext(display, None, None, None)
egl.eglMakeCurrent(display, None, None, context)


def function(name: bytes, *kinds: Any) -> Any:
    return ctypes.CFUNCTYPE(None, *kinds)(egl.eglGetProcAddress(name))


names = (c_uint * 2)()
function(b"glGenTextures", c_int, c_void_p)(1, ctypes.addressof(names))
function(b"glBindTexture", c_uint, c_uint)(TEXTURE_2D, names[0])
image = function(b"glTexImage2D", c_uint, c_int, c_int, c_int, c_int, c_int, c_uint, c_uint, c_void_p)
image(TEXTURE_2D, 0, 0x8058, 64, 64, 0, 0x1908, 0x1401, None)
function(b"glGenFramebuffers", c_int, c_void_p)(1, ctypes.addressof(names) + 4)
function(b"glBindFramebuffer", c_uint, c_uint)(FRAMEBUFFER, names[1])
attach = function(b"glFramebufferTexture2D", c_uint, c_uint, c_uint, c_uint, c_int)
attach(FRAMEBUFFER, COLOUR_ATTACHMENT, TEXTURE_2D, names[0], 0)
clear = function(b"glClear", c_uint)
clear(COLOUR)
function(b"glFenceSync", c_uint, c_uint)(GPU_COMMANDS_COMPLETE, 0)
clear(COLOUR)


class Window:
    """Draws once more, and closes."""

    def __del__(self, clear: Any = clear, close: Any = egl.eglReleaseThread) -> None:
        clear(COLOUR)
        close()


# A context that is current is destroyed when its thread releases it.
egl.eglDestroyContext(display, context)
if sys.argv[1] == "during":
    builtins.window = Window()  # type: ignore[attr-defined]
else:
    ctypes.pythonapi.Py_AtExit(egl.eglReleaseThread)
print("drawn", flush=True)

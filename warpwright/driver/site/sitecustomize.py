"""Imported first by every Python process that a program starts: this folder is at the front of its PYTHONPATH.

Loads the drop-in libraries, prepares for cuda-bindings (``cuda_bindings.py``) and NVRTC (``nvrtc_builtins.py``),
installs the simulated clock if requested (``host_clock.py``), records modules of PyTorch for a report (``pytorch_origins.py``), and runs the
environment's own ``sitecustomize``.  Nothing of the package is imported, because this Python may not have it.
"""

import importlib.util
import os
import sys
from types import ModuleType

_here = os.path.dirname(os.path.abspath(__file__))


_kept: list[object] = []


def _load_libraries() -> None:
    """Load the drop-in libraries before a package does, because a package's own search path (RPATH) takes precedence
    over LD_LIBRARY_PATH, and a loaded library over both."""
    folder = os.environ.get("WARPWRIGHT_LIBRARIES")
    if not folder or not os.path.isdir(folder):
        return
    import ctypes

    for name in sorted(os.listdir(folder)):
        if name.startswith("lib") and ".so." in name:
            _kept.append(ctypes.CDLL(os.path.join(folder, name)))


def _beside(name: str) -> ModuleType:
    """A module in the folder above, which may not be on the program's search path."""
    place = os.path.join(os.path.dirname(_here), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_warpwright_{name}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _prepare() -> None:
    if "WARPWRIGHT_LIBRARIES" in os.environ:
        _beside("cuda_bindings").install(os.environ["WARPWRIGHT_LIBRARIES"])
        _beside("nvrtc_builtins").load(sys.path)


def _simulate_clock() -> None:
    if os.environ.get("WARPWRIGHT_HOST_CLOCK") == "simulated":
        _beside("host_clock").install()


def _note_origins() -> None:
    if os.environ.get("WARPWRIGHT_ORIGINS") == "1":
        _beside("pytorch_origins").install()


def _hand_over() -> None:
    own = sys.modules.pop("sitecustomize")
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != _here]
    try:
        if importlib.util.find_spec("sitecustomize") is not None:
            importlib.import_module("sitecustomize")
    finally:
        sys.modules.setdefault("sitecustomize", own)
        # For programs that set a child's PYTHONPATH to sys.path (PyTorch's compile workers).
        sys.path.insert(0, _here)


_load_libraries()
_prepare()
_simulate_clock()
_note_origins()
_hand_over()

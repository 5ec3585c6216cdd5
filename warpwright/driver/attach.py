"""Places the drop-in libraries on disk, and attaches them to this process and its children.

``folder()`` writes them once into the cache, under a name derived from their contents; ``preload()`` loads them into
this process, so that a later ``dlopen("libcuda.so.1")`` or ``dlopen("libcuda.so")`` finds them by their SONAME;
``attach()`` fills their tables with this process's functions.  This happens at the first call: a stub runs ``BOOT``, in
the interpreter of the process or in one that it starts.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warpwright.driver import cuda_bindings, nvrtc_builtins
from warpwright.driver.clock_library import SONAME as CLOCK_LIBRARY
from warpwright.driver.clock_library import build_clock_library
from warpwright.driver.entry_points import called_by_destructors, table
from warpwright.driver.stubs import CLOSE_SYMBOL, GUARD_FUNCTIONS, GUARD_SYMBOL, TABLE_SYMBOL, Boot, build_library
from warpwright.session import chips_named, session
from warpwright.toolchain.cache import default_folder

LIBRARIES: tuple[tuple[str, str, str], ...] = (
    # SONAME, table, symbol version
    ("libcuda.so.1", "driver", ""),
    ("libnvidia-ml.so.1", "nvml", ""),
    ("libcudart.so.12", "runtime12", "libcudart.so.12"),
    ("libcudart.so.13", "runtime13", "libcudart.so.13"),
)


@dataclass(frozen=True, slots=True)
class FurtherLibrary:
    """A drop-in library that another package provides; its table is filled when one of its functions is first
    called."""

    soname: str
    version: str
    """The version of its symbols; empty for none."""
    entries: Mapping[str, str]
    """Signature letters of its entry points, by name."""
    module: str
    """The module that a process imports before it requests the callbacks."""
    callbacks: Callable[[], Sequence[Any]]
    """C-callable objects, in the order of the names."""


FURTHER: list[FurtherLibrary] = []
"""Registered by the packages that provide them, before :func:`folder` is first called."""
_LINK_NAMES = {"libcuda.so": "libcuda.so.1"}
_UNVERSIONED = ("libcuda.so", "driver", "")
"""A name under which some packages (Taichi) open the driver.  A running process finds it only by the SONAME of a
separate library, which is in a separate folder, because programs are linked with the first one."""
_SITE = str(Path(__file__).parent / "site")
"""Folder of the ``sitecustomize`` that Python children import."""
_kept: list[Any] = []


def _python_library() -> str:
    """Path of this interpreter's shared library; empty if it has none."""
    names = [sysconfig.get_config_var(v) for v in ("INSTSONAME", "LDLIBRARY")]
    folders = [sysconfig.get_config_var("LIBDIR"), os.path.join(sys.base_prefix, "lib")]
    for name in names:
        for folder in folders:
            if name and folder and ".so" in name and os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
    return ""


def boot_of(start: str = "from warpwright.driver.attach import attach; attach()") -> Boot:
    """How a process without Python gets one, with this interpreter's packages; ``start`` is the statement that fills
    the tables."""
    package = Path(__file__).resolve().parents[2]
    paths = [str(package), *(p for p in sys.path if p and os.path.isdir(p) and p != str(package))]
    paths += [p for p in sys.path if p.endswith(".zip")]
    # In a function, because it runs in the namespace of a Python program's main module.
    code = (
        "def _start_warpwright():\n"
        "    import sys\n"
        f"    for p in {paths!r}:\n"
        "        if p not in sys.path: sys.path.append(p)\n"
        "    try:\n"
        f"        {start}\n"
        "    except KeyboardInterrupt:\n"
        "        import os, signal\n"
        "        signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except BaseException:\n"
        "        import traceback; traceback.print_exc()\n"
        "        raise\n"
        "try:\n"
        "    _start_warpwright()\n"
        "finally:\n"
        "    del _start_warpwright\n"
    )
    library = _python_library()
    message = (
        f"warpwright: cannot load Python's shared library {library}"
        if library
        else "warpwright: this Python has no shared library (build it with --enable-shared, or use a distribution's), "
        "so native programs cannot be run; Python programs can"
    )
    return Boot(library, code, message)


def folder() -> Path:
    """The folder of the libraries, which are written if they do not exist yet; a different folder once there are further libraries."""
    return _folder_with(tuple(one.soname for one in FURTHER))


@cache
def _folder_with(further_names: tuple[str, ...]) -> Path:
    machine = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
        platform.machine(), ""
    )
    boot = boot_of()
    rows = [(*row, list(table(row[1]))) for row in LIBRARIES]
    further = [(one.soname, one.version, [*one.entries.items()], one.module) for one in FURTHER]
    digest = hashlib.sha256(repr((machine, boot, rows, further)).encode())
    for source in ("attach.py", "elf_writer.py", "stubs.py", "entry_points.py", "clock_library.py"):
        digest.update((Path(__file__).parent / source).read_bytes())
    for base in (default_folder(), Path(tempfile.gettempdir()) / f"warpwright-{os.getuid()}"):
        target = base / "driver" / digest.hexdigest()[:16]
        try:
            if not (target / "complete").is_file():
                target.mkdir(parents=True, exist_ok=True)
                _write(target, machine, boot)
            return target
        except OSError as reason:
            failure = reason
    raise failure


def _unversioned() -> Path:
    return folder() / "unversioned" / _UNVERSIONED[0]


def _write(target: Path, machine: str, boot: Boot) -> None:
    apart = target / "unversioned"
    apart.mkdir(exist_ok=True)
    for place, (soname, entries, version) in (*((target, row) for row in LIBRARIES), (apart, _UNVERSIONED)):
        guarded = _in_destructors(table(entries))
        place_library(place / soname, build_library(machine, soname, list(table(entries)), boot, version, guarded))
    for one in FURTHER:
        start = (
            f"import {one.module}; from warpwright.driver.attach import attach_further; attach_further({one.soname!r})"
        )
        contents = build_library(
            machine, one.soname, list(one.entries), boot_of(start), one.version, _in_destructors(one.entries)
        )
        place_library(target / one.soname, contents)
    place_library(target / CLOCK_LIBRARY, build_clock_library(machine))
    for name, soname in _LINK_NAMES.items():
        with contextlib.suppress(FileExistsError):
            os.symlink(soname, target / name)
    (target / "complete").touch()


def _in_destructors(entries: Mapping[str, str]) -> list[int]:
    """Numbers of the entry points that get a guarded stub."""
    return [n for n, row in enumerate(entries.items()) if called_by_destructors(*row)]


def place_library(place: Path, contents: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
        file.write(contents)
    os.chmod(file.name, 0o755)
    os.replace(file.name, place)


def preload() -> None:
    """Load the libraries into this process; their functions are attached when one of them is called first."""
    for soname, _, version in LIBRARIES:
        # The two runtimes have names in common.
        mode = ctypes.RTLD_LOCAL if version else ctypes.RTLD_GLOBAL
        _kept.append(ctypes.CDLL(str(folder() / soname), mode=mode))
    _kept.append(ctypes.CDLL(str(_unversioned())))
    for one in FURTHER:
        _kept.append(ctypes.CDLL(str(folder() / one.soname), mode=ctypes.RTLD_LOCAL))
    cuda_bindings.install(str(folder()))
    nvrtc_builtins.load(sys.path)
    # For programs that set a child's PYTHONPATH to sys.path (PyTorch's compile workers).
    if _SITE in os.environ.get("PYTHONPATH", "").split(":") and _SITE not in sys.path:
        sys.path.insert(0, _SITE)


def leading(place: str, variable: str) -> str:
    """A list of folders, as in a search-path variable, with another folder in front."""
    return ":".join([place, *(p for p in os.environ.get(variable, "").split(":") if p and p != place)])


def _lasting(name: str) -> str:
    """A machine's name, or its file's absolute path."""
    return os.path.abspath(name) if name.endswith(".toml") else name


def child_environment(chip: str | None, timing: str | None, results: Path | None) -> dict[str, str]:
    """Variables that make child processes use the simulated device."""
    place = str(folder())
    found = {
        "LD_LIBRARY_PATH": leading(place, "LD_LIBRARY_PATH"),
        "TRITON_LIBCUDA_PATH": place,
        "PYTHONPATH": leading(_SITE, "PYTHONPATH"),
        "WARPWRIGHT_LIBRARIES": place,
    }
    if session.simulates_host_clock:
        found["LD_PRELOAD"] = leading(f"{place}/{CLOCK_LIBRARY}", "LD_PRELOAD")
        found["WARPWRIGHT_HOST_CLOCK"] = "simulated"
    # Child processes may have a different working folder.
    chips = ",".join(name or "" for name in chips_named(chip))
    given = (
        *(
            ("GPU", chips),
            ("SYSTEM", session.system and _lasting(session.system)),
            ("TIMING", timing),
            ("CACHES", session.caches),
            ("MEMORY_FAULTS", session.memory_faults),
            ("CHECK", session.check),
            ("ORIGINS", "1" if session.notes_origins else ""),
            ("CHECK_LEVEL", session.check_level),
            ("INJECT", session.inject),
            ("LIBRARY_MODEL", session.library_model),
        ),
        *(("RESULTS", results and str(results)), ("DEADLINE", session.deadline and repr(session.deadline))),
    )
    for name, value in given:
        if value:
            found[f"WARPWRIGHT_{name}"] = value
    return found


def _loaded(soname: str) -> ctypes.CDLL | None:
    """One of the drop-in libraries, if the process has loaded it."""
    no_load = 4
    try:
        library = ctypes.CDLL(soname, mode=no_load | ctypes.DEFAULT_MODE)
        library[TABLE_SYMBOL]
    except (OSError, AttributeError):
        return None
    return library


class _Kept:
    """Replaces a module of this package while the interpreter shuts down, which clears the names in modules but not in
    other objects."""

    def __init__(self, module: Any) -> None:
        self.__dict__ = module.__dict__


def _keep_names() -> None:
    """Keep this package's functions usable for destructors that call late."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "warpwright":
            sys.modules[name] = _Kept(module)  # type: ignore[assignment]


def attach_further(soname: str) -> None:
    """Fill the table of a library of another package."""
    from warpwright.driver import process

    if not process.addresses:
        attach()
    (one,) = (one for one in FURTHER if one.soname == soname)
    library = _loaded(soname)
    if library is None:
        return
    _fill(library, one.callbacks())


def _fill(library: ctypes.CDLL, functions: Sequence[Any]) -> None:
    """Let a library's entry points call functions."""
    from warpwright.driver import printf_buffer

    # Destructors of other packages make calls while the interpreter tears modules down, this one before them.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(functions))
    slots = (ctypes.c_uint64 * len(functions)).in_dll(library, TABLE_SYMBOL)
    called = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions]
    # A native program has no Python exceptions, and its stack must not be unwound through the guard.
    slots[:] = [*(called if printf_buffer.embedded() else _guarded(library, called))]
    ctypes.pythonapi.Py_AtExit(ctypes.cast(library[CLOSE_SYMBOL], ctypes.c_void_p))


def _guarded(library: ctypes.CDLL, callbacks: list[int]) -> list[int]:
    """Addresses for a library's table: its guarded stubs where there are any, which are told what to call, and
    callbacks elsewhere."""
    count = len(callbacks)
    words = (ctypes.c_uint64 * (len(GUARD_FUNCTIONS) + 2 * count)).in_dll(library, GUARD_SYMBOL)
    stubs = words[len(GUARD_FUNCTIONS) : -count]
    words[-count:] = [*callbacks]
    functions = [ctypes.pythonapi[name] for name in GUARD_FUNCTIONS]
    words[: len(GUARD_FUNCTIONS)] = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    return [stub or callback for stub, callback in zip(stubs, callbacks, strict=True)]


def attach() -> None:
    """Fill the tables of the libraries that this process has loaded, and let launches be recorded."""
    from warpwright.driver import launch_records, process, register_all
    from warpwright.driver.calls import callbacks

    assert register_all
    process.on_missing_driver[:] = [preload, attach]
    for soname, entries, _ in (_UNVERSIONED, *LIBRARIES):
        library = _loaded(soname)
        if library is None:
            continue
        _fill(library, callbacks(entries))
        if entries == "driver":
            for name in table(entries):
                process.addresses[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    launch_records.start()
    atexit.register(_keep_names)
    atexit.register(launch_records.finish)

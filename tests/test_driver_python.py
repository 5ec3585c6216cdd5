"""What Python programs use besides libcuda: cuda-bindings' runtime API, and NVML."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.driver_library import attached

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

_BINDINGS = """
import ctypes
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
linked = signature(lambda _: 500)
name = b"cudaError_t (int *)"
__pyx_capi__ = {n: new(ctypes.cast(linked, ctypes.c_void_p), name, None) for n in ("_cudaGetDeviceCount", "helper")}
"""
"""A module that offers C functions as Cython's do; they fail as a runtime without NVIDIA's driver does."""
_USER = """
import ctypes
import os
import subprocess
import sys
from {source} import __pyx_capi__, linked, signature, name
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
count = ctypes.c_int()
function = signature(pointer(__pyx_capi__["_cudaGetDeviceCount"], name))
assert function(ctypes.addressof(count)) == 0
assert count.value == 1
assert signature(pointer(__pyx_capi__["helper"], name))(None) == 500
if len(sys.argv) == 1:
    subprocess.run([sys.executable, __file__, "child"], check=True)
print("counted", os.environ.get("OWN_SITE") if len(sys.argv) == 1 else "")
"""


@pytest.mark.ci
@pytest.mark.parametrize("source", ["cuda.bindings._internal.runtime", "cuda.bindings._bindings.cyruntime"])
def test_runtime_api_of_cuda_bindings_is_libcudart_in_a_program_and_its_children(source: str, tmp_path: Path) -> None:
    place = tmp_path.joinpath(*source.split(".")).with_suffix(".py")
    place.parent.mkdir(parents=True)
    place.write_text(_BINDINGS)
    program = tmp_path / "program.py"
    program.write_text(_USER.format(source=source))
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['OWN_SITE'] = 'of the environment'\n")
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"}
    for command in (["program.py"], [sys.executable, "program.py"]):
        done = subprocess.run(
            [sys.executable, "-m", "warpwright", "run", "--gpu", "a100", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "counted of the environment" in done.stdout


_PARENT = """
import os
import subprocess
import sys
from pathlib import Path
child = (
    "import os; from pathlib import Path; "
    "print(os.environ['WARPWRIGHT_LIBRARIES'] + '/libcudart.so.13' in Path('/proc/self/maps').read_text(), os.environ['OWN_SITE'])"
)
# A path of its own, as that of PyTorch's compile workers.
environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
subprocess.run([sys.executable, "-c", child], env=environment, check=True)
assert Path(sys.path[0]).samefile(Path(__file__).parent)
"""


@pytest.mark.ci
@pytest.mark.parametrize("separate", [False, True])
def test_children_whose_search_path_is_their_parents_load_the_drop_in_libraries(separate: bool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_PARENT)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import os\nos.environ['OWN_SITE'] = 'of the environment'\n")
    done = subprocess.run(
        [sys.executable, "-m", "warpwright", "run", "--gpu", "a100", *[sys.executable] * separate, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{Path(__file__).parents[1]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "True of the environment" in done.stdout


class _Nvml:
    """Calls of NVML by name; every call is checked."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")

    def __call__(self, name: str, *arguments: Any) -> None:
        code = self.library[name](*arguments)
        assert code == 0, f"{name} returned {code}"

    def text(self, name: str, *arguments: Any) -> str:
        place = ctypes.create_string_buffer(96)
        self(name, *arguments, place, 96)
        return place.value.decode()

    def word(self, name: str, *arguments: Any, kind: Any = ctypes.c_uint32) -> int:
        place = kind()
        self(name, *arguments, ctypes.byref(place))
        return int(place.value)


@pytest.fixture
def nvml() -> Iterator[_Nvml]:
    with attached():
        library = _Nvml()
        library("nvmlInit_v2")
        yield library
        library("nvmlShutdown")


def test_nvml_tells_of_the_chip(nvml: _Nvml) -> None:
    assert nvml.word("nvmlDeviceGetCount_v2") == 1
    device = ctypes.c_uint64(nvml.word("nvmlDeviceGetHandleByIndex_v2", 0, kind=ctypes.c_uint64))
    assert nvml.text("nvmlDeviceGetName", device) == "NVIDIA A100-SXM4-40GB (simulated)"
    assert nvml.word("nvmlDeviceGetNumGpuCores", device) == 6912
    assert nvml.word("nvmlDeviceGetMaxClockInfo", device, 1) == 1410
    memory = (ctypes.c_uint64 * 3)()
    nvml("nvmlDeviceGetMemoryInfo", device, memory)
    assert memory[0] == 40 << 30
    assert memory[1] + memory[2] == memory[0]
    for text in (b"0000:01:00.0", b"00000000:01:00.0", b"01:00"):
        assert (
            nvml.word("nvmlDeviceGetHandleByPciBusId_v2", ctypes.c_char_p(text), kind=ctypes.c_uint64) == device.value
        )
    assert nvml.library.nvmlDeviceGetHandleByPciBusId_v2(b"0000:02:00.0", ctypes.byref(device)) == 6
    assert nvml.text("nvmlSystemGetProcessName", os.getpid()) == os.path.realpath(sys.executable)


def test_nvml_refuses_what_there_is_not(nvml: _Nvml) -> None:
    temperature, device = ctypes.c_uint32(), ctypes.c_uint64(0x6000)
    assert nvml.library.nvmlDeviceGetTemperature(device, 0, ctypes.byref(temperature)) == 3
    assert nvml.library.nvmlDeviceGetIndex(ctypes.c_uint64(1), ctypes.byref(temperature)) == 2
    assert nvml.library.nvmlDeviceGetName(device, ctypes.create_string_buffer(4), 4) == 7
    nvml("nvmlShutdown")
    assert nvml.library.nvmlDeviceGetCount_v2(ctypes.byref(temperature)) == 1
    nvml("nvmlInit_v2")


def run_program(folder: Path) -> subprocess.CompletedProcess[str]:
    """``program.py`` of a folder on a simulated A100."""
    return subprocess.run(
        [sys.executable, "-m", "warpwright", "run", "--gpu", "a100", "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )


_LATE = """
import ctypes
import os
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0

class Last:
    def __init__(self):
        self.me = self
        self.unload, self.wait, self.write = cuda.cuModuleUnload, cuda.cuCtxSynchronize, os.write
        self.current, self.place = cuda.cuCtxGetCurrent, ctypes.byref(ctypes.c_uint64())
    def __del__(self):
        self.write(1, b"at the end: %d %d %d" % (self.unload(1), self.current(self.place), self.wait()))

ctypes.last = Last()
"""


@pytest.mark.ci
def test_calls_of_destructors_when_the_interpreter_ends_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_LATE)
    done = run_program(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("at the end: 0 0 0")


@pytest.mark.ci
def test_what_is_given_back_or_waited_for_behind_the_interpreters_end_succeeds(tmp_path: Path) -> None:
    """C++ objects of packages call after Python; a card's driver is there until the process runs its exit handlers."""
    (tmp_path / "program.py").write_text(
        "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); assert cuda.cuInit(0) == 0; cuda.warpwright_close();"
        "active = ctypes.c_int(9); flags = ctypes.c_uint(9);"
        "print(cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)), flags.value, active.value,"
        "cuda.cuMemFree_v2(ctypes.c_uint64(1)), cuda.cuStreamDestroy_v2(None), cuda.cuCtxSynchronize(), cuda.cuInit(0))"
    )
    done = run_program(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "0 0 0 0 0 0 4"


@pytest.mark.ci
@pytest.mark.parametrize("soname", ["libcudart.so.12", pytest.param("libcudart.so.13", marks=pytest.mark.ci)])
def test_a_destructor_may_choose_a_device_and_read_texts_behind_the_interpreters_end(
    soname: str, tmp_path: Path
) -> None:
    """PyTorch's communicators go to their device at the end of the process, and print what failed."""
    (tmp_path / "program.py").write_text(
        f"import ctypes; runtime = ctypes.CDLL({soname!r}); runtime.cudaGetErrorString.restype = ctypes.c_char_p;"
        "place = ctypes.c_int(-1); assert runtime.cudaGetDevice(ctypes.byref(place)) == 0; runtime.warpwright_close();"
        "place.value = -1;"
        "print(runtime.cudaGetDevice(ctypes.byref(place)), place.value, runtime.cudaSetDevice(0), runtime.cudaMalloc(None, ctypes.c_size_t(4)),"
        "runtime.cudaGetErrorString(4).decode())"
    )
    done = run_program(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "0 0 0 4 driver shutting down"


def test_python_process_finds_our_runtime_by_its_name() -> None:
    with attached():
        for soname, version in (("libcudart.so.12", 12090), ("libcudart.so.13", 13000)):
            place = ctypes.c_int()
            assert ctypes.CDLL(soname).cudaRuntimeGetVersion(ctypes.byref(place)) == 0
            assert place.value == version


@pytest.mark.ci
def test_pytest_has_the_driver_before_a_conftest_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\nassert cuda.cuInit(0) == 0\n"
    )
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--warpwright=a100"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

"""Code for another architecture than the chip's: PTX is assembled without what the chip lacks, machine code is refused by name."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

import pytest

from tests.driver_library import VECTOR_ADD
from tests.test_driver_runtime import Dim3, runtime
from warpwright.driver import results
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.module_images import compile_image
from warpwright.toolchain import LinkError, link_ptx

__all__ = ["runtime"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

HEAD = ".version 7.8\n.target sm_90\n.address_size 64\n"
PLAIN = """
.visible .entry plain(.param .u64 out)
{ // {
    .reg .u64 %d; .reg .u32 %r;
    griddepcontrol.wait;
    ld.param.u64 %d, [out];
    { mov.u32 %r, 7; }
    st.global.u32 [%d], %r;
    griddepcontrol.launch_dependents;
    ret;
}
"""
OF_CLUSTERS = """
.visible .entry in_cluster(
    .param .u64 out
)
.maxntid 64, 1, 1
{
    .reg .u64 %d; .reg .u32 %r;
    ld.param.u64 %d, [out];
    mov.u32 %r, %cluster_ctarank;
    st.global.u32 [%d], %r;
    ret;
}
"""


def fatbin(kind: int, arch: int, payload: bytes) -> bytes:
    """A container with one entry: PTX (1) or machine code (2)."""
    payload += b"\0" * (8 - len(payload) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), 0, 0, 0, 7, arch, 0, 0, 0x11, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(payload)) + entry + payload


def test_ptx_keeps_the_architecture_that_it_was_made_for() -> None:
    # CUB and Thrust choose their kernels by it, and reject one that they were not built for.
    for arch in (75, 80, 90):
        text = VECTOR_ADD.replace("sm_70", f"sm_{arch}").replace("7.0", "8.0")
        made = compile_image(text.encode(), 80, "a100", "program")
        assert (made.module.ptx_version, made.kernels["add"].arch) == (arch, 80)


def test_kernels_that_the_chip_cannot_run_are_left_out_and_named(capfd: pytest.CaptureFixture[str]) -> None:
    made = compile_image(fatbin(1, 90, (HEAD + PLAIN + OF_CLUSTERS).encode()), 80, "a100", "app")
    assert list(made.kernels) == ["plain"]
    assert made.refused == {
        "in_cluster": "the kernel in_cluster of app is PTX for sm_90 and uses what a100 (sm_80) does not have "
        "(Feature '%cluster_ctarank' requires .target sm_90 or higher): build with -gencode arch=compute_80,code=sm_80 as well, or take a release of the package that has it"
    }
    assert "1 of 2 kernels of app use what a100 does not have; launches of them fail" in capfd.readouterr().err


def test_ptx_of_which_nothing_is_left_says_what_to_build() -> None:
    with pytest.raises(CudaError) as caught:
        compile_image((HEAD + OF_CLUSTERS).encode(), 80, "a100", "app")
    assert caught.value.code == results.INVALID_PTX
    head, *lines = caught.value.message.splitlines()
    assert head == (
        "every kernel of app is PTX for sm_90 and uses what a100 (sm_80) does not have: "
        "build with -gencode arch=compute_80,code=sm_80 as well, or take a release of the package that has it"
    )
    assert any("app.ptx:12: error: Feature '%cluster_ctarank'" in line for line in lines), lines


def test_errors_that_no_older_architecture_explains_stay() -> None:
    with pytest.raises(CudaError) as caught:
        compile_image((HEAD.replace("90", "80") + PLAIN.replace("7;", "7, 8;")).encode(), 80, "a100", "app")
    assert caught.value.code == results.INVALID_PTX
    assert "every kernel" not in caught.value.message
    with pytest.raises(LinkError):
        link_ptx(HEAD + "nonsense\n" + PLAIN, "90")


def test_of_several_newer_texts_the_nearest_is_taken() -> None:
    texts = {arch: VECTOR_ADD.replace("sm_70", f"sm_{arch}").replace("7.0", "8.6") for arch in (90, 100)}
    both = [fatbin(1, arch, text.encode()) for arch, text in texts.items()]
    joined = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(len(one) - 16 for one in both)) + b"".join(
        x[16:] for x in both
    )
    assert compile_image(joined, 80, "a100", "app").module.ptx_version == 90


def test_launch_of_machine_code_for_another_chip_says_what_to_build(
    runtime: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    cubin = link_ptx(VECTOR_ADD.replace("sm_70", "sm_90").replace("7.0", "8.0"), "90").cubin
    image = ctypes.create_string_buffer(fatbin(2, 90, cubin))
    wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(image), 0))
    register = runtime["__cudaRegisterFatBinary"]
    register.restype = ctypes.c_void_p
    handle, host = ctypes.c_void_p(register(wrapper)), ctypes.create_string_buffer(8)
    runtime["__cudaRegisterFunction"](handle, host, b"add", b"add", -1, None, None, None, None, None)
    runtime["__cudaRegisterFatBinaryEnd"](handle)
    kernel = ctypes.c_void_p()
    # A host stub asks for its kernel once; only the launch after that can report an error.
    assert runtime["__cudaGetKernel"](ctypes.byref(kernel), host) == 0
    one = Dim3(1, 1, 1)
    for target in (kernel, host):
        assert runtime.cudaLaunchKernel(target, one, one, (ctypes.c_void_p * 3)(), ctypes.c_size_t(0), None) == 209
        assert runtime.cudaGetLastError() == 209
    assert (
        "holds machine code for sm_90 alone and no PTX, and a100 runs that of sm_80: "
        "build with -gencode arch=compute_80,code=sm_80 as well, or take a release of the package that has it"
    ) in capfd.readouterr().err
    unknown = ctypes.c_void_p(64)
    assert runtime.cudaLaunchKernel(unknown, one, one, (ctypes.c_void_p * 3)(), ctypes.c_size_t(0), None) == 98
    assert runtime.cudaGetLastError() == 98

"""Libraries of the runtime: code that a program loads itself, and kernels by handle (CUDA 12.8 and later)."""

from __future__ import annotations

from warpwright.driver import functions
from warpwright.driver.runtime.calls import runtime, same
from warpwright.driver.runtime.registration import function_of


@runtime("cudaKernelSetAttributeForDevice")
def set_attribute(kernel: int, number: int, value: int, device: int) -> None:
    functions.set_kernel_attribute(number, value, kernel, device)


@runtime("cudaFuncGetParamInfo")
def parameter(host: int, index: int, offset: int, size: int) -> int | None:
    return functions.parameter(function_of(host).handle, index, offset, size)


for _name in (
    "LoadData",
    "LoadFromFile",
    "Unload",
    "GetKernel",
    "GetKernelCount",
    "EnumerateKernels",
    "GetGlobal",
    "GetManaged",
    "GetUnifiedFunction",
):
    same(f"cudaLibrary{_name}", f"cuLibrary{_name}")

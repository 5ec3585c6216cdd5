"""Functions that the driver provides to kernels: printf, malloc, free, assertion failures, kernel launches.

Compiled code calls them by CUDA's ABI: arguments in registers from R4 on, each aligned to its size, the result in R4 (and
R5), the return address in R20 and R21, before sm_70 on the reconvergence stack (read from CUDA 12.9's machine code for
sm_60, sm_70, sm_80 and sm_90).  Here each is one operation, ``service``, whose arguments are 32-bit words.
"""

from __future__ import annotations

SERVICES: dict[str, tuple[int, ...]] = {
    "vprintf": (8, 8),
    "malloc": (8,),
    "free": (8,),
    "__assertfail": (8, 8, 4, 8, 8),
    # kernel, grid, block, bytes of shared memory; returns the address for the parameters
    "__cuda_syscall_cnpv2GetParameterBufferV2": (8, 4, 4, 4, 4, 4, 4, 4),
    # address of the parameters, stream
    "__cuda_syscall_cnpv2LaunchDeviceV2": (8, 8),
    "__cuda_syscall_cnpv2StreamCreate": (8, 4),
    "__cuda_syscall_cnpv2StreamDestroy": (8,),
    "__cuda_syscall_cnpv2SetLastError": (4,),
    "__cuda_syscall_cnpv2GetLastError": (),
    # handle of a graph condition, value
    "cudaGraphSetConditional": (8, 4),
    # executable graph, one of three streams
    "cudaGraphLaunch": (8, 8),
    # node of a graph; offset, address and bytes of a parameter
    "cudaGraphKernelNodeSetParam": (8, 8, 8, 8),
    # node, grid
    "cudaGraphKernelNodeSetGridDim": (8, 12),
    # node, whether it runs
    "cudaGraphKernelNodeSetEnabled": (8, 4),
    # address and number of updates
    "cudaGraphKernelNodeUpdatesApply": (8, 8),
}
"""Size of each argument in bytes, by name; an argument of more than 8 bytes is a structure of 32-bit words."""
RESULT_BYTES = {
    "vprintf": 4,
    "malloc": 8,
    "__cuda_syscall_cnpv2GetParameterBufferV2": 8,
    "__cuda_syscall_cnpv2LaunchDeviceV2": 4,
    "__cuda_syscall_cnpv2StreamCreate": 4,
    "__cuda_syscall_cnpv2StreamDestroy": 4,
    "__cuda_syscall_cnpv2SetLastError": 4,
    "__cuda_syscall_cnpv2GetLastError": 4,
    "cudaGraphLaunch": 4,
    "cudaGraphKernelNodeSetParam": 4,
    "cudaGraphKernelNodeSetGridDim": 4,
    "cudaGraphKernelNodeSetEnabled": 4,
    "cudaGraphKernelNodeUpdatesApply": 4,
}
LAUNCHES = "__cuda_syscall_cnpv2GetParameterBufferV2"
"""The service that every kernel with device-side launches calls."""
ENDING = frozenset(("__assertfail",))
"""Services that do not return."""
SERVICE_BYTES = 32
"""Distance of their code addresses: a multiple of every encoding's instruction size."""
FIRST_REGISTER, RETURN_REGISTER = 4, 20


def argument_registers(name: str) -> list[int]:
    """Registers that hold a service's words, in order."""
    found: list[int] = []
    following = FIRST_REGISTER
    for size in SERVICES[name]:
        count = size // 4
        aligned = count if count <= 2 else 1
        following = -(-following // aligned) * aligned
        found += range(following, following + count)
        following += count
    return found

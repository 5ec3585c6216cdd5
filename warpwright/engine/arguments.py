"""Kernel arguments: packs Python values into the bytes of a kernel's parameters.

A cubin gives the size and offset of each parameter and nothing else.  PTX adds whether a scalar is a float, and
CUDA C++ adds names, pointee types and const.  :func:`describe_parameters` combines what is available of the three;
:func:`pack` turns Python values into the parameter bytes of constant bank 0 and moves host arrays to the device.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import ArgumentError
from warpwright.isa.program import Program
from warpwright.toolchain.demangle import plain_name

POINTER_BYTES = 8

# C++ element type -> NumPy dtype names that an array of it may have.  Signedness need not match.
_POINTEES: dict[str, tuple[str, ...]] = {
    "float": ("float32",),
    "double": ("float64",),
    "half": ("float16",),
    "__half": ("float16",),
    "__nv_bfloat16": ("bfloat16",),
    "short": ("int16", "uint16"),
    "int": ("int32", "uint32"),
    "unsigned": ("uint32", "int32"),
    "long": ("int64", "uint64"),
    "int16_t": ("int16", "uint16"),
    "uint16_t": ("uint16", "int16"),
    "int32_t": ("int32", "uint32"),
    "uint32_t": ("uint32", "int32"),
    "int64_t": ("int64", "uint64"),
    "uint64_t": ("uint64", "int64"),
    "size_t": ("uint64", "int64"),
}
_QUALIFIERS = re.compile(
    r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|typename|enum)\b"
)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PTX_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(\.ptr\b)?[^,\n\[]*?(\[\d+\])?\s*(?:,|$|\n)")


@dataclass(frozen=True, slots=True)
class ParameterType:
    """One parameter of a kernel, as far as known."""

    kernel: str
    ordinal: int
    offset_bytes: int
    size_bytes: int
    kind: str = "unknown"
    """``pointer``, ``integer``, ``float``, ``bytes`` (a struct) or ``unknown`` (from a cubin alone)."""
    name: str = ""
    declared: str = ""
    """Its C++ type as written in the source: ``const float *``."""
    const: bool = False
    """True if it points to const: the array is not copied back and may be read-only."""
    dtypes: tuple[str, ...] = ()
    """NumPy dtypes that match the pointee; empty if any does."""

    def __str__(self) -> str:
        """``argument 2 'x' of saxpy``; arguments are numbered from 1."""
        name = f" '{self.name}'" if self.name else ""
        return f"argument {self.ordinal + 1}{name} of {self.kernel}"

    @property
    def wanted(self) -> str:
        """The accepted values of the parameter, as text for a message."""
        sized = f"{self.size_bytes} byte{'s' if self.size_bytes != 1 else ''}"
        if self.declared:
            return f"{self.declared} ({sized})"
        words = {"pointer": "a pointer", "integer": "an integer", "float": "a float", "bytes": "a struct"}
        return f"{words[self.kind]} of {sized}" if self.kind in words else sized


def _split_top_level(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "(<[{"
        depth -= c in ")>]}"
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in [*parts, text[start:]] if p.strip() and p.strip() != "void"]


def _from_source(source: str, kernel: str) -> list[tuple[str, str]] | None:
    """(declared type, name) of each parameter of a kernel in CUDA C++ text, or None if the kernel is not found."""
    text = _COMMENTS.sub(" ", source)
    base = re.escape(kernel.rsplit("::", 1)[-1])
    for match in re.finditer(rf"__global__\b[^;{{}}]*?\b{base}\s*\(", text):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += text[end] == "("
            depth -= text[end] == ")"
            end += 1
        found = []
        for part in _split_top_level(text[match.end() : end - 1]):
            part = re.sub(r"=.*$", "", part, flags=re.DOTALL).strip()
            named = re.match(r"^(.*?[\s*&>])(\w+)\s*(\[[^\]]*\])?$", part, re.DOTALL)
            if named is None:
                return None
            declared = re.sub(r"\b__restrict(__)?\b|\b__grid_constant__\b", " ", named[1]) + ("*" if named[3] else "")
            declared = re.sub(r"\s+", " ", declared).strip()
            found.append((re.sub(r"\s*(\*+)$", r" \1", declared), named[2]))
        return found
    return None


def _pointee_dtypes(declared: str) -> tuple[str, ...]:
    """NumPy dtypes for ``const float *`` and similar types; () if the element type is not a known number."""
    if declared.count("*") != 1:
        return ()
    words = _QUALIFIERS.sub(" ", declared.split("*")[0]).split()
    if "char" in words or not words:
        return ()
    if "unsigned" in words or "signed" in words:
        others = [w for w in words if w not in ("unsigned", "signed", "int")]
        words = others or ["int"]
    elif words[0] in ("short", "long"):
        words = words[:1]
    return _POINTEES.get(words[0], ()) if len(set(words)) == 1 else ()


def _scalar_kind(declared: str) -> str:
    """``integer`` or ``float`` for C++ arithmetic types; anything else stays ``unknown``."""
    words = set(_QUALIFIERS.sub(" ", declared).split())
    if words and words <= {"unsigned", "signed", "char", "short", "int", "long", "bool", "size_t"}:
        return "integer"
    if words and words <= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}:
        return "integer"
    return "float" if words in ({"float"}, {"double"}, {"half"}, {"__half"}) else "unknown"


def _from_ptx(ptx: str, symbol: str) -> list[str] | None:
    """Kind of each parameter of an entry point in PTX text, or None if there is no such entry."""
    match = re.search(rf"\.entry\s+{re.escape(symbol)}\s*\(([^)]*)\)", ptx)
    if match is None:
        return None
    kinds = []
    for ptx_type, pointer, array in _PTX_PARAMETER.findall(match[1]):
        if array:
            kinds.append("bytes")
        elif pointer:
            kinds.append("pointer")
        elif ptx_type in ("f16", "f32", "f64"):
            kinds.append("float")
        else:
            kinds.append("unknown" if ptx_type in ("u64", "b64", "b32", "b16") else "integer")
    return kinds


def describe_parameters(program: Program, source: str | None = None, ptx: str | None = None) -> list[ParameterType]:
    """The known properties of each parameter of a kernel.

    Args:
        program: gives sizes and offsets.
        source: CUDA C++ text, for names, pointee types and const.
        ptx: PTX text, for float or integer.
    """
    shown = plain_name(program.name)
    ordered = sorted(program.parameters, key=lambda p: p.ordinal)
    kinds = _from_ptx(ptx, program.name) if ptx else None
    if kinds is None or len(kinds) != len(ordered):
        kinds = ["unknown"] * len(ordered)
    declared = _from_source(source, shown) if source else None
    if declared is None or len(declared) != len(ordered):
        declared = [("", "")] * len(ordered)
    described = []
    for parameter, kind, (c_type, name) in zip(ordered, kinds, declared, strict=True):
        is_pointer = c_type.endswith("*") and parameter.size_bytes == POINTER_BYTES
        described.append(
            ParameterType(
                kernel=shown,
                ordinal=parameter.ordinal,
                offset_bytes=parameter.offset_bytes,
                size_bytes=parameter.size_bytes,
                kind="pointer" if is_pointer else _scalar_kind(c_type) if kind == "unknown" else kind,
                name=name,
                declared=c_type,
                const=is_pointer and re.search(r"\bconst\b", c_type.rsplit("*", 1)[0]) is not None,
                dtypes=_pointee_dtypes(c_type) if is_pointer else (),
            )
        )
    return described


class DevicePointer(Protocol):
    """An object on the device: returns its address, or raises if it was freed.

    It may have a ``dtype``, and a ``memory``, the only one in which the address is valid.
    """

    def device_address(self) -> int: ...


class ObjectHandle(Protocol):
    """A texture or surface object: returns its handle, or raises if it was destroyed.

    It may have a ``memory``, the only one whose table knows the handle.
    """

    def object_handle(self) -> int: ...


def is_device_pointer(value: object) -> TypeGuard[DevicePointer]:
    """Whether it is a :class:`DevicePointer`; ``isinstance`` with a protocol takes a hundred times as long."""
    return hasattr(value, "device_address")


def is_object_handle(value: object) -> TypeGuard[ObjectHandle]:
    """Whether it is an :class:`ObjectHandle`."""
    return hasattr(value, "object_handle")


@dataclass(slots=True)
class HostBuffer:
    """A range of host memory that is copied to the device for one launch."""

    host_address: int
    size_bytes: int
    name: str
    writable: bool
    allocation: Allocation | None = None
    keep: list[npt.NDArray[Any]] = field(default_factory=list)

    def bytes(self) -> npt.NDArray[np.uint8]:
        """The host bytes, shape (size_bytes,)."""
        raw = (ctypes.c_uint8 * self.size_bytes).from_address(self.host_address)
        return np.ctypeslib.as_array(raw)


@dataclass(slots=True)
class PackedArguments:
    """Parameter bytes, with the host arrays that they point to; use as a context manager around the launch."""

    memory: DeviceMemory
    parameters: bytearray
    buffers: list[HostBuffer] = field(default_factory=list)

    def copy_back(self) -> None:
        """Copy back to the host arrays that the kernel may have written."""
        for buffer in self.buffers:
            if buffer.writable and buffer.allocation is not None and buffer.size_bytes:
                buffer.bytes()[...] = self.memory.view(buffer.allocation.address, buffer.size_bytes)

    def release(self) -> None:
        """Free the device copies."""
        for buffer in self.buffers:
            if buffer.allocation is not None and not buffer.allocation.freed:
                self.memory.free(buffer.allocation)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def pack(
    parameters: Sequence[ParameterType], kernel: str, values: Sequence[Any], memory: DeviceMemory
) -> PackedArguments:
    """Check Python values against parameters, copy host arrays to the device and lay out the parameter bytes.

    Python numbers take the parameter's type: a float for a 4-byte parameter becomes float32, an int for a
    parameter that PTX declares as float becomes a float.  NumPy scalars, structs (``np.void``, bytes, ctypes)
    must have exactly the parameter's size.  Arrays that overlap on the host overlap on the device.

    Raises:
        ArgumentError: names the argument, what is wanted and what was given.
    """
    if len(values) != len(parameters):
        listed = ", ".join(f"{p.declared} {p.name}".replace("* ", "*") if p.name else p.wanted for p in parameters)
        raise ArgumentError(
            f"{kernel} takes {_plural(len(parameters), 'argument')}"
            + (f" ({listed})" if listed else "")
            + f", not {len(values)}"
        )
    size = max((p.offset_bytes + p.size_bytes for p in parameters), default=0)
    packed = PackedArguments(memory, bytearray(size))
    pointers: list[tuple[ParameterType, npt.NDArray[Any]]] = []
    for parameter, value in zip(parameters, values, strict=True):
        if isinstance(value, np.ndarray) and (value.ndim > 0 or parameter.kind == "pointer"):
            _check_array(parameter, value)
            pointers.append((parameter, value))
            continue
        if getattr(value, "memory", memory) is not memory and (is_device_pointer(value) or is_object_handle(value)):
            raise ArgumentError(
                f"{parameter}: it is in another GPU's memory; create it with the GPU that runs {kernel}, "
                "or pass a copy on the host (its get())"
            )
        raw = _scalar_bytes(parameter, value)
        packed.parameters[parameter.offset_bytes : parameter.offset_bytes + parameter.size_bytes] = raw
    try:
        _place_arrays(pointers, packed)
    except BaseException:
        packed.release()
        raise
    return packed


def _place_arrays(pointers: Sequence[tuple[ParameterType, npt.NDArray[Any]]], packed: PackedArguments) -> None:
    """Copy arrays in, one allocation for each group of arrays that overlap on the host.

    Device addresses depend only on the order of the arguments, never on host addresses: addresses determine cache sets
    and memory channels, and the same program must take the same cycles every time.
    """
    ordered = sorted(pointers, key=lambda p: int(p[1].ctypes.data))
    held: list[tuple[ParameterType, int, HostBuffer]] = []
    for parameter, array in ordered:
        start, writable = int(array.ctypes.data), not parameter.const
        last = packed.buffers[-1] if packed.buffers else None
        if last is not None and array.nbytes and start < last.host_address + last.size_bytes:
            last.size_bytes = max(last.size_bytes, start + array.nbytes - last.host_address)
            last.writable |= writable
            last.keep.append(array)
        else:
            last = HostBuffer(start, array.nbytes, str(parameter), writable, keep=[array])
            packed.buffers.append(last)
        held.append((parameter, start, last))
    first_use = {id(buffer): parameter.ordinal for parameter, _, buffer in sorted(held, key=lambda h: -h[0].ordinal)}
    packed.buffers.sort(key=lambda buffer: first_use[id(buffer)])
    for buffer in packed.buffers:
        buffer.allocation = packed.memory.allocate(buffer.size_bytes, buffer.name, of_program=True)
        if buffer.size_bytes:
            packed.memory.view(buffer.allocation.address, buffer.size_bytes)[...] = buffer.bytes()
    for parameter, start, buffer in held:
        assert buffer.allocation is not None
        address = buffer.allocation.address + start - buffer.host_address
        struct.pack_into("<Q", packed.parameters, parameter.offset_bytes, address)


def _check_array(parameter: ParameterType, array: npt.NDArray[Any]) -> None:
    given = f"an array of {array.dtype} with shape {array.shape}"
    if parameter.size_bytes != POINTER_BYTES or parameter.kind in ("integer", "float", "bytes"):
        raise ArgumentError(f"{parameter} takes {parameter.wanted}, not {given}")
    if array.dtype.hasobject:
        raise ArgumentError(f"{parameter}: an array of Python objects has no bytes that a kernel could read")
    if not array.dtype.isnative:
        raise ArgumentError(
            f"{parameter}: the array's byte order is not the device's (dtype {array.dtype.str}); "
            "pass array.astype(array.dtype.newbyteorder('='))"
        )
    if not array.flags.c_contiguous:
        raise ArgumentError(
            f"{parameter}: the array is not C-contiguous (shape {array.shape}, strides {array.strides}); "
            "pass np.ascontiguousarray(array)"
        )
    if not array.flags.writeable and not parameter.const:
        raise ArgumentError(
            f"{parameter}: the array is read-only and the kernel may write to it; pass a copy, or declare the parameter const"
        )
    if not _dtype_fits(parameter.dtypes, array.dtype):
        raise ArgumentError(
            f"{parameter} is {parameter.declared}, but the array is {array.dtype}; pass array.astype(np.{parameter.dtypes[0]})"
        )


def _dtype_fits(wanted: tuple[str, ...], dtype: np.dtype[Any]) -> bool:
    if not wanted or dtype.names is not None or dtype.name in wanted:
        return True
    # Complex numbers are pairs of floats; 1-byte data may be raw bytes of anything; bfloat16 bits may be passed as uint16.
    same_bits = {"complex64": "float32", "complex128": "float64"}
    if dtype.itemsize == 1 and dtype.kind in "uV":
        return True
    return same_bits.get(dtype.name) in wanted or ("bfloat16" in wanted and dtype.name == "uint16")


def _integer_bytes(parameter: ParameterType, value: int) -> bytes:
    bits = 8 * parameter.size_bytes
    if parameter.size_bytes > POINTER_BYTES:
        raise ArgumentError(f"{parameter} takes {parameter.wanted}, not the int {value}")
    if not -(1 << (bits - 1)) <= value < (1 << bits):
        raise ArgumentError(f"{parameter} takes {parameter.wanted}: {value} does not fit {bits} bits")
    return (value & ((1 << bits) - 1)).to_bytes(parameter.size_bytes, "little")


def _float_bytes(parameter: ParameterType, value: float) -> bytes:
    codes = {2: "<e", 4: "<f", 8: "<d"}
    if parameter.kind in ("integer", "pointer", "bytes") or parameter.size_bytes not in codes:
        raise ArgumentError(f"{parameter} takes {parameter.wanted}, not the float {value!r}")
    try:
        return struct.pack(codes[parameter.size_bytes], value)
    except OverflowError:
        if parameter.size_bytes != 4:
            raise
        # struct rejects values that round to infinity; the silicon's conversion does not.
        with np.errstate(over="ignore"):
            return bytes(np.float32(value).tobytes())


def _exact_bytes(parameter: ParameterType, raw: bytes, given: str) -> bytes:
    if len(raw) != parameter.size_bytes:
        raise ArgumentError(f"{parameter} takes {parameter.wanted}, not {given} of {_plural(len(raw), 'byte')}")
    return raw


def _numpy_scalar_bytes(parameter: ParameterType, value: np.generic) -> bytes:
    mismatch = (parameter.kind == "float" and value.dtype.kind in "iub") or (
        parameter.kind in ("integer", "pointer") and value.dtype.kind in "fc"
    )
    if mismatch or value.dtype.itemsize != parameter.size_bytes:
        raise ArgumentError(
            f"{parameter} takes {parameter.wanted}, not a NumPy {value.dtype} of {_plural(value.dtype.itemsize, 'byte')}"
        )
    return bytes(value.tobytes())


def _scalar_bytes(parameter: ParameterType, value: Any) -> bytes:
    """The bytes of one argument that is not a host array."""
    if type(value) in _PLAIN_NUMBERS:
        return _PLAIN_NUMBERS[type(value)](parameter, value)
    points = is_device_pointer(value)
    foreign: Any = None if points else getattr(value, "__cuda_array_interface__", None)
    if points or foreign is not None:
        dtype = getattr(value, "dtype", None)
        given = f"a device array of {dtype}" if dtype is not None else "a device pointer"
        if parameter.size_bytes != POINTER_BYTES or parameter.kind in ("integer", "float", "bytes"):
            raise ArgumentError(f"{parameter} takes {parameter.wanted}, not {given}")
        if isinstance(dtype, np.dtype) and not _dtype_fits(parameter.dtypes, dtype):
            raise ArgumentError(f"{parameter} is {parameter.declared}, but the device array is {dtype}")
        address = value.device_address() if is_device_pointer(value) else foreign["data"][0]
        return struct.pack("<Q", address)
    if is_object_handle(value):
        if parameter.size_bytes != POINTER_BYTES or parameter.kind in ("pointer", "float", "bytes"):
            raise ArgumentError(f"{parameter} takes {parameter.wanted}, not a {type(value).__name__.lower()} object")
        return struct.pack("<Q", value.object_handle())
    for accepts, convert in _CONVERSIONS:
        if isinstance(value, accepts):
            return convert(parameter, value)
    advice = "; pass np.array(...)" if isinstance(value, list | tuple) else ""
    raise ArgumentError(f"{parameter} takes {parameter.wanted}, not a {type(value).__name__}{advice}")


def _python_int_bytes(parameter: ParameterType, value: int) -> bytes:
    return _float_bytes(parameter, float(value)) if parameter.kind == "float" else _integer_bytes(parameter, value)


def _complex_bytes(parameter: ParameterType, value: complex) -> bytes:
    dtypes: dict[int, type[np.complexfloating[Any, Any]]] = {8: np.complex64, 16: np.complex128}
    if parameter.size_bytes not in dtypes:
        raise ArgumentError(f"{parameter} takes {parameter.wanted}, not the complex {value!r}")
    return bytes(dtypes[parameter.size_bytes](value).tobytes())


def _ctypes_simple_bytes(parameter: ParameterType, value: Any) -> bytes:
    return _exact_bytes(parameter, bytes(value), f"a {type(value).__name__}")


def _null_bytes(parameter: ParameterType, value: None) -> bytes:
    if parameter.size_bytes != POINTER_BYTES or parameter.kind in ("integer", "float", "bytes"):
        raise ArgumentError(f"{parameter} takes {parameter.wanted}, not None")
    return bytes(POINTER_BYTES)


# Test NumPy scalars first: np.float64 is also a Python float, but its size must be checked.
_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[ParameterType, Any], bytes]], ...] = (
    (np.void, lambda p, v: _exact_bytes(p, v.tobytes(), "a struct")),
    (np.generic, _numpy_scalar_bytes),
    (np.ndarray, lambda p, v: _numpy_scalar_bytes(p, v[()])),
    (int, _python_int_bytes),
    (float, _float_bytes),
    (complex, _complex_bytes),
    ((bytes, bytearray, memoryview), lambda p, v: _exact_bytes(p, bytes(v), "bytes")),
    ((ctypes.Structure, ctypes.Union, ctypes.Array), _ctypes_simple_bytes),
    (ctypes._SimpleCData, _ctypes_simple_bytes),
    (type(None), _null_bytes),
)
_PLAIN_NUMBERS: dict[type, Callable[[ParameterType, Any], bytes]] = {int: _python_int_bytes, float: _float_bytes}
"""Those of Python's own numbers, which need no search."""

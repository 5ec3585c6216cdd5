"""Memory operations of streams: writes of words and waits for words, single, in batches, or as graph nodes.

Errors follow an H200's driver (13.0; the calls of ``bench/driver_answers.py``).
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from dataclasses import dataclass

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.copies import written
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Context, Stream, state
from warpwright.driver.graphs import Node, submit, vertex
from warpwright.driver.memory import holder
from warpwright.driver.work_order import host_waits_for
from warpwright.errors import UnsupportedError

MEMORY_OPERATIONS = 12
"""CU_GRAPH_NODE_TYPE_BATCH_MEM_OP."""
_WAIT_32, _WRITE_32, _FLUSH, _WAIT_64, _WRITE_64, _BARRIER = range(1, 7)
"""CUstreamBatchMemOpType."""
_BITS = {_WAIT_32: 32, _WRITE_32: 32, _WAIT_64: 64, _WRITE_64: 64}
_MOST = 255
"""Operations of a batch."""
_OPERATION, _OPERATION_BYTES = "i4xQQI4xQ8x", 48
"""CUstreamBatchMemOpParams: kind, address, value, flags, alias.  A barrier and a flush have their flags after the kind."""
_NODE = "QI4xQI4x"
"""CUDA_BATCH_MEM_OP_NODE_PARAMS: context, count, operations, flags."""
_WAIT_FLUSH = 1 << 30
"""CU_STREAM_WAIT_VALUE_FLUSH; no device here has remote writes to wait for."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One word written or waited for, or a barrier."""

    kind: int
    address: int = 0
    value: int = 0
    flags: int = 0

    def check(self) -> None:
        """Check an operation.

        Raises:
            CudaError: for an unknown kind or flag, an address that is misaligned or in no memory, or a wait for remote
            writes.
        """
        if self.kind == _FLUSH or (self.kind in (_WAIT_32, _WAIT_64) and self.flags & _WAIT_FLUSH):
            raise CudaError(results.NOT_SUPPORTED)
        if self.kind == _BARRIER:
            known = self.flags <= 1
        elif self.kind in (_WRITE_32, _WRITE_64):
            known = self.flags == 0
        else:
            known = self.kind in _BITS and self.flags <= 3
        if not known:
            raise CudaError(results.INVALID_VALUE)
        if self.kind != _BARRIER:
            size = _BITS[self.kind] // 8
            found = holder(self.address)
            if self.address % size or found is None or self.address + size > found.end:
                raise CudaError(results.INVALID_VALUE)

    def run(self) -> None:
        """Execute it now.

        Raises:
            UnsupportedError: if it waits for a word that does not have its value yet.
        """
        if self.kind == _BARRIER:
            return
        bits = _BITS[self.kind]
        if self.kind in (_WRITE_32, _WRITE_64):
            (cmemory.put32 if bits == 32 else cmemory.put64)(self.address, self.value & (1 << bits) - 1)
            written(self.address, bits // 8)
        elif not self.held():
            raise UnsupportedError("a graph waits for a word that is written later; submit the writer first")

    @property
    def waits(self) -> bool:
        return self.kind in (_WAIT_32, _WAIT_64)

    def held(self) -> bool:
        """Whether the word that it waits for, if any, has its value."""
        if not self.waits:
            return True
        bits = _BITS[self.kind]
        return self._held((cmemory.get32 if bits == 32 else cmemory.get64)(self.address), bits)

    def _held(self, found: int, bits: int) -> bool:
        """Whether a wait's condition holds: at least a value, equal to it, one of its bits set, or not all bits of both
        clear."""
        mask = (1 << bits) - 1
        value = self.value & mask
        return (
            (found - value) & (1 << (bits - 1)) == 0,
            found == value,
            found & value != 0,
            ~(found | value) & mask != 0,
        )[self.flags]

    def raw(self) -> bytes:
        """Its CUstreamBatchMemOpParams."""
        if self.kind == _BARRIER:
            return struct.pack("iI40x", self.kind, self.flags)
        return struct.pack(_OPERATION, self.kind, self.address, self.value, self.flags, 0)


@dataclass(eq=False, slots=True)
class MemoryOperations(Node):
    """Operations in a stream's order, in sequence."""

    operations: tuple[Operation, ...]
    kind = MEMORY_OPERATIONS

    def held(self) -> bool:
        """Whether the words of its initial waits have their values."""
        first = itertools.takewhile(lambda operation: operation.waits, self.operations)
        return all(operation.held() for operation in first)

    def parts(self) -> list[MemoryOperations]:
        """The same operations, split so that each wait after other work begins a part, because the work before it may
        be what ends it."""
        cuts = [n for n, (a, b) in enumerate(itertools.pairwise(self.operations), 1) if b.waits and not a.waits]
        edges = [0, *cuts, len(self.operations)]
        return [MemoryOperations(self.operations[a:b]) for a, b in itertools.pairwise(edges)]

    def starts_queue(self, stream: Stream) -> bool:
        return not self.held()

    def run(self, stream: Stream) -> None:
        # A word that one stream writes and another waits for orders their work.
        host_waits_for([stream])
        for operation in self.operations:
            operation.run()


def _operation(place: int) -> Operation:
    kind, address, value, flags, _ = cmemory.read(_OPERATION, place)
    return (
        Operation(kind, flags=cmemory.get32(place + 4))
        if kind in (_FLUSH, _BARRIER)
        else Operation(kind, address, value, flags)
    )


def _work(count: int, place: int, flags: int) -> MemoryOperations:
    """The operations of an array.

    Raises:
        CudaError: too many of them or none where there should be some, flags, or one that no stream does.
    """
    if flags or count > _MOST or (count and not place):
        raise CudaError(results.INVALID_VALUE)
    made = MemoryOperations(tuple(_operation(place + _OPERATION_BYTES * n) for n in range(count)))
    for operation in made.operations:
        operation.check()
    return made


def operations_work(pointer: int) -> MemoryOperations:
    """The operations of a CUDA_BATCH_MEM_OP_NODE_PARAMS."""
    context, count, place, flags = cmemory.read(_NODE, pointer)
    if not context:
        raise CudaError(results.INVALID_VALUE)
    state().handles.get(Context, context)
    return _work(count, place, flags)


@entry("cuStreamBatchMemOp_v2")
def batch(stream: int, count: int, place: int, flags: int) -> None:
    state().current()
    work = _work(count, place, flags)
    if not count:
        return
    queue = state().stream(stream)
    for part in work.parts() if queue.capture is None else [work]:
        submit(queue, part)


@entry("cuStreamBatchMemOp")
def first_batch(*_: int) -> int:
    # On a card, only for devices and drivers configured for it (a module parameter).
    return results.NOT_SUPPORTED


def _one(stream: int, kind: int, address: int, value: int, flags: int) -> None:
    state().current()
    operation = Operation(kind, address, value, flags)
    operation.check()
    submit(state().stream(stream), MemoryOperations((operation,)))


@entry("cuStreamWriteValue32_v2", "cuStreamWriteValue32")
def write_32(stream: int, address: int, value: int, flags: int) -> None:
    _one(stream, _WRITE_32, address, value, flags)


@entry("cuStreamWriteValue64_v2", "cuStreamWriteValue64")
def write_64(stream: int, address: int, value: int, flags: int) -> None:
    _one(stream, _WRITE_64, address, value, flags)


@entry("cuStreamWaitValue32_v2", "cuStreamWaitValue32")
def wait_32(stream: int, address: int, value: int, flags: int) -> None:
    _one(stream, _WAIT_32, address, value, flags)


@entry("cuStreamWaitValue64_v2", "cuStreamWaitValue64")
def wait_64(stream: int, address: int, value: int, flags: int) -> None:
    _one(stream, _WAIT_64, address, value, flags)


@entry("cuGraphBatchMemOpNodeGetParams")
def parameters(handle: int, place: int) -> int | None:
    """The node's structure; its operations stay where they are for as long as the graph lives."""
    one = vertex(handle)
    if not isinstance(one.work, MemoryOperations):
        return results.INVALID_VALUE
    raw = b"".join(operation.raw() for operation in one.work.operations)
    kept = ctypes.create_string_buffer(raw, max(len(raw), 1))
    one.graph.kept.append(kept)
    cmemory.write(_NODE, place, state().current().handle, len(one.work.operations), ctypes.addressof(kept), 0)
    return None

"""Where in a program a launch comes from: the NVTX ranges that are open, and PyTorch's module and operator.

``driver/nvtx.py`` opens and closes ranges as the program does, ``driver/pytorch_origins.py`` those of modules. Each thread has a stack of its own; ranges that any
thread may close are the process's. PyTorch names a range of an operator with the number of the node of the graph for the backward pass: the node's launches belong to the module
that made it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

_OPERATOR = re.compile(
    r"(?P<name>.*?)(?:, seq = (?P<sequence>\d+))?(?:, op_id = \d+)?(?:, (?:sizes|input_op_ids) = .*)?$"
)
"""A range of torch.autograd.profiler.emit_nvtx."""
_BACKWARD = "autograd::engine::evaluate_function: "
MOST_NODES = 1 << 18
"""Nodes of the backward pass whose module is known, so that memory does not grow with a program that never goes backward."""


@dataclass(frozen=True, slots=True)
class Module:
    """A PyTorch module."""

    path: str
    """From the outermost module, whose type begins it: ``GPT.blocks.0.qkv``."""
    type: str
    parameter_bytes: int = 0
    """Of its own parameters, without those of the modules within."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a launch was made."""

    ranges: tuple[str, ...] = ()
    """The program's own ranges, outermost first."""
    module: Module | None = None
    """The innermost one."""
    operator: str = ""
    """The outermost operator within the module, as PyTorch names it."""
    backward: bool = False
    allocated_bytes: int = 0
    """Device memory that the program's allocator has given out."""


@dataclass(frozen=True, slots=True)
class _Node:
    """Where a node of the graph for the backward pass was made."""

    ranges: tuple[str, ...] = ()
    module: Module | None = None


@dataclass(slots=True)
class _Operator:
    name: str
    evaluates: bool = False
    """Whether it evaluates a node of that graph."""
    node: _Node | None = None
    """The node, once an operator within has named it."""


@dataclass(slots=True)
class OpenRanges:
    """The ranges that are open in this process."""

    by_thread: dict[int, list[str | _Operator | Module]] = field(default_factory=dict)
    of_process: dict[int, str] = field(default_factory=dict)
    """By number."""
    allocated_bytes: Callable[[], int] = lambda: 0
    """What the program's allocator has given out."""
    _nodes: dict[int, _Node] = field(default_factory=dict)
    """By sequence number."""
    _started: int = 0

    def _stack(self) -> list[str | _Operator | Module]:
        # Threads of C++ have a Python state of their own for every call: what threading.local() holds would be lost.
        return self.by_thread.setdefault(threading.get_ident(), [])

    def push(self, name: str, is_operator: bool = False) -> int:
        """Open a range in this thread; returns how many were open before."""
        stack = self._stack()
        found = _OPERATOR.match(name)
        sequence = found["sequence"] if found else None
        if found is None or not (is_operator or sequence or "::" in found["name"]):
            stack.append(found["name"] if found else name)
        elif found["name"].startswith(_BACKWARD):
            stack.append(_Operator(found["name"].removeprefix(_BACKWARD), True))
        elif (outer := self._evaluating()) is not None:
            # Its own gradients are summed after the operator within has ended.
            outer.node = outer.node or (self._nodes.get(int(sequence)) if sequence else None)
            stack.append(_Operator(found["name"]))
        else:
            stack.append(_Operator(found["name"]))
            if sequence:
                self._remember(int(sequence), _Node(self._names(), self.innermost()))
        return len(stack) - 1

    def _evaluating(self) -> _Operator | None:
        """The range of the node that this thread evaluates."""
        return next((one for one in reversed(self._stack()) if isinstance(one, _Operator) and one.evaluates), None)

    def _names(self) -> tuple[str, ...]:
        return (*self.of_process.values(), *(one for one in self._stack() if isinstance(one, str)))

    def _remember(self, sequence: int, node: _Node) -> None:
        # A node has the number of the operator that begins last before it is made.
        self._nodes.pop(sequence, None)
        self._nodes[sequence] = node
        if len(self._nodes) > MOST_NODES:
            del self._nodes[next(iter(self._nodes))]

    def enter(self, module: Module) -> None:
        """A module's forward pass begins in this thread."""
        self._stack().append(module)

    def leave(self, module: Module) -> None:
        """It ends, and with it what was left open within."""
        stack = self._stack()
        for place in range(len(stack) - 1, -1, -1):
            if stack[place] is module:
                del stack[place:]
                return

    def pop(self) -> int:
        """Close this thread's last range; returns how many are left, or -1 if there was none."""
        stack = self._stack()
        if not stack or isinstance(stack[-1], Module):
            return -1
        stack.pop()
        return len(stack)

    def start(self, name: str) -> int:
        """Open a range of the process; returns its number."""
        self._started += 1
        self.of_process[self._started] = name
        return self._started

    def end(self, number: int) -> None:
        """Close a range of the process."""
        self.of_process.pop(number, None)

    def innermost(self) -> Module | None:
        """The module whose forward pass this thread is in."""
        return next((one for one in reversed(self._stack()) if isinstance(one, Module)), None)

    def origin(self) -> Origin:
        """Where a launch of this thread comes from."""
        module, operator = None, ""
        for one in self._stack():
            if isinstance(one, Module):
                module, operator = one, ""
            elif isinstance(one, _Operator):
                operator = operator or one.name
        names = self._names()
        evaluated = self._evaluating()
        if evaluated is not None and evaluated.node is not None:
            module, names = module or evaluated.node.module, tuple(dict.fromkeys((*evaluated.node.ranges, *names)))
        return Origin(names, module, operator, evaluated is not None, self.allocated_bytes())


open_ranges = OpenRanges()

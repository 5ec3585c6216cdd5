"""Object code of LLVM text: the target machine, LLVM's SROA pass or none, code generation, and the engine that loads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from warpwright.engine.jit import slow_path
from warpwright.engine.jit.host_machine import Registers, registers_of
from warpwright.engine.jit.named_cpu import check_cpu
from warpwright.environment import setting

_engines: list[Any] = []


@dataclass(slots=True)
class Target:
    """The machine for which code is generated."""

    machine: Any
    quick: Any
    """The same machine, for which code is generated without optimisation."""
    cpu: str
    features: str
    calls: slow_path.Calls
    registers: Registers

    @property
    def triple(self) -> str:
        """LLVM's triple of the machine."""
        return str(self.machine.triple)


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@cache
def make_target(cpu: str | None = None) -> Target:
    """The host's target machine, or one for a named CPU (its own features only)."""
    _initialise()
    cpu = cpu or setting("CPU", check_cpu, None)
    if cpu is None:
        name = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features().flatten()
        if llvm.get_process_triple().startswith("x86_64"):
            # Warps benefit from 512-bit vectors whatever the CPU's tuning prefers. LLVM warns about the option on other machines.
            features += ",-prefer-256-bit"
        calls = slow_path.host_calls()
    else:
        name, features = cpu, ""
        calls = slow_path.Calls(slow_path.host_calls().keeps_registers)
    kind = llvm.Target.from_triple(llvm.get_process_triple())
    options = {"cpu": name, "features": features, "jit": True, "reloc": "pic", "codemodel": "jitdefault"}
    machine = kind.create_target_machine(opt=1, **options)
    return Target(machine, kind.create_target_machine(opt=0, **options), name, features, calls, registers_of(machine))


MOST_CHOICES = 1_000_000
"""Maximum of (LLVM basic blocks times variables) for a function whose variables become registers.

In larger functions, most of which have calls through pointers, groups of a warp may be at many places, and each
variable would need a phi with as many values where the next group is selected.  Code generation would then take minutes
(a kernel of Numba's run-time with 3,844 blocks and 875 variables: 4.7 s without the phis, more than 100 s with them).
Such code waits for memory anyway, so optimising it does not pay (``memcpy_async`` of the CUDA headers on sm_70, 1,072
instructions: 5 s instead of 28).
"""

MOST_PHIS, LARGE_TEXT = 10_000, 500_000
"""Maximum number of phis of a module whose variables became registers, if its text had more than this many characters; beyond it they stay in memory.

The time of code generation grows with about the square of their number: 59 barriers of a tile in straight-line code (1,744 LLVM blocks, 330 variables) have
20,007 and take 20.5 s, 0.9 s in memory; 30 have 5,855 and take 2 s.
"""
MANY_CHOICES, FEWER_PHIS = 500_000, 5_000
"""Modules in which LLVM basic blocks times variables exceed the first number have the second as their maximum of phis: four waits for a ``cuda::barrier`` on sm_70, traced (2,084 LLVM blocks, 307
variables), have 7,575 phis and take 20 s, 2.4 s in memory.
"""


def optimise(module: Any, target: Target, variables: int) -> bool:
    """Promote variables to registers, unless there are too many; the rest is left to code generation.  Returns whether
    all functions are small."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(target.machine, options)
    manager = llvm.create_new_function_pass_manager()
    manager.add_sroa_pass()
    small = True
    for function in module.functions:
        if function.is_declaration:
            continue
        if variables * sum(1 for _ in function.blocks) <= MOST_CHOICES:
            manager.run(function, builder)
        else:
            small = False
    return small


def _parsed(text: str, target: Target) -> Any:
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    module.data_layout = str(target.machine.target_data)
    return module


def to_object(text: str, target: Target, whole: bool = False, is_large: bool = False, is_quick: bool = False) -> bytes:
    """Object code of a module's text.

    Args:
        whole: run all of LLVM's passes, for code that is compiled only once.
        is_large: run none of them; the variables are in memory anyway (``Storage.is_large``).
        is_quick: promote variables to registers, but generate code without optimisation.
    """
    module = _parsed(text, target)
    machine = target.quick if is_quick else target.machine
    if whole:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
    elif is_large or not optimise(module, target, text.count(" = alloca ")):
        machine = target.quick
    elif len(text) > LARGE_TEXT and _has_many_phis(module, text.count(" = alloca ")):
        module, machine = _parsed(text, target), target.quick
    data: bytes = machine.emit_object(module)
    return data


def _has_many_phis(module: Any, variables: int) -> bool:
    """Whether generating code for a module whose variables became registers would take too long."""
    choices = variables * sum(1 for function in module.functions for _ in function.blocks)
    return str(module).count(" = phi ") > (FEWER_PHIS if choices > MANY_CHOICES else MOST_PHIS)


def load_object(data: bytes, target: Target) -> Any:
    """An execution engine that holds the code; kept alive for the process."""
    empty = llvm.parse_assembly("")
    machine = target.machine
    # An engine copies its machine's options and does not keep the machine itself.
    engine = llvm.create_mcjit_compiler(empty, machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    _engines.append(engine)
    return engine

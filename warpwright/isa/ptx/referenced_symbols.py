"""Symbols that code refers to: variables, and functions whose address it takes."""

from __future__ import annotations

from warpwright.isa.ptx.syntax import Address, Function, Instruction, Module, Operand, Symbol, Vector


def referenced(functions: list[Function]) -> set[str]:
    """Names that the instructions of these functions mention."""
    found: set[str] = set()

    def visit(o: Operand | None) -> None:
        if isinstance(o, Symbol):
            found.add(o.name)
        elif isinstance(o, Address):
            visit(o.base)
            for part in o.more:
                visit(part)
        elif isinstance(o, Vector):
            for item in o.items:
                visit(item)

    for function in functions:
        for statement in function.statements:
            if isinstance(statement, Instruction):
                for operand in statement.operands:
                    visit(operand)
    return found


def address_taken(module: Module) -> set[str]:
    """Defined device functions whose address the code or a variable's initialiser takes."""
    defined = {f.name for f in module.functions.values() if f.defined and not f.is_kernel}
    found: set[str] = set()
    for function in module.functions.values():
        for statement in function.statements:
            if not isinstance(statement, Instruction):
                continue
            operands = statement.operands
            if statement.opcode == "call":
                continue
            for operand in operands:
                if isinstance(operand, Symbol) and operand.name in defined:
                    found.add(operand.name)
        for names in function.targets.values():
            found |= {n for n in names if n in defined}
    for variable in module.variables.values():
        found |= {x.name for x in variable.initial if isinstance(x, Symbol) and x.name in defined}
    return found

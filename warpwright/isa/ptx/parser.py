"""Parses PTX text to typed records, by recursive descent in the order of the PTX ISA manual's grammar.

A name declared in an inner ``{ }`` hides an outer one; it is renamed ``name@n`` so that names are unique in their
function.  Debug information (``.section``, ``@@DWARF``) is skipped; ``.loc`` gives every instruction its source line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from warpwright.isa.ptx.reader import PRECEDENCE, Reader
from warpwright.isa.ptx.special_registers import SPECIALS
from warpwright.isa.ptx.syntax import (
    BITS,
    OPAQUE,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Prototype,
    PtxError,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

SPACES = ("reg", "global", "const", "shared", "local", "param", "tex")
LINKING = ("extern", "visible", "weak", "common")
LIMITS = (
    *("maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg", "maxclusterrank"),
    *("reqnctapercluster", "explicitcluster", "noreturn", "abi_preserve", "abi_preserve_control", "blocksareclusters"),
)
COMPONENTS = {**{c: n for n, c in enumerate("xyzw")}, **{c: n for n, c in enumerate("rgba")}}
_PARTS = re.compile(r"(.+)\.([xyzwrgba]|[bh][0-7]{1,4})$")


def parse(text: str, name: str = "PTX") -> Module:
    """Read a module.

    Args:
        name: name of the text in messages.

    Raises:
        PtxError: with line and what was expected.
    """
    return _Parser(text, name).module()


@dataclass(slots=True)
class _Scope:
    """Names declared between two braces: what they are, and their unique names in the function."""

    names: dict[str, Register | Symbol | Vector] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    lists: list[str] = field(default_factory=list)
    """Target lists declared in this scope."""
    first_statement: int = 0


class _Parser(Reader):
    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.result = Module()
        self.scopes: list[_Scope] = []
        self.ranges: list[tuple[str, int, str]] = []
        self.location: tuple[int, int] | None = None
        self.renamed = 0

    # --- module -----------------------------------------------------------------------------------
    def module(self) -> Module:
        self.scopes = [_Scope()]
        while self.word.kind != "end":
            self.top_level()
        if not self.result.version[0]:
            raise PtxError(f"{self.name}: not a PTX module: it has no .version")
        return self.result

    def top_level(self) -> None:
        start = self.word
        linking = ""
        while self.word.text[1:] in LINKING and self.word.kind == "directive":
            linking = self.advance().text[1:]
        name = self.word.text[1:] if self.word.kind == "directive" else ""
        known: dict[str, Callable[[], None]] = {
            "version": self.version,
            "target": self.target,
            "address_size": self.address_size,
            "file": self.file,
            "alias": self.alias,
        }
        if name in known:
            self.advance()
            known[name]()
        elif name in ("entry", "func"):
            self.function(linking)
        elif name in SPACES or name in OPAQUE:
            self.declaration(linking, self.declare_global)
        elif name == "section":
            self.advance()
            self.identifier() if self.word.kind == "word" else self.advance()
            self.skip_braces()
        elif name == "pragma":
            self.skip_to_semicolon()
        elif name == "loc":
            self.skip_line()
        elif start.text.startswith("@@"):
            self.skip_line()
        elif self.accept(";"):
            pass
        else:
            raise self.error("expected a directive")

    def version(self) -> None:
        token = self.advance()
        match = re.fullmatch(r"(\d+)\.(\d+)", token.text)
        if match is None:
            self.position -= 1
            raise self.error("expected a version such as 8.8")
        self.result.version = int(match[1]), int(match[2])

    def target(self) -> None:
        names = [self.identifier()]
        while self.accept(","):
            names.append(self.identifier())
        self.result.target = names[0]

    def address_size(self) -> None:
        self.result.address_size = self.integer()
        if self.result.address_size != 64:
            raise PtxError(f"{self.name}: .address_size {self.result.address_size}: only 64-bit addresses exist here")

    def file(self) -> None:
        number = self.integer()
        self.result.files[number] = self.advance().text.strip('"')
        while self.accept(","):
            self.integer()

    def alias(self) -> None:
        name = self.identifier()
        self.expect(",")
        self.result.aliases[name] = self.identifier()
        self.expect(";")

    def declare_global(self, variable: Variable) -> None:
        earlier = self.result.variables.get(variable.name)
        if earlier is None or earlier.linking == "extern":
            self.result.variables[variable.name] = variable
        self.scopes[0].names[variable.name] = Symbol(variable.name)

    # --- variables --------------------------------------------------------------------------------
    def declaration(self, linking: str, declare: Callable[[Variable], None]) -> None:
        """``.space [.align n] [.v2|.v4] .type name[extent] = {…}, …;``"""
        space = self.advance().text[1:]
        if space in OPAQUE:
            space, type, align, vector = "global", space, 8, 1
        else:
            type, align, vector = self.attributes()
        while True:
            declare(self.declarator(space, type, align, vector, linking))
            if not self.accept(","):
                break
        self.expect(";")

    def attributes(self) -> tuple[str, int, int]:
        """(type, alignment or 0, vector width) of a declaration."""
        type, align, vector = "", 0, 1
        while self.word.kind == "directive":
            name = self.advance().text[1:]
            if name == "align":
                align = self.integer()
            elif name in ("v2", "v4"):
                vector = int(name[1])
            elif name == "attribute":
                self.expect("(")
                while not self.accept(")"):
                    self.advance()
            elif name == "ptr":
                # Says what the pointer points to: .ptr [.space] [.align n]
                if self.word.text[1:] in SPACES:
                    self.advance()
                if self.accept(".align"):
                    self.integer()
            elif name in BITS or name in OPAQUE:
                type = name
            else:
                self.position -= 1
                raise self.error("expected a type")
        if not type:
            raise self.error("expected a type")
        return type, align, vector

    def declarator(self, space: str, type: str, align: int, vector: int, linking: str = "") -> Variable:
        line = self.word.line
        name = self.identifier()
        if self.accept("<"):
            count = self.unary()  # not an expression: '>' ends it
            self.expect(">")
            if not isinstance(count, int):
                raise self.error("expected a count")
            self.ranges.append((name, count, type))
        shape: list[int] = []
        while self.accept("["):
            shape.append(0 if self.at("]") else self.integer())
            self.expect("]")
        initial: tuple[Immediate | Symbol, ...] = ()
        if self.accept("="):
            initial = tuple(self.initializer(shape, vector))
            if shape and shape[0] == 0:
                rest = vector
                for extent in shape[1:]:
                    rest *= extent
                shape[0] = -(-len(initial) // rest)
        bytes_each = max(1, BITS.get(type, 64) // 8) * vector
        return Variable(name, space, type, align or bytes_each, tuple(shape), vector, initial, linking, line)

    def initializer(self, shape: list[int], vector: int) -> list[Immediate | Symbol]:
        """Elements in order; elements omitted from inner braces are zero."""
        if not self.at("{"):
            return [self.initial_value()]
        extents = [*shape, vector] if vector > 1 else list(shape)
        return self.braced(extents)

    def braced(self, extents: list[int]) -> list[Immediate | Symbol]:
        self.expect("{")
        found: list[Immediate | Symbol] = []
        inner = 1
        for extent in extents[1:]:
            inner *= extent
        while not self.at("}"):
            if self.at("{"):
                row = self.braced(extents[1:])
                found += row + [Immediate(0)] * (inner - len(row))
            else:
                found.append(self.initial_value())
            if not self.accept(","):
                break
        self.expect("}")
        return found

    def initial_value(self) -> Immediate | Symbol:
        if self.word.kind == "word":
            name = self.identifier()
            if name == "generic" and self.accept("("):
                inner = self.initial_value()
                self.expect(")")
                if not isinstance(inner, Symbol):
                    raise self.error("generic( ) takes a variable's name")
                return replace(inner, generic=True, offset=inner.offset + self.displacement())
            offset = self.displacement()
            return Symbol(name, offset)
        value = self.expression()
        if isinstance(value, int):
            if self.accept("("):
                # 0xFF00(name): one byte of an address
                inner = self.initial_value()
                self.expect(")")
                if not isinstance(inner, Symbol):
                    raise self.error("a byte mask takes a variable's name")
                return replace(inner, mask=value)
            return Immediate(value)
        return value

    # --- functions --------------------------------------------------------------------------------
    def function(self, linking: str) -> None:
        line = self.word.line
        is_kernel = self.advance().text == ".entry"
        while self.accept(".attribute"):
            self.expect("(")
            while not self.accept(")"):
                self.advance()
        prototype = Prototype()
        if not is_kernel and self.at("("):
            prototype.results = self.formals()
        name = self.identifier()
        if self.at("("):
            prototype.parameters = self.formals()
        function = Function(name, is_kernel, prototype, line=line)
        self.scopes[0].names[name] = Symbol(name)
        while self.word.kind == "directive":
            self.limit(function)
        if not self.at("{"):
            self.expect(";")
            self.result.functions.setdefault(name, function)
            return
        function.defined = True
        self.result.functions[name] = function
        self.body(function)

    def limit(self, function: Function) -> None:
        name = self.advance().text[1:]
        if name == "pragma":
            self.skip_to_semicolon()
        elif name in LIMITS:
            values = []
            while self.word.kind == "integer":
                values.append(self.integer())
                if not self.accept(","):
                    break
            function.limits[name] = tuple(values)
        else:
            self.position -= 1
            raise self.error("expected a body or a performance directive")

    def formals(self) -> list[Variable]:
        """``(.param .u64 name, …)``"""
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            space = self.advance().text[1:]
            if space not in ("param", "reg"):
                self.position -= 1
                raise self.error("expected .param or .reg")
            type, align, vector = self.attributes()
            found.append(self.declarator(space, type, align, vector))
            self.accept(",")
        return found

    def body(self, function: Function) -> None:
        self.ranges = []
        self.location = None
        scope = _Scope()
        for variable in (*function.prototype.results, *function.prototype.parameters):
            if variable.space == "reg":
                scope.names[variable.name] = self.new_register(function, variable.name, variable)
            else:
                scope.names[variable.name] = Symbol(variable.name)
        self.scopes = [self.scopes[0], scope]
        self.expect("{")
        while not self.accept("}"):
            self.statement(function)
        self.scopes = self.scopes[:1]

    def statement(self, function: Function) -> None:
        token = self.word
        if token.kind == "end":
            raise self.error("expected '}'")
        if token.text == ";":
            self.advance()
        elif token.text == "{":
            self.block(function)
        elif token.kind == "directive":
            self.body_directive(function)
        elif token.kind == "word" and self.tokens[self.position + 1].text == ":":
            self.label(function)
        else:
            function.statements.append(self.instruction(function))

    def block(self, function: Function) -> None:
        self.expect("{")
        scope = _Scope(first_statement=len(function.statements))
        self.scopes.append(scope)
        while not self.accept("}"):
            self.statement(function)
        self.scopes.pop()
        if scope.labels:
            # Branches inside this block refer to its own labels.
            for name in scope.lists:
                function.targets[name] = tuple(scope.labels.get(t, t) for t in function.targets[name])
            for n in range(scope.first_statement, len(function.statements)):
                statement = function.statements[n]
                if isinstance(statement, Instruction):
                    operands = tuple(_renamed(o, scope.labels) for o in statement.operands)
                    function.statements[n] = replace(statement, operands=operands)

    def label(self, function: Function) -> None:
        line = self.word.line
        name = self.identifier()
        self.expect(":")
        if self.at(".branchtargets", ".calltargets"):
            self.advance()
            names = [self.identifier()]
            while self.accept(","):
                names.append(self.identifier())
            self.expect(";")
            name = self.own_label(name)
            self.scopes[-1].lists.append(name)
            function.targets[name] = tuple(names)
        elif self.accept(".callprototype"):
            function.prototypes[self.own_label(name)] = self.call_prototype()
        else:
            function.statements.append(Label(self.own_label(name), line))

    def own_label(self, name: str) -> str:
        """A label's unique name in the function, different from that of the same label outside an inner block."""
        if len(self.scopes) <= 2:
            return name
        self.renamed += 1
        self.scopes[-1].labels[name] = own = f"{name}@{self.renamed}"
        return own

    def call_prototype(self) -> Prototype:
        prototype = Prototype()
        if self.at("("):
            prototype.results = self.formals()
        self.identifier()
        if self.at("("):
            prototype.parameters = self.formals()
        while self.word.kind == "directive":
            self.limit(Function("", False, prototype))
        self.expect(";")
        return prototype

    def body_directive(self, function: Function) -> None:
        name = self.word.text[1:]
        if name == "loc":
            self.loc()
        elif name in ("pragma", "branchtargets"):
            self.skip_to_semicolon()
        elif name.startswith("@DWARF"):
            self.skip_line()
        elif name in SPACES:
            self.declaration("", lambda v: self.declare_local(function, v))
        elif name in LINKING:
            linking = self.advance().text[1:]
            self.declaration(linking, lambda v: self.declare_local(function, v))
        elif name in OPAQUE:
            self.declaration("", lambda v: self.declare_local(function, v))
        else:
            raise self.error("expected an instruction or a directive")

    def loc(self) -> None:
        line = self.advance().line
        file, number = self.integer(), self.integer()
        # Line 0 is compiler-generated code; file names may come at the end of the text.
        self.location = (file, number) if number else None
        while self.word.line == line and self.word.kind != "end":
            self.advance()

    def declare_local(self, function: Function, variable: Variable) -> None:
        scope = self.scopes[-1]
        if variable.space == "reg":
            last = self.ranges[-1] if self.ranges and self.ranges[-1][0] == variable.name else None
            if last is not None:
                self.ranges.pop()
                names = [f"{variable.name}{n}" for n in range(last[1])]
            else:
                names = [variable.name]
            for name in names:
                scope.names[name] = self.new_register(function, self.unique(name, function.registers), variable)
        elif variable.space in ("global", "const"):
            own = self.unique(f"{function.name}${variable.name}", self.result.variables)
            self.result.variables[own] = replace(variable, name=own)
            scope.names[variable.name] = Symbol(own)
        else:
            own = self.unique(variable.name, function.variables)
            function.variables[own] = replace(variable, name=own)
            scope.names[variable.name] = Symbol(own)

    def new_register(self, function: Function, name: str, variable: Variable) -> Register | Vector:
        """Declare one register, or one for each component of a vector."""
        names = [name] if variable.vector == 1 else [f"{name}.{c}" for c in "xyzw"[: variable.vector]]
        for one in names:
            function.registers[one] = variable.type
        return Register(name) if variable.vector == 1 else Vector(tuple(Register(n) for n in names))

    def unique(self, name: str, taken: dict[str, str] | dict[str, Variable]) -> str:
        if len(self.scopes) <= 2 and name not in taken:
            return name
        self.renamed += 1
        return f"{name}@{self.renamed}"

    # --- instructions -----------------------------------------------------------------------------
    def instruction(self, function: Function) -> Instruction:
        first = self.word
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            predicate = self.operand_name(self.identifier())
            if not isinstance(predicate, Register):
                self.position -= 1
                raise self.error("expected a predicate register")
            guard = predicate.name, negated
        opcode, *modifiers = self.identifier().split(".")
        operands: list[Operand] = []
        while not self.at(";"):
            operands.append(self.operand())
            if not self.accept(","):
                break
        last = self.expect(";")
        text = " ".join(re.sub(r"//[^\n]*", "", self.text[first.start : last.start]).split())
        return Instruction(opcode, tuple(modifiers), tuple(operands), guard, first.line, text, self.location)

    def operand(self) -> Operand:
        first = self.primary()
        if self.accept("|"):
            return Pair(first, self.primary())
        return first

    def primary(self) -> Operand:
        if self.accept("["):
            return self.address()
        if self.at("{"):
            self.advance()
            return Vector(self.operands_until("}"))
        if self.at("(") and not self.constant_follows():
            self.advance()
            return Vector(self.operands_until(")"))
        if self.accept("!"):
            return Negated(self.primary(), "!")
        if self.at("-") and self.tokens[self.position + 1].kind == "word":
            self.advance()
            return Negated(self.primary(), "-")
        if self.word.kind == "word" and self.word.text != "WARP_SZ":
            named = self.operand_name(self.advance().text)
            if isinstance(named, Symbol | Register):
                return replace(named, offset=named.offset + self.displacement())
            return named
        value = self.expression(PRECEDENCE.index("^"))
        return Immediate(value) if isinstance(value, int) else value

    def constant_follows(self) -> bool:
        """Whether a parenthesis begins a constant expression rather than a call's arguments."""
        follows = self.tokens[self.position + 1]
        return follows.kind in ("integer", "float") and self.tokens[self.position + 2].text not in (",", ")")

    def operands_until(self, end: str) -> tuple[Operand, ...]:
        found: list[Operand] = []
        while not self.accept(end):
            found.append(self.operand())
            if not self.accept(",") and not self.at(end):
                raise self.error(f"expected ',' or '{end}'")
        return tuple(found)

    def address(self) -> Address:
        base: Register | Symbol | None = None
        offset = 0
        if self.word.kind == "word" and self.word.text != "WARP_SZ":
            named = self.operand_name(self.advance().text)
            if not isinstance(named, Register | Symbol):
                self.position -= 1
                raise self.error("expected an address")
            base = named
            offset = self.displacement()
        else:
            value = self.expression()
            if not isinstance(value, int):
                raise self.error("expected an address")
            offset = value
        more: list[Operand] = []
        while self.accept(","):
            more.append(self.operand())
        self.expect("]")
        return Address(base, offset, tuple(more))

    def operand_name(self, name: str) -> Operand:
        """What a name refers to: the innermost declaration, a special register, a function or a label."""
        if name == "_":
            return Sink()
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        if name[1:] in SPECIALS or name.startswith(("%pm", "%envreg")):
            return Special(name[1:])
        match = _PARTS.fullmatch(name)
        if match is not None:
            whole = self.operand_name(match[1])
            if isinstance(whole, Vector) and match[2] in COMPONENTS:
                return whole.items[COMPONENTS[match[2]]]
            if isinstance(whole, Register):
                return Register(whole.name, match[2])
        if name.startswith("%"):
            self.position -= 1
            raise self.error(f"register {name} is not declared")
        return Symbol(name)


def _renamed(o: Operand, labels: dict[str, str]) -> Operand:
    return replace(o, name=labels[o.name]) if isinstance(o, Symbol) and o.name in labels else o

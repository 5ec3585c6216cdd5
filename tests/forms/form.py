"""A form: one PTX instruction with its types and modifiers, and the small kernel that applies it to arrays of values.

Tables write many forms as one row, in the way the PTX ISA manual prints an instruction::

    Row("add{,.sat}.s32")                          # two forms, operands of the type that is named last
    Row("mul.wide.{u16,s16,u32,s32}", "W: T T")    # W: twice as wide as T
    Row("setp.{eq,ne}.{s32,f32}", "pred: T T")     # a predicate is stored as 0 or 1

A signature names the types of the results before the colon and of the operands behind it.  A row whose instruction
is not simply ``name d, a, b, …;`` gives the text itself, with ``{op}`` for the name, ``%d`` ``%d1`` for results,
``%a %b %c %e`` (or ``%x4`` …) for operands, ``%s`` for an address in scratch memory of its own, ``%t`` for the thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

THREADS = 256
BLOCKS = 2
COUNT = THREADS * BLOCKS
"""Threads of a launch: each takes one value of every operand."""
SLOT_BYTES = 8
"""Every operand and result of a thread has a slot of its own, whatever its width."""
SCRATCH_BYTES = 128
"""Memory of a thread that a form may use as it likes; compared too."""
LETTERS = ("a", "b", "c", "e")
WIDTHS = {
    **{f"{kind}{bits}": bits for kind in "usbf" for bits in (8, 16, 32, 64)},
    **{"f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "bf16": 16, "tf32": 32, "pred": 1},
    **{
        "e4m3x2": 16,
        "e5m2x2": 16,
        "f16": 16,
        "s4x8": 32,
        "u4x8": 32,
        "s8x4": 32,
        "u8x4": 32,
        "e4m3x4": 32,
        "e5m2x4": 32,
    },
}
WIDER = {"u8": "u16", "s8": "s16", "u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


SINCE = (
    (61, r"dp[24]a\."),
    (70, r"(szext|bmsk|match|wmma|mma|fence|mbarrier|nanosleep)\b"),
    (70, r"lop3\.(or|and)"),
    (70, r".*\.(relaxed|acquire|release|acq_rel|weak|mmio|b128)\b"),
    (70, r".*\.nc\.L1::(evict_last|no_allocate)"),
    (70, r"(atom|red)\..*(cas\.b16|noftz\.f16)$"),
    (70, r"(cvta|isspacep)\.param"),
    (75, r".*\.nc\.L2::"),
)
"""What came with an architecture: "Target ISA Notes" of the PTX ISA manual, checked by the assembler's refusals."""
MISASSEMBLED = (
    (
        60,
        62,
        r"v(add|sub|absdiff|min|max|shl|shr|mad)\.",
        ".l.?",
        "of a literal as second source the part that is to be taken is left out",
    ),
    (70, 89, r"szext\.", "rp", "a width that is a parameter is read from c[0x0][0x0], where no parameter lies"),
    (80, 89, r"cvt\.ftz\.f32\.bf16$", ".", "the instruction made converts from f16"),
)
"""Forms for which the assembler (12.9) makes machine code that is not what the PTX says: architectures, names, variants, what it
does.  Such variants are compared between the two engines on machine code alone."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: all forms that its pattern stands for."""

    pattern: str
    signature: str = "T: T T"
    arch: int = 60
    """The first architecture that has it, beside what :data:`SINCE` says of all; 90 with ``last=90`` and an ``a`` in ``target`` for sm_90a."""
    last: int = 999
    text: str = ""
    values: tuple[str, ...] = ()
    """Kinds of values of the operands, where the type alone does not say (see ``values.py``)."""
    plain: bool = False
    """Operands come from registers only: no variants with literals and parameters."""
    declare: str = ""
    """Declarations at module scope; ``{n}`` is the form's number."""
    threads: int = THREADS
    directives: str = ""
    """Of the kernel, behind its parameters."""
    target: str = ""
    """``a``: needs sm_90a."""
    opaque: str = ""
    """Why PTX says less than the machine code fixes: the form is compared between the two engines on machine code alone."""
    unordered: str = ""
    """Why results may legally differ between executions; such a form is run and not compared."""

    def forms(self, section: str) -> Iterator[Form]:
        """Every form of the row."""
        for name in expand(self.pattern):
            yield Form(section, name, self)


@dataclass(frozen=True, slots=True)
class Form:
    """One form; ``name`` is its instruction with all modifiers."""

    section: str
    name: str
    row: Row
    results: tuple[str, ...] = field(init=False)
    operands: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        results, operands = self.row.signature.split(":")
        types = [part for part in self.name.split(" ")[0].split(".") if part in WIDTHS]
        named = {"T": types[-1] if types else "b32", "S": types[0] if types else "b32"}
        if len(types) > 1:
            named["U"] = types[-2]
        named["W"] = WIDER.get(named["T"], named["T"])
        object.__setattr__(self, "results", tuple(named.get(word, word) for word in results.split()))
        object.__setattr__(self, "operands", tuple(named.get(word, word) for word in operands.split()))

    @property
    def arch(self) -> int:
        """The first architecture that has it."""
        return max(self.row.arch, *(first for first, pattern in SINCE if re.match(pattern, self.name)), 0)

    def misassembled(self, arch: int) -> tuple[str, frozenset[int]]:
        """What the assembler does to it on an architecture, and to which variants; nothing to nearly all forms."""
        for first, last, name, variants, why in MISASSEMBLED:
            if first <= arch <= last and re.match(name, self.name):
                return why, frozenset(n for n, v in enumerate(self.variants) if re.fullmatch(variants, v))
        return "", frozenset()

    @property
    def variants(self) -> tuple[str, ...]:
        """Where operands come from, a letter each: r register, l literal, p parameter."""
        count = len(self.operands)
        if self.row.plain or count == 0:
            return ("r" * count,)
        if count == 1:
            return ("r", "p")
        rest = "r" * (count - 1)
        found = ["r" * count, rest + "l", rest + "p", "l" + rest, "p" * (count - 1) + "r"]
        if count == 3:
            found += ["rlr", "rpr", "rll"]
            if self.operands == ("f64", "f64", "f64"):
                # Of two NaNs the machine keeps one by its place, and the compiler puts a constant first factor second.
                found = [v for v in found if v[0] == "r"]
        return tuple(dict.fromkeys(found))

    def instruction(self) -> str:
        """The text with named operands, before registers are numbered."""
        if self.row.text:
            last = next((part for part in reversed(self.name.split(".")) if part in WIDTHS), "")
            return re.sub(r"\.T\b", f".{last}", self.row.text.replace("{op}", self.name))
        names = [f"%d{n or ''}" for n in range(len(self.results))]
        joined = "|".join(names) if self.results == ("pred", "pred") else ", ".join(names)
        operands = [f"%{operand_name(n)}" for n in range(len(self.operands))]
        return f"{self.name} {', '.join([joined, *operands] if joined else operands)};"


def operand_name(n: int) -> str:
    return LETTERS[n] if n < len(LETTERS) else f"x{n}"


def expand(pattern: str) -> Iterator[str]:
    """Every text that a pattern with ``{a,b}`` alternatives stands for."""
    parts = re.split(r"(\{[^{}]*\})", pattern)
    for choice in product(*(p[1:-1].split(",") if p.startswith("{") else (p,) for p in parts)):
        yield "".join(choice)


def register_type(type: str) -> str:
    """The declared type of a virtual register that holds a value of the type."""
    return "pred" if type == "pred" else f"b{max(16, WIDTHS[type])}"


def storage_type(type: str) -> str:
    return "u32" if type == "pred" else f"b{WIDTHS[type]}"


def kernel(form: Form, number: int, literals: tuple[int, ...]) -> str:
    """The kernel of a form: every thread loads its operands, applies each variant and stores the results."""
    row = form.row
    lines = [
        "mov.u32 %t, %tid.x; mov.u32 %u, %ctaid.x; mov.u32 %v, %ntid.x; mad.lo.u32 %u, %u, %v, %t;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out];",
        f"mad.wide.u32 %in, %u, {SLOT_BYTES}, %in;",
        "ld.param.u64 %s, [scratch];",
        f"mad.wide.u32 %s, %u, {SCRATCH_BYTES}, %s; mad.wide.u32 %out, %u, {SLOT_BYTES}, %out;",
    ]
    declared: dict[str, str] = {}

    def operand(n: int, where: str) -> str:
        type = form.operands[n]
        name = f"%{where}{n}"
        if name not in declared:
            declared[name] = register_type(type)
            kind = storage_type(type)
            target = name if type != "pred" else f"{name}w"
            if type == "pred":
                declared[target] = "b32"
            if where == "r":
                lines.append(f"ld.global.{kind} {target}, [%in+{n * COUNT * SLOT_BYTES}];")
            elif where == "p":
                lines.append(f"ld.param.{kind} {target}, [p{n}];")
            else:
                lines.append(f"mov.b{32 if type == 'pred' else max(16, WIDTHS[type])} {target}, {literals[n]:#x};")
            if type == "pred":
                lines.append(f"and.b32 {target}, {target}, 1; setp.ne.u32 {name}, {target}, 0;")
        return name

    slot = 0
    for v, variant in enumerate(form.variants):
        text = form.instruction()
        sources = {operand_name(n): operand(n, where) for n, where in enumerate(variant)}
        results = []
        for n, type in enumerate(form.results):
            name = f"%d{v}_{n}"
            declared[name] = register_type(type)
            results.append((f"d{n or ''}", name, type))
        table = {**sources, **{short: name for short, name, _ in results}}
        text = re.sub(r"%(d\d*|[abce]|x\d+)\b", lambda m, t=table: t.get(m[1], m[0]), text)
        lines.append(text.replace("{n}", str(number)).replace("{v}", str(v)))
        for _, name, type in results:
            kind = storage_type(type)
            if type == "pred":
                declared[f"{name}w"] = "b32"
                lines.append(f"selp.u32 {name}w, 1, 0, {name};")
                name += "w"
            lines.append(f"st.global.{kind} [%out+{slot * COUNT * SLOT_BYTES}], {name};")
            slot += 1
    registers = "".join(f".reg .{type} {name};\n" for name, type in declared.items())
    parameters = ", ".join(
        [
            ".param .u64 in",
            ".param .u64 out",
            ".param .u64 scratch",
            *(f".param .u64 p{n}" for n in range(len(form.operands))),
        ]
    )
    module = row.declare.replace("{n}", str(number))
    body = "\n".join(lines)
    return (
        f"{module}\n.visible .entry f{number}({parameters}) {row.directives}\n{{\n.reg .b64 %in, %out, %s;\n.reg .b32 %t, %u, %v;\n"
        f"{registers}{body}\nret;\n}}\n"
    )


def slots(form: Form) -> int:
    """Result slots of a thread."""
    return len(form.variants) * len(form.results)

"""An assembler for programs that no compiler generates: global data share, image reads, clauses of a given length.

A program is lines of text, with the names of AMD's manuals::

    alu                                  # a clause; each line is a bundle, its operations separated by semicolons
      LSHL_INT T2.x, T0.x, 2
      MOV T3.x, PV.x; MUL_IEEE T3.y, T1.x, -|T1.y|
      LDS_READ_RET T2.x
      MOV T4.x, OQAP
    fetch                                # a clause of fetches
      VFETCH T4.xy, T2.x, 16             # as many words as the destination has channels, at the source's byte address and an offset
      VFETCH LDS.x, T2.xy                # on Cayman: words go from the first source's address to that of the second in local data share
      LD T5.xyzw, T0.xyzw, 3             # of the image with that number
    share                                # a clause of accesses to global data share
      GDS_ADD_RET T4.x, T2.xy            # address, operand
    store T4.xy, T3.x                    # words, the number of the first one in the buffer
    atomic ADD_RTN T4, T3.x
    loop
      alu break                          # lanes for which its last operation, a PRED_SET, holds leave the loop
        PRED_SETGT_INT _, T6.x, 10
    end

A number is an inline constant or a literal.  ``_`` discards a result, ``_.y`` that of slot y.  Clauses that are too long are split.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from warpwright.isa.r600 import layouts, tables_alu, tables_control, tables_fetch
from warpwright.isa.r600.decoded_program import LITERAL
from warpwright.isa.r600.fields import Layout
from warpwright.isa.r600.layouts import CAYMAN

MOST_ALU_WORDS, MOST_FETCHES = 128, 16
WORD_MASK = 0xFFFFFFFF
INLINE = {0: 248, 1: 250, WORD_MASK: 251, 0x3F800000: 249, 0x3F000000: 252}
QUEUES = {"OQAP": 221, "OQBP": 222, "OQA": 219, "OQB": 220, "PS": 255}
LOCKED_LINES = 2
"""``kcache_mode`` that locks two lines of 16 constants."""
ZERO, NOTHING = 4, 7
FORMAT_OF_WORDS = {1: 0x0D, 2: 0x1D, 4: 0x22}
_SOURCE = re.compile(
    r"(-?)(\|?)(?:(T|KC0\[)(\d+)\]?\.([xyzw])|PV\.([xyzw])|(OQ[AB]P?|PS)|(-?[\d.]+(?:e-?\d+)?|0x[0-9a-f]+))(\|?)$"
)


class AssemblyError(ValueError):
    """A line that is not a valid instruction; the message has its number and text."""


@dataclass
class _Clause:
    """A control-flow word and the words of its clause."""

    layout: Layout
    fields: dict[str, int]
    units: list[list[int]] = field(default_factory=list)
    """Bundles or fetches, as words of 64 bits."""
    most: int = 0
    """Number of words of a clause; for fetches, number of fetches."""


def assemble(text: str, generation: str) -> bytes:
    """The code of a program.

    Raises:
        AssemblyError: naming the line.
    """
    return _Assembler(generation).run(text)


@dataclass
class _Assembler:
    generation: str
    control: list[_Clause] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    section: str = ""
    breaks: bool = False

    def run(self, text: str) -> bytes:
        for number, line in enumerate(text.splitlines(), 1):
            plain = line.split("#")[0].strip()
            if not plain:
                continue
            try:
                self.line(plain)
            except (AssemblyError, ValueError, KeyError, IndexError) as error:
                raise AssemblyError(f"line {number}: {plain}: {error}") from None
        self.leave_loop()
        if self.loops:
            raise AssemblyError("the last loop has no end")
        self.word("CF_END") if self.generation == CAYMAN else self.word("NOP", end_of_program=1)
        return self.placed()

    def line(self, plain: str) -> None:
        first, _, rest = plain.partition(" ")
        if first in ("alu", "fetch", "share", "loop", "end", "store", "atomic", "wait"):
            self.leave_loop()
            self.begin(first, rest.strip())
        elif self.section == "alu":
            self.add(self.bundle(plain))
        elif self.section == "fetch":
            self.add(self.fetch(first, rest))
        elif self.section == "share":
            self.add(self.share(first, rest))
        else:
            raise AssemblyError("no clause has begun")

    # --- control flow -------------------------------------------------------------------------------------------
    def word(self, name: str, **fields: int) -> _Clause:
        found = next(r for r in tables_control.CONTROL if r.name == name and self.generation in r.generations)
        made = _Clause(layouts.CONTROL[self.generation], {"cf_inst": found.opcode, "barrier": 1, **fields})
        self.control.append(made)
        return made

    def alu_clause(self, name: str = "ALU") -> _Clause:
        found = next(r for r in tables_control.ALU_CLAUSES if r.name == name)
        fields = {"cf_inst": found.opcode, "barrier": 1, "kcache_mode0": LOCKED_LINES}
        made = _Clause(layouts.CONTROL_ALU, fields, most=MOST_ALU_WORDS)
        self.control.append(made)
        return made

    def begin(self, name: str, rest: str) -> None:
        self.section = name
        if name == "alu":
            self.breaks = rest == "break"
            self.alu_clause("ALU_PUSH_BEFORE" if self.breaks else "ALU")
        elif name in ("fetch", "share"):
            self.word("TEX" if name == "fetch" else "GDS").most = MOST_FETCHES
        elif name == "loop":
            self.loops.append(len(self.control))
            self.word("LOOP_START_DX10")
        elif name == "end":
            start = self.loops.pop()
            self.word("LOOP_END", addr=start + 1)
            self.control[start].fields["addr"] = len(self.control)
        elif name == "wait":
            self.word("WAIT_ACK")
        else:
            self.random_access(name, rest)

    def leave_loop(self) -> None:
        """End a clause that breaks: the lanes that it selected leave the loop."""
        if self.breaks:
            self.breaks = False
            after = len(self.control) + 3
            self.word("JUMP", addr=after, pop_count=1)
            self.word("LOOP_BREAK", addr=after - 1)
            self.word("POP", addr=after, pop_count=1)

    def random_access(self, name: str, rest: str) -> None:
        operation = ""
        if name == "atomic":
            operation, _, rest = rest.partition(" ")
        data, index = (part.strip() for part in rest.split(","))
        number, channels = _register(data)
        store = "STORE_DWORD" if self.generation == CAYMAN else "STORE_RAW"
        numbers = {v: k for k, v in tables_control.RAT_OPERATIONS.items()}
        mask = sum(1 << "xyzw".index(c) for c in channels) if channels else 15
        fields = {
            **{"cf_inst": 0x57 if name == "store" else 0x56, "rat_inst": numbers[operation or store], "type": 1},
            **{"rw_gpr": number, "index_gpr": _register(index)[0], "comp_mask": mask, "barrier": 1},
        }
        self.control.append(_Clause(layouts.RAT[self.generation], fields))

    def add(self, words: list[int]) -> None:
        """Add words to the open clause; begin a new one when it is full."""
        clause = self.control[-1]
        is_alu = self.section == "alu"
        size = sum(map(len, clause.units)) if is_alu else len(clause.units)
        if size + (len(words) if is_alu else 1) > clause.most:
            if self.breaks:
                raise AssemblyError("a clause that breaks is too long")
            self.begin(self.section, "")
            clause = self.control[-1]
        clause.units.append(words)

    def placed(self) -> bytes:
        """The final layout: control flow first, then the clauses, with fetches at even addresses."""
        at = len(self.control) + len(self.control) % 2
        words: dict[int, int] = {}
        for clause in self.control:
            if clause.units:
                is_alu = clause.most == MOST_ALU_WORDS
                at += 0 if is_alu else at % 2
                flat = [word for unit in clause.units for word in unit]
                clause.fields |= {"addr": at, "count": (len(flat) if is_alu else len(flat) // 2) - 1}
                words |= {at + n: word for n, word in enumerate(flat)}
                at += len(flat)
        words |= {n: clause.layout.write(clause.fields) for n, clause in enumerate(self.control)}
        return struct.pack(f"<{at}Q", *(words.get(n, 0) for n in range(at)))

    # --- bundles ------------------------------------------------------------------------------------------------
    def bundle(self, plain: str) -> list[int]:
        literals: list[int] = []
        made = [self.operation(part.strip(), literals) for part in plain.split(";")]
        made[-1][1]["last"] = 1
        words = [layout.write(fields) for layout, fields in made]
        literals += [0] * (len(literals) % 2)
        return words + [literals[n] | literals[n + 1] << 32 for n in range(0, len(literals), 2)]

    def operation(self, part: str, literals: list[int]) -> tuple[Layout, dict[str, int]]:
        name, _, rest = part.partition(" ")
        operands = [o.strip() for o in rest.split(",")] if rest else []
        layout, found = self.row(name)
        fields: dict[str, int] = {}
        if layout is layouts.ALU_LDS:
            fields = {"alu_inst": tables_alu.LDS_INDEXED, "lds_op": found.opcode}
        else:
            fields["alu_inst"] = found.opcode
        if layout is not layouts.ALU_LDS and operands:
            fields |= self.destination(operands.pop(0), layout)
        if found.sets_predicate:
            fields |= {"update_exec_mask": 1, "update_pred": 1}
        if len(operands) != found.source_count:
            raise AssemblyError(f"{name} has {found.source_count} sources, not {len(operands)}")
        for n, operand in enumerate(operands):
            fields |= {f"src{n}_{key}": value for key, value in self.source(operand, literals).items() if value}
        return layout, fields

    def row(self, name: str) -> tuple[Layout, tables_alu.AluOperation]:
        """The layout and the table's row of an operation."""
        tables = (
            (tables_alu.LDS_OF, layouts.ALU_LDS),
            (tables_alu.OP3_OF, layouts.ALU_OP3),
            (tables_alu.OP2_OF, layouts.ALU_OP2),
        )
        for rows, layout in tables:
            for row in rows[self.generation].values():
                if row.name == name:
                    return layout, row
        raise AssemblyError(f"{self.generation} has no operation {name}")

    def destination(self, text: str, layout: Layout) -> dict[str, int]:
        if text[:1] == "_":
            return {"dst_chan": "xyzw".index(text[2:])} if text[1:] else {}
        number, channels = _register(text)
        found = {"dst_gpr": number, "dst_chan": "xyzw".index(channels)}
        return found | ({"write_mask": 1} if layout is layouts.ALU_OP2 else {})

    def source(self, text: str, literals: list[int]) -> dict[str, int]:
        match = _SOURCE.match(text)
        if match is None:
            raise AssemblyError(f"{text!r} is not a source")
        sign, bar, kind, number, channel, forwarded, queue, value, _ = match.groups()
        changes = {"neg": int(bool(sign)), "abs": int(bool(bar))}
        if kind is not None:
            select = int(number) + (0 if kind == "T" else 128)
            return {"sel": select, "chan": "xyzw".index(channel), **changes}
        if forwarded is not None:
            return {"sel": 254, "chan": "xyzw".index(forwarded), **changes}
        if queue is not None:
            return {"sel": QUEUES[queue]}
        return _number(("-" if sign else "") + value, literals)

    # --- fetches ------------------------------------------------------------------------------------------------
    def fetch(self, name: str, rest: str) -> list[int]:
        target, origin, *more = (part.strip() for part in rest.split(","))
        if name != "VFETCH":
            return self.image(name, target, origin, int(more[0]) if more else 0)
        direct = target.partition(".")[0] == "LDS"
        if direct and self.generation != CAYMAN:
            raise AssemblyError(
                f"{self.generation} has no fetch into local data share: fetch into a register and write that with LDS_WRITE"
            )
        number, channels = _register(target.replace("LDS", "T0", 1) if direct else target)
        source, source_channels = _register(origin)
        if len(source_channels) != 1 + direct:
            raise AssemblyError(f"{name} has {1 + direct} source channels, not {len(source_channels)}")
        words = {1: 1, 2: 2, 3: 4, 4: 4}[len(channels)]
        fields = {
            **{"fetch_type": 2, "buffer_id": 1, "src_gpr": source, "src_sel_x": "xyzw".index(source_channels[0])},
            **{"dst_gpr": number, "data_format": FORMAT_OF_WORDS[words], "num_format_all": 1, **_selects(channels)},
            "offset": int(more[0], 0) if more else 0,
        }
        if direct:
            fields |= {"lds_req": 1, "src_sel_y": "xyzw".index(source_channels[1])}
        if self.generation != CAYMAN:
            fields |= {"mega_fetch": 1, "mega_fetch_count": 4 * words - 1}
        return _halves(layouts.VERTEX[self.generation].write(fields))

    def image(self, name: str, target: str, origin: str, resource: int) -> list[int]:
        rows = tables_fetch.TEXTURE_OPERATIONS.values()
        found = next((r for r in rows if r.name == name and self.generation in r.generations), None)
        if found is None:
            raise AssemblyError(f"{self.generation} has no fetch {name}")
        number, channels = _register(target)
        source, source_channels = _register(origin)
        normalised = 0 if name == "LD" else 1
        fields = {
            **{"inst": found.opcode & 31, "inst_mod": found.opcode >> 8, "resource_id": resource, "src_gpr": source},
            **{"dst_gpr": number, "sampler_id": resource, **_selects(channels)},
            **{f"src_sel_{c}": ZERO for c in "xyzw"},
            **{f"src_sel_{c}": "xyzw".index(s) for c, s in zip("xyzw", source_channels, strict=False)},
            **{f"coord_type_{c}": normalised for c in "xyzw"},
        }
        return _halves(layouts.TEXTURE.write(fields))

    def share(self, name: str, rest: str) -> list[int]:
        found = next((r for r in tables_fetch.GLOBAL_SHARE_OPERATIONS.values() if r.name == name), None)
        if found is None:
            raise AssemblyError(f"global data share has no operation {name}")
        target, origin = (part.strip() for part in rest.split(","))
        source, channels = _register(origin)
        number, written = (0, "") if target == "_" else _register(target)
        fields = {
            **{"inst": tables_fetch.MEMORY_INSTRUCTION, "mem_op": tables_fetch.GLOBAL_SHARE_MEMORY},
            **{"gds_op": found.opcode, "src_gpr": source, "dst_gpr": number, **_selects(written)},
            **{f"src_sel_{c}": "xyzw".index(s) for c, s in zip("xyz", channels, strict=False)},
        }
        return _halves(layouts.GLOBAL_SHARE.write(fields))


def _register(text: str) -> tuple[int, str]:
    match = re.match(r"T(\d+)(?:\.([xyzw]+))?$", text)
    if match is None or int(match[1]) > 127:
        raise AssemblyError(f"{text!r} is not a register")
    return int(match[1]), match[2] or ""


def _selects(channels: str) -> dict[str, int]:
    """Selects by which each written channel of the destination takes the result's next channel."""
    found = dict.fromkeys((f"dst_sel_{c}" for c in "xyzw"), NOTHING)
    return found | {f"dst_sel_{c}": n for n, c in enumerate(channels)}


def _halves(word: int) -> list[int]:
    return [word & (1 << 64) - 1, word >> 64]


def _number(text: str, literals: list[int]) -> dict[str, int]:
    """An inline constant, or one of the bundle's literals."""
    if "." in text or ("e" in text and not text.startswith("0x")):
        bits = struct.unpack("<I", struct.pack("<f", float(text)))[0]
    else:
        bits = int(text, 0) & WORD_MASK
    if bits in INLINE:
        return {"sel": INLINE[bits]}
    if bits not in literals:
        if len(literals) == 4:
            raise AssemblyError("a bundle has four literals at most")
        literals.append(bits)
    return {"sel": LITERAL, "chan": literals.index(bits)}

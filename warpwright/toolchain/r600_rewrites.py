"""Text of LLVM IR before the R600 back end, with everything rewritten that the back end miscompiles or cannot select."""

from __future__ import annotations

import re

WIDENED = "insert_subvector"
"""What the back end cannot select: a pair as the beginning of four elements."""
_VALUE = r'%(?:[\w.$-]+|"[^"]*")'
_SIGNED = re.compile(rf"^  ({_VALUE}) = (?:sext|ashr) ", re.MULTILINE)
_STORE = re.compile(r"^(  )store ((?:i32|float) [^\n]*, ptr addrspace\(1\) )", re.MULTILINE)
_DIVISION = re.compile(
    rf"^  (?P<to>{_VALUE}) = (?P<name>udiv|urem) (?:exact )?i32 (?P<x>{_VALUE}|-?\d+), (?P<y>{_VALUE}|-?\d+)[^\n]*$",
    re.MULTILINE,
)
_POSITION = re.compile(
    rf"^  ({_VALUE}) = [^\n]*?call [^\n@]*i32 @llvm\.r600\.read\.(?:tidig|tgid)\.([xyz])\(\)[^\n]*$", re.MULTILINE
)
_EXTENT, _GROUPS = "i32 @llvm.r600.read.global.size", "i32 @llvm.r600.read.ngroups.x()"
_SMALLER = "i32 @llvm.umin.i32"
_HALF = re.compile(rf"^  ({_VALUE}) = extractelement <2 x (i32|float)> [^\n]*, i(?:32|64) ([01])$", re.MULTILINE)
_WIDER = re.compile(
    rf"^  (?P<to>{_VALUE}) = shufflevector <2 x (?P<type>i32|float)> (?P<first>[^\n]+), <2 x (?P=type)> (?P<second>[^\n]+), "
    r"<4 x i32> (?:<(?P<mask>[^>\n]*)>|zeroinitializer)$",
    re.MULTILINE,
)


def rewritten(text: str, copies_pairs: bool) -> str:
    """A module that the back end compiles correctly.

    Args:
        copies_pairs: rewrite pairs that become the beginning of four elements (:func:`copied_pairs`).
    """
    text = copied_positions(single_stores(divisions_of_wide_numbers(text)))
    return copied_pairs(text) if copies_pairs else text


def single_stores(text: str) -> str:
    """Keep stores of words separate.

    The back end merges two neighbours even if they are aligned to 4 bytes only, but the engines require 8-byte accesses to be aligned to 8.
    """
    return _STORE.sub(r"\1store volatile \2", text)


def divisions_of_wide_numbers(text: str) -> str:
    """Rewrite unsigned divisions whose dividend is sign-extended.

    The back end treats such a dividend (``udiv i32 -1, %y``, or the result of ``sext``) as having few bits, although as an unsigned number it is large.
    """
    signed = set(_SIGNED.findall(text))

    def wide(m: re.Match[str]) -> str:
        to, name, x, y = m["to"], m["name"], m["x"], m["y"]
        if not x.startswith("-") and x not in signed:
            return m[0]
        own = f"%ww.{to[1:].strip(chr(34))}"
        lines = [
            f"{own}.half = lshr i32 {x}, 1",
            f"{own}.part = udiv i32 {own}.half, {y}",
            f"{own}.twice = shl i32 {own}.part, 1",
            f"{own}.product = mul i32 {own}.twice, {y}",
            f"{own}.rest = sub i32 {x}, {own}.product",
            f"{own}.more = icmp uge i32 {own}.rest, {y}",
        ]
        if name == "udiv":
            lines += [f"{own}.one = zext i1 {own}.more to i32", f"{to} = add i32 {own}.twice, {own}.one"]
        else:
            lines += [
                f"{own}.less = sub i32 {own}.rest, {y}",
                f"{to} = select i1 {own}.more, i32 {own}.less, i32 {own}.rest",
            ]
        return "\n".join("  " + line for line in lines)

    return _DIVISION.sub(wide, text)


def copied_positions(text: str) -> str:
    """Copy a thread's or group's position before it becomes an element of a vector.

    The back end fails on the registers of positions as elements of a fetch's coordinates, or of what a typed store writes. The smaller one of the position
    and of the grid's extent in threads is the position, in a register of its own.
    """
    for name, axis in _POSITION.findall(text):
        here, copy = re.escape(name), _own("copy", name)
        uses = rf"(insertelement [^\n]*, i32 ){here}(?=, i)|( = bitcast i32 ){here}(?= to )"
        text, count = re.subn(uses, rf"\1\2{copy}", text)
        if count:
            extent = f"{_EXTENT}.{axis}()"
            lines = [f"{copy}.extent = call {extent}", f"{copy} = call {_SMALLER}(i32 {name}, i32 {copy}.extent)"]
            text = _declared(_after(text, name, lines), extent, f"{_SMALLER}(i32, i32)")
    return text


def copied_pairs(text: str) -> str:
    """Copy the elements of a pair before they become the first two of four.

    The back end joins such elements to a pair again and cannot select the result. A disjunction with a zero that it does not know as one, whether the grid has
    no groups, has a result in a register of its own.
    """
    text = _WIDER.sub(_as_insertions, text)
    for name, type, index in _HALF.findall(text):
        copy = _own("half", name)
        uses = rf"^(  [^\n]*insertelement <4 x {type}> [^\n]*, {type} ){re.escape(name)}(?=, i(?:32|64) {index}$)"
        text, count = re.subn(uses, rf"\1{copy}", text, flags=re.MULTILINE)
        if count:
            lines = [
                f"{copy}.groups = call {_GROUPS}",
                f"{copy}.none = icmp eq i32 {copy}.groups, 0",
                f"{copy}.zero = zext i1 {copy}.none to i32",
                f"{copy}.word = bitcast {type} {name} to i32",
                f"{copy}.same = or i32 {copy}.word, {copy}.zero",
                f"{copy} = bitcast i32 {copy}.same to {type}",
            ]
            text = _declared(_after(text, name, lines), _GROUPS)
    return text


def _own(kind: str, name: str) -> str:
    """A name for a value that is made of another one."""
    return f"%ww.{kind}.{name[1:].strip(chr(34))}"


def _after(text: str, name: str, lines: list[str]) -> str:
    """The text with instructions after the one that defines a value."""
    added = "".join(f"\n  {line}" for line in lines)
    return re.sub(rf"^  {re.escape(name)} = [^\n]*$", lambda m: m[0] + added, text, count=1, flags=re.MULTILINE)


def _declared(text: str, *functions: str) -> str:
    """The text with declarations of functions, such as ``i32 @f()``, that it lacks."""
    for one in functions:
        name = re.escape(one[one.index("@") : one.index("(") + 1])
        if re.search(rf"^declare [^\n]*{name}", text, re.MULTILINE) is None:
            text += f"\ndeclare {one}\n"
    return text


def _as_insertions(match: re.Match[str]) -> str:
    """Four elements of two pairs, one after the other."""
    to, type = match["to"], match["type"]
    own, found, lines = _own("wide", to), "poison", []
    for n, entry in enumerate((match["mask"] or "i32 0, i32 0, i32 0, i32 0").split(",")):
        chosen = entry.split()[1]
        if chosen in ("poison", "undef"):
            continue
        pair = match["first"] if int(chosen) < 2 else match["second"]
        lines += [
            f"  {own}.e{n} = extractelement <2 x {type}> {pair}, i64 {int(chosen) % 2}",
            f"  {own}.v{n} = insertelement <4 x {type}> {found}, {type} {own}.e{n}, i64 {n}",
        ]
        found = f"{own}.v{n}"
    if not lines:
        return match[0]
    lines[-1] = lines[-1].replace(f"{found} =", f"{to} =")
    return "\n".join(lines)

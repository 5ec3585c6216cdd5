"""PTX text to records: the grammar's corners, and every error word for word."""

from __future__ import annotations

import pytest

from warpwright.errors import KernelNotFoundError
from warpwright.isa.ptx.load import constant_layout, initial_bytes, program_from_ptx
from warpwright.isa.ptx.meaning import UnsupportedInstruction
from warpwright.isa.ptx.parser import parse
from warpwright.isa.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Label,
    Negated,
    Pair,
    PtxError,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)

HEAD = ".version 8.8\n.target sm_80\n.address_size 64\n"


def body(text: str) -> list[Instruction]:
    """The instructions of a kernel with this body."""
    module = parse(HEAD + ".visible .entry k(.param .u64 p)\n{\n" + text + "\n}\n", "k.ptx")
    return [s for s in module.functions["k"].statements if isinstance(s, Instruction)]


def lower(text: str) -> None:
    program_from_ptx(HEAD + ".visible .entry k(.param .u64 p)\n{\n" + text + "\n}\n", "k", 80, name="k.ptx")


def test_operands() -> None:
    declared = ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .shared .align 4 .b8 s[8];\n"
    text = declared + (
        "@!%p1 add.s32 %r1, %r2, -7;\n"
        "setp.lt.and.s32 %p1|%p2, %r1, 0x10, !%p1;\n"
        "ld.global.v2.u32 {%r1, _}, [%rd1+8];\n"
        "mov.u32 %r3, %tid.x;\n"
        "mov.u32 %r4, s+4;\n"
        "mov.f32 %r5, 0f3F800000;\n"
        "st.shared.u32 [s], WARP_SZ;\n"
        "add.u32 %r6, %r7, (3 + 4) * 2 << 1;\n"
    )
    found = body(text)
    assert found[0].guard == ("%p1", True)
    assert found[0].operands == (Register("%r1"), Register("%r2"), Immediate(-7))
    assert found[1].operands[0] == Pair(Register("%p1"), Register("%p2"))
    assert found[1].operands[3] == Negated(Register("%p1"), "!")
    assert found[2].operands == (Vector((Register("%r1"), Sink())), Address(Register("%rd1"), 8))
    assert found[2].name == "ld.global.v2.u32"
    assert found[3].operands[1] == Special("tid.x")
    assert found[4].operands[1] == Symbol("s", 4)
    assert found[5].operands[1] == Immediate(0x3F800000, 32)
    assert found[6].operands == (Address(Symbol("s")), Immediate(32))
    assert found[7].operands[2] == Immediate(28)
    assert found[7].text == "add.u32 %r6, %r7, (3 + 4) * 2 << 1"


def test_inner_names_hide_outer_ones() -> None:
    found = body(
        ".reg .u32 x;\nmov.u32 x, 1;\n{ .reg .u32 x;\nmov.u32 x, 2;\nL: bra L; }\n{ L: bra L; }\nmov.u32 x, 3;"
    )
    names = [i.operands[0].name for i in found if i.opcode == "mov" and isinstance(i.operands[0], Register)]
    assert names[0] == names[2] == "x"
    assert names[1] != "x"
    targets = [i.operands[0] for i in found if i.opcode == "bra"]
    assert targets[0] != targets[1]


def test_lines_of_the_program() -> None:
    text = HEAD + '.file 1 "saxpy.cu"\n.entry k()\n{\n.loc 1 7 3\nret;\n.loc 1 0 0\nexit;\n}\n'
    found = [s for s in parse(text).functions["k"].statements if isinstance(s, Instruction)]
    assert found[0].source == (1, 7)
    assert found[1].source is None
    assert (found[0].line, found[1].line) == (8, 10)


def test_sections_for_debuggers_are_skipped() -> None:
    text = HEAD + ".entry k()\n{\nret;\n}\n.section .debug_str\n{\nname:\n.b8 1,2\n{ }\n}\n"
    assert parse(text).kernels == ["k"]


def test_functions_and_calls() -> None:
    text = HEAD + (
        ".func (.param .b32 out) twice(.param .b32 in);\n"
        ".func (.param .b32 out) twice(.param .b32 in)\n{\nret;\n}\n"
        ".entry k()\n.maxntid 128, 2, 1\n.minnctapersm 2\n{\n"
        ".reg .b64 %rd1;\n.param .b32 a; .param .b32 r;\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
        "list: .calltargets twice;\n"
        "call.uni (r), twice, (a);\ncall (r), %rd1, (a), proto;\n}\n"
    )
    module = parse(text)
    kernel = module.functions["k"]
    assert kernel.limits["maxntid"] == (128, 2, 1)
    assert kernel.targets == {"list": ("twice",)}
    assert len(kernel.prototypes["proto"].parameters) == 1
    assert module.functions["twice"].defined
    call = kernel.statements[0]
    assert isinstance(call, Instruction)
    assert call.operands == (Vector((Symbol("r"),)), Symbol("twice"), Vector((Symbol("a"),)))


def test_labels() -> None:
    module = parse(HEAD + ".entry k()\n{\n$L__BB0_1:\nbra $L__BB0_1;\n}\n")
    assert module.functions["k"].statements[0] == Label("$L__BB0_1", 6)


def test_initialisers() -> None:
    module = parse(
        HEAD + ".const .align 8 .b8 bytes[6] = {1, 2, 0xFF};\n.global .f32 f[2] = {0f3F800000, 2.5};\n"
        ".global .u16 m[2][3] = {{1, 2}, {3, 4, 5}};\n.global .u64 p[2] = {f+4, generic(f)};\n"
        ".const .u64 q = 7;\n.global .s32 n = -2;\n"
    )
    variables = module.variables
    assert initial_bytes(variables["bytes"], {}) == bytes((1, 2, 255, 0, 0, 0))
    assert initial_bytes(variables["f"], {}).hex() == "0000803f00002040"
    assert initial_bytes(variables["m"], {}).hex() == "010002000000030004000500"
    addresses = {"f": 0x1000, "generic(f)": 0x7000}
    assert initial_bytes(variables["p"], addresses).hex() == "0410000000000000" + "0070000000000000"
    assert initial_bytes(variables["n"], {}).hex() == "feffffff"
    assert constant_layout(module) == ({"bytes": 0, "q": 8}, 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "k.ptx: not a PTX module: it has no .version"),
        (".version 8.8\n#", "k.ptx:2: '#' begins no word of PTX"),
        (".version eight\n", "k.ptx:1: expected a version such as 8.8, but found 'eight'\n  .version eight"),
        (".version 8.8\n.address_size 32\n", "k.ptx: .address_size 32: only 64-bit addresses exist here"),
        (HEAD + "add.s32 x;", "k.ptx:4: expected a directive, but found 'add.s32'\n  add.s32 x;"),
        (
            HEAD + ".entry k()\n{\nmov.u32 %r1, 1;\n}",
            "k.ptx:6: register %r1 is not declared, but found '%r1'\n  mov.u32 %r1, 1;",
        ),
        (
            HEAD + ".entry k()\n{\n.reg .b32 %r<2>\nret;\n}",
            "k.ptx:7: expected ';', but found 'ret'\n  ret;",
        ),
        (HEAD + ".entry k()\n{\n.reg .q32 %r<2>;\n}", "k.ptx:6: expected a type, but found '.q32'\n  .reg .q32 %r<2>;"),
        (HEAD + ".entry k()\n{\nret;\n", "k.ptx:6: expected '}', but the text ends\n  ret;"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(PtxError) as caught:
        parse(text, "k.ptx")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tex.2d.v4.f32.s32 %r1, %r2;", "a texture or surface that is not named by an object's handle"),
        ("add.rn.s32 %r1, %r1, %r1;", "modifier .rn of add has no meaning here"),
        ("popc.s32 %r1, %r2;", "popc has no type .s32"),
        ("cvt.s32.f32 %r1, %r2;", "cvt to an integer without .rni, .rzi, .rmi or .rpi"),
        ("mov.u32 %r1, %pm0;", "special register %pm0 has no meaning here"),
        ("mov.u32 %r1, nowhere;", "nowhere is not declared"),
        ("add.s32 %r1, %r1;", "add takes 3 operands, not 2"),
        (
            "call printf;",
            "it calls printf, which this module does not define",
        ),
        (
            "call vprintf;",
            "vprintf takes 2 arguments, not 0",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, why: str) -> None:
    with pytest.raises(UnsupportedInstruction) as caught:
        lower(".reg .b32 %r<4>;\n" + text)
    assert str(caught.value) == f"kernel k: cannot execute line 7 of k.ptx (sm_80): {text[:-1]}: {why}"


def test_unknown_kernel() -> None:
    with pytest.raises(KernelNotFoundError) as caught:
        program_from_ptx(HEAD + ".entry a()\n{\nret;\n}\n.entry b()\n{\nret;\n}\n", "c", 80, name="k.ptx")
    assert str(caught.value) == "k.ptx has no kernel c; its kernels are: a, b."


def test_unknown_label() -> None:
    with pytest.raises(PtxError) as caught:
        lower("bra NOWHERE;")
    assert str(caught.value) == "k.ptx:6: NOWHERE is not a label of k\n  bra NOWHERE"

"""Integer arithmetic, extended precision and bit operations (PTX ISA 8.8, sections 9.7.1, 9.7.2 and 9.7.8)."""

from __future__ import annotations

from tests.forms.form import Row

INTEGERS = "{u16,u32,u64,s16,s32,s64}"

# fmt: off
ROWS = (
    Row(f"add.{INTEGERS}"), Row("add.sat.s32"), Row("add.{u16x2,s16x2}", arch=90),
    Row(f"sub.{INTEGERS}"), Row("sub.sat.s32"),
    Row(f"mul.{{hi,lo}}.{INTEGERS}"), Row("mul.wide.{u16,u32,s16,s32}", "W: T T"),
    Row(f"mad.{{hi,lo}}.{INTEGERS}", "T: T T T"), Row("mad.hi.sat.s32", "T: T T T"),
    Row("mad.wide.{u16,u32,s16,s32}", "W: T T W"),
    Row("mul24.{hi,lo}.{u32,s32}"), Row("mad24.{hi,lo}.{u32,s32}", "T: T T T"), Row("mad24.hi.sat.s32", "T: T T T"),
    Row(f"sad.{INTEGERS}", "T: T T T"),
    Row(f"div.{INTEGERS}"), Row(f"rem.{INTEGERS}"),
    Row("abs.{s16,s32,s64}", "T: T"), Row("neg.{s16,s32,s64}", "T: T"),
    Row(f"min.{INTEGERS}"), Row(f"max.{INTEGERS}"),
    Row("{min,max}.{u16x2,s16x2}", arch=90), Row("{min,max}.relu.{s16x2,s32}", arch=90),
    Row("popc.{b32,b64}", "u32: T"), Row("clz.{b32,b64}", "u32: T"),
    Row("bfind{,.shiftamt}.{u32,u64,s32,s64}", "u32: T"),
    Row("fns.b32", "b32: b32 b32 s32", values=("", "0..31", "-33..33")),
    Row("brev.{b32,b64}", "T: T"),
    Row("bfe.{u32,u64,s32,s64}", "T: T u32 u32"), Row("bfe.{u32,u64,s32,s64}", "T: T u32 u32", values=("", "0..70", "0..70")),
    Row("bfi.{b32,b64}", "T: T T u32 u32"), Row("bfi.{b32,b64}", "T: T T u32 u32", values=("", "", "0..70", "0..70")),
    Row("szext.{clamp,wrap}.{u32,s32}", "T: T u32"), Row("szext.{clamp,wrap}.{u32,s32}", "T: T u32", values=("", "0..40")),
    Row("bmsk.{clamp,wrap}.b32", "b32: u32 u32"), Row("bmsk.{clamp,wrap}.b32", "b32: u32 u32", values=("0..40", "0..40")),
    Row("dp4a.{u32,s32}.{u32,s32}", "b32: b32 b32 b32"), Row("dp2a.{lo,hi}.{u32,s32}.{u32,s32}", "b32: b32 b32 b32"),
    # extended precision: the flag of one instruction is the next one's carry
    Row("add.cc.{u32,s32,u64,s64}", "T T: T T", text="{op} %d, %a, %b; addc.T %d1, %a, %b;"),
    Row("addc.cc.{u32,s32,u64,s64}", "T T: T T T", text="add.cc.T %d, %b, %c; {op} %d, %a, %b; addc.T %d1, %c, %a;"),
    Row("sub.cc.{u32,s32,u64,s64}", "T T: T T", text="{op} %d, %a, %b; subc.T %d1, %b, %a;"),
    Row("subc.cc.{u32,s32,u64,s64}", "T T: T T T", text="sub.cc.T %d, %b, %c; {op} %d, %a, %b; subc.T %d1, %c, %a;"),
    Row("mad.{lo,hi}.cc.{u32,s32,u64,s64}", "T T: T T T", text="{op} %d, %a, %b, %c; addc.T %d1, %c, %a;"),
    Row("madc.{lo,hi}{,.cc}.{u32,s32,u64,s64}", "T T: T T T", text="add.cc.T %d, %a, %c; {op} %d, %a, %b, %c; addc.T %d1, %a, 0;"),
    # a borrow read as a carry and the other way round: the flag is one
    Row("addc.{u32,u64}", "T: T T", text="sub.cc.T %d, %a, %b; {op} %d, %a, %b;"),
    Row("subc.{u32,u64}", "T: T T", text="add.cc.T %d, %a, %b; {op} %d, %a, %b;"),
    # logic and shifts
    Row("{and,or,xor}.{b16,b32,b64}"), Row("{and,or,xor}.pred", "pred: pred pred"),
    Row("not.{b16,b32,b64}", "T: T"), Row("not.pred", "pred: pred"), Row("cnot.{b16,b32,b64}", "T: T"),
    *(Row("lop3.b32", "b32: b32 b32 b32", text=f"{{op}} %d, %a, %b, %c, {table:#x};") for table in range(256)),
    *(Row("lop3.{or,and}.b32", "b32 pred: b32 b32 b32 pred", arch=70, text=f"{{op}} %d|%d1, %a, %b, %c, {table:#x}, %e;") for table in (0x80, 0x96, 0xCA, 0x1B)),
    Row("shf.{l,r}.{clamp,wrap}.b32", "b32: b32 b32 u32"), Row("shf.{l,r}.{clamp,wrap}.b32", "b32: b32 b32 u32", values=("", "", "0..64")),
    Row("shl.{b16,b32,b64}", "T: T u32"), Row("shr.{b16,b32,b64,u16,u32,u64,s16,s32,s64}", "T: T u32"),
    Row("shl.{b16,b32,b64}", "T: T u32", values=("", "0..70")), Row("shr.{u16,u32,u64,s16,s32,s64}", "T: T u32", values=("", "0..70")),
)
# fmt: on

"""LLVM text that several functions share."""

from __future__ import annotations

from warpwright.engine.jit.wave import Wave


def each_lane(wave: Wave, body: str, *, entry: str = "0", carried: str = "", joined: str = "") -> str:
    """A loop over the lanes of ``%exec``, lowest first: from label ``next`` to label ``end``, where the caller continues.

    Args:
        body: for one lane; ``%number`` is its number, ``%n`` the same as i64, ``wave.number`` is the same in the mask's
        type.  Ends with a branch to ``lane_done``. entry: label that jumps to ``next``. carried: values passed from
        lane to lane, as phi instructions; ``joined`` defines them, in ``lane_done``.
    """
    kind, number = wave.mask_type, wave.number
    narrow = "" if number == "%number" else "\n  %number = trunc i64 %n to i32"
    return f"""
next:
  %rest = phi {kind} [ %exec, %{entry} ], [ %rest_after, %lane_done ]
{carried}
  %any = icmp ne {kind} %rest, 0
  br i1 %any, label %lane, label %end
lane:
  {number} = call {kind} @llvm.cttz.{kind}({kind} %rest, i1 true)
  %less = sub {kind} %rest, 1
  %rest_after = and {kind} %rest, %less
  {wave.wide("%n", number)}{narrow}
{body}
lane_done:
{joined}
  br label %next
end:"""


def copy_value(wave: Wave, value: str, memory: str, step: str, store: bool) -> str:
    """Copy between a lane's words, in rows of all lanes' words at ``value``, and memory, where they are ``step`` bytes
    apart.

    ``%bytes`` (1, 2, 4, 8, 16) are copied; ends with a branch to ``lane_done``.
    """
    lines = ["  switch i32 %bytes, label %wide [ i32 1, label %one i32 2, label %two ]"]
    for label, type in (("one", "i8"), ("two", "i16")):
        lines.append(f"{label}:")
        if store:
            lines += [f"  %v_{type} = load {type}, ptr {value}", f"  store {type} %v_{type}, ptr {memory}"]
        else:
            lines += [
                f"  %v_{type} = load {type}, ptr {memory}",
                f"  %w_{type} = zext {type} %v_{type} to i32",
                f"  store i32 %w_{type}, ptr {value}",
            ]
        lines.append("  br label %lane_done")
    source, target = ("%in_row", "%in_memory") if store else ("%in_memory", "%in_row")
    return (
        "\n".join(lines)
        + f"""
wide:
  %words = lshr i32 %bytes, 2
  %words64 = zext i32 %words to i64
  br label %word
word:
  %w = phi i64 [ 0, %wide ], [ %w1, %word ]
  %memory_off = mul i64 %w, {step}
  %in_memory = getelementptr i8, ptr {memory}, i64 %memory_off
  %row_off = shl i64 %w, {wave.row_shift}
  %in_row = getelementptr i8, ptr {value}, i64 %row_off
  %v = load i32, ptr {source}, align 4
  store i32 %v, ptr {target}, align 4
  %w1 = add i64 %w, 1
  %again = icmp ult i64 %w1, %words64
  br i1 %again, label %word, label %lane_done"""
    )


def load_fields(pointer: str, fields: dict[str, tuple[int, str]]) -> str:
    """Loads of a structure's fields, named after them: byte offset and type of each."""
    return "\n".join(
        f"  %{name}_p = getelementptr i8, ptr {pointer}, i64 {at}\n  %{name} = load {type}, ptr %{name}_p"
        for name, (at, type) in fields.items()
    )

"""Operations in rounding directions other than to nearest: functions generated on demand (``shared_code.py``)."""

from __future__ import annotations

from warpwright.engine.jit.wave import Wave

ROUNDING_MODES = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}
"""Arguments of llvm.set.rounding."""


def directed_function(name: str, wave: Wave) -> tuple[str, dict[str, str]]:
    """An operation under a rounding direction: ``ww_<op>_<argument types>_<type>_<direction>``."""
    _, op, *types, rounding = name.split("_")
    *inputs, result = types
    arguments = ", ".join(f"{wave.vector_types[t]} %a{n}" for n, t in enumerate(inputs))
    out = wave.vector_types[result]
    suffix = f"v{wave.lanes}{result}"
    if op in ("fptrunc", "sitofp", "uitofp"):
        suffix += f".v{wave.lanes}{inputs[0]}"
    stem = f"llvm.experimental.constrained.{op}.{suffix}"
    kinds = ", ".join([*(wave.vector_types[t] for t in inputs), "metadata", "metadata"])
    declared = {
        stem: f"declare {out} @{stem}({kinds})",
        "llvm.set.rounding": "declare void @llvm.set.rounding(i32)",
    }
    text = f"""
define {out} @{name}({arguments}) noinline strictfp {{
  call void @llvm.set.rounding(i32 {ROUNDING_MODES[rounding]}) strictfp
  %r = call {out} @{stem}({arguments}, metadata !"round.dynamic", metadata !"fpexcept.ignore") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  ret {out} %r
}}
"""
    return text, declared

"""LLVM text for a warp's instructions: operands from variables, operations in order, results to variables."""

from __future__ import annotations

from warpwright.engine.abi import WARP
from warpwright.engine.blocks import recorded_accesses
from warpwright.engine.cancellation import check_cancelled
from warpwright.engine.jit import cross_lane as ln
from warpwright.engine.jit.floats import canonical_word
from warpwright.engine.jit.live_ranges import FILE_BASE
from warpwright.engine.jit.llvm_text import Masks, Val
from warpwright.engine.jit.operations import emit_operation, pair
from warpwright.engine.jit.resume_points import Stops
from warpwright.engine.jit.shape_inference import pack, uniform
from warpwright.engine.jit.shapes import UNSET_KIND, VECTOR_KIND, Shape
from warpwright.isa.ops import Op

CONTROL = frozenset(
    (
        *("branch", "branch_indirect", "exit", "trap", "bssy", "bsync", "break", "warpsync", "yield", "nanosleep"),
        *("barrier", "barrier_red", "push", "pop", "call"),
    )
)
CHANGES_MEMORY = frozenset(("store", "atomic", "fence", "service", "texture"))
"""Operations after which a load cannot be served together with loads before them."""


class Instructions(Stops):
    """Writes the operations of instructions; the caller handles the end of a block."""

    def _set_exec(self, index: int) -> None:
        w = self.w
        w.index = index
        w.guard = None
        w.exec = w.mask
        low = w.lowered[index]
        if low.guard is not None:
            w.guard = w.read_web(w.webs.references[index, -1].low)
            w.guard_inverted = low.guard[2]
            w.exec = w.and_mask(w.mask, w.guard, w.guard_inverted)

    def _instruction(self, index: int, after_barrier: bool = False) -> list[Val]:
        check_cancelled()
        self._set_exec(index)
        values = self._operations(index, after_barrier=after_barrier)
        if any(op.name in ("load", "store", "atomic", "texture", "bulk") for op in self.w.lowered[index].ops):
            self.w.fresh.clear()
        return values

    def _operations(self, index: int, stop_before: str = "", after_barrier: bool = False) -> list[Val]:
        """Write an instruction's operations; control operations are left to :meth:`_last`."""
        w = self.w
        shapes = w.facts.values[index]
        values: list[Val] = []
        nothing = Val("void", Shape(UNSET_KIND))
        recorded = recorded_accesses(w.lowered[index]) if w.trace else ()
        for position, op in enumerate(w.lowered[index].ops):
            name = op.name
            w.recording = position in recorded
            if name == stop_before:
                break
            if name[:4] == "get_":
                value = self._get(index, position, op)
                values.append(canonical_word(w, value) if (index, position) in self.nans.finish else value)
            elif name == "canonical_nan" and (index, position) in self.nans.skip:
                values.append(values[op.args[0]])
            elif name[:4] == "set_":
                self._set(index, position, op, values[op.args[0]])
                values.append(nothing)
            elif name in CONTROL:
                if name == "barrier_red" and after_barrier:
                    result = w.load_field("%warp", WARP["barrier_result"], "i32")
                    values.append(Val("i32", Shape(1), scalar=result))
                elif name == "barrier_red":
                    values.append(nothing)
                    break
                elif name in ("bssy", "break", "push"):
                    self._convergence(index, position, op, [values[a] for a in op.args])
                    values.append(nothing)
                else:
                    values.append(nothing)
            else:
                if name in CHANGES_MEMORY:
                    w.windows.clear()
                args = [values[a] for a in op.args]
                known = shapes[position]
                values.append(emit_operation(w, op, args, known))
        return values

    def _warpsync_mask(self, index: int) -> Val:
        """The operand of a WARPSYNC, computed before its lanes are known."""
        w = self.w
        w.index = index
        w.exec = w.mask = Masks("-1")
        values = self._operations(index, stop_before="warpsync")
        return values[w.lowered[index].ops[-1].args[0]]

    def _get(self, index: int, position: int, op: Op) -> Val:
        w = self.w
        reference = w.webs.references[index, position]
        if reference.high < 0:
            value = w.read_web(reference.low)
            web = w.webs.webs[reference.low]
            if web.type == "i64":
                return w.word(value, int(self._cell(op) != web.keys[0]))
            return value
        if reference.high == reference.low:
            return w.read_web(reference.low)
        return pair(w, w.read_web(reference.low), w.read_web(reference.high))

    @staticmethod
    def _cell(op: Op) -> int:
        file = {
            "get_reg": "reg",
            "get_ureg": "ureg",
            "get_pred": "pred",
            "get_upred": "upred",
            "get_barrier": "barrier",
        }
        return FILE_BASE[file[op.name]] + int(op.attr)

    def _set(self, index: int, position: int, op: Op, value: Val) -> None:
        w = self.w
        reference = w.webs.references[index, position]
        known = w.facts.values[index][op.args[0]]
        if isinstance(known, Shape) and known.kind == UNSET_KIND and value.shape.kind == VECTOR_KIND:
            value = Val(value.type, known)  # computed from registers that nothing sets, by code that never runs
        if op.name in ("set_ureg", "set_ureg64", "set_upred") and not uniform(value.shape):
            if value.type == "i64" and value.parts:
                value = Val("i64", value.shape, parts=tuple(ln.first_lane(w, p, w.exec) for p in value.parts))
                value.shape = pack((value.parts[0].shape, value.parts[1].shape))
            else:
                value = ln.first_lane(w, value, w.exec)
        if reference.high < 0 or reference.high == reference.low:
            w.write_web(reference.low, value, reference.keeps_old)
            return
        for web, part in zip((reference.low, reference.high), w.words_of(value, 2), strict=True):
            w.write_web(web, part, reference.keeps_old)

    def _convergence(self, index: int, position: int, op: Op, args: list[Val]) -> None:
        """BSSY and BREAK: maintain the masks of convergence barriers, only where a BSYNC waits."""
        w = self.w
        reference = w.webs.references.get((index, position))
        if reference is None or reference.low not in self.wanted_barriers or not w.has_storage(reference.low):
            return
        web = reference.low
        w.store_webs(range(len(w.webs.webs)))
        old = w.op(f"load {w.vecmask}, ptr {w.variable('w', web)}")
        if op.name == "bssy":
            group = w.splat(w.mask_type, w.exec.bits)
            new = w.op(f"select {w.vecbool} {w.mask_vector(w.exec)}, {w.vecmask} {group}, {w.vecmask} {old}")
        else:
            leaving = w.and_mask(w.exec, args[0], False) if args else w.exec
            rest = w.splat(w.mask_type, w.op(f"xor {w.mask_type} {leaving.bits}, -1"))
            new = w.op(f"and {w.vecmask} {old}, {rest}")
        w.emit(f"store {w.vecmask} {new}, ptr {w.variable('w', web)}")
        w.held.pop(web, None)
        if op.name == "break":
            self.groups.let_go(w.block, web)

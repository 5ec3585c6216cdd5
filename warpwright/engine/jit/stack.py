"""The warp function of chips before Volta: one group of lanes runs, a stack holds the others.

The stack is in the warp's save area, so that it outlives stops: entries of three words (lanes, block, kind), and
their count.  A divergent branch pushes the side that waits; SYNC, BRK, CONT, RET and exits branch to ``%tail``, which
takes the topmost entry that still has lanes and jumps to its block.  The rules are those of
``engine/interpreter/stack.py``.
"""

from __future__ import annotations

from warpwright.engine.abi import WARP, FaultKind
from warpwright.engine.jit.control import WarpFunction
from warpwright.engine.jit.flow_graph import members
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import ResumePoint, Val
from warpwright.engine.jit.shape_inference import uniform
from warpwright.isa.ops import Op

KINDS = {"div": 0, "ssy": 1, "brk": 2, "cnt": 3, "ret": 4}
MOST_ENTRIES = 1024
"""As in the interpreter."""
ENTRY_BYTES = 16


def stack_block_at(lanes: int) -> int:
    """Offset of an entry's block number, which follows the lanes; its kind comes next."""
    return 4 if lanes <= 32 else 8


class StackFunction(WarpFunction):
    """Writes the whole function."""

    STACK_COUNT = "stack_count"

    def __init__(self, w: FunctionWriter, name: str) -> None:
        super().__init__(w, name)
        self.elsewhere = list(self.together)
        """Blocks in which lanes may wait on the stack while a block runs."""
        # Lanes are only pending where the warp is.
        self.together = [0] * len(w.blocks)
        self.waiting = 0
        self.held_barriers = []
        self.groups.exist = False
        self.block_at = stack_block_at(w.lanes)
        self.landings: set[int] = set()
        """Blocks that a stack entry may name."""

    # --- the whole --------------------------------------------------------------------------------
    def _entry(self) -> None:
        super()._entry()
        w = self.w
        at = next(i for i, line in enumerate(w.lines) if line.strip().startswith("switch i32"))
        places = [
            f"  %stack_count = getelementptr i8, ptr %save, i64 SAVE+{self.slot('stack_count', 8)}",
            f"  %stack = getelementptr i8, ptr %save, i64 SAVE+{self.slot('stack', ENTRY_BYTES * (MOST_ENTRIES + 1))}",
        ]
        w.lines[at:at] = places
        start = next(i for i, line in enumerate(w.lines) if line.startswith("start:"))
        w.lines.insert(start + 1, "  store i64 0, ptr %stack_count")

    def live_at(self, resume: ResumePoint) -> list[int]:
        w = self.w
        live = set(super().live_at(resume))
        ahead = self.elsewhere[resume.block]
        if resume.block:
            ahead |= self.elsewhere[resume.block - 1]
        for n in members(ahead):
            live |= w.webs.live_in[n]
        return sorted(live & self._stored)

    def _finish(self) -> None:
        """Run the top of the stack; if it is empty, the warp has ended."""
        w = self.w
        w.label("tail")
        count = w.op("load i64, ptr %stack_count")
        empty = w.op(f"icmp eq i64 {count}, 0")
        w.emit(f"br i1 {empty}, label %finish, label %next_entry")
        w.label("next_entry")
        top = w.op(f"sub i64 {count}, 1")
        w.emit(f"store i64 {top}, ptr %stack_count")
        entry = self._entry_at(top)
        lanes = w.op(f"load {w.mask_type}, ptr {entry}")
        gone = w.op(f"load {w.mask_type}, ptr %exited")
        lanes = w.op(f"and {w.mask_type} {lanes}, {w.op(f'xor {w.mask_type} {gone}, -1')}")
        none = w.op(f"icmp eq {w.mask_type} {lanes}, 0")
        w.emit(f"br i1 {none}, label %tail, label %enter_entry")
        w.label("enter_entry")
        block = w.op(f"load i32, ptr {w.op(f'getelementptr i8, ptr {entry}, i64 {self.block_at}')}")
        landings = sorted(self.landings)
        cases = " ".join(f"i32 {n}, label %land{n}" for n in landings)
        w.emit(f"switch i32 {block}, label %no_landing [{cases}]")
        for n in landings:
            w.label(f"land{n}")
            w.emit(f"store {w.mask_type} {lanes}, ptr {w.variable('p', n)}")
            w.emit(f"br label %e{n}")
        w.label("no_landing")
        w.emit("unreachable")
        super()._finish()

    def _after_exit(self, n: int) -> None:
        self.w.emit("br label %tail")

    # --- the stack --------------------------------------------------------------------------------
    def _entry_at(self, number: str) -> str:
        w = self.w
        offset = w.op(f"mul i64 {number}, {ENTRY_BYTES}")
        return w.op(f"getelementptr i8, ptr %stack, i64 {offset}")

    def _push(self, kind: str, block: int, lanes: str) -> None:
        """Push an entry; a full stack is a fault."""
        w = self.w
        self.landings.add(block)
        count = w.op("load i64, ptr %stack_count")
        full = w.op(f"icmp uge i64 {count}, {MOST_ENTRIES}")
        over, go = w.new_label("overflow"), w.new_label("pushed")
        w.emit(f"br i1 {full}, label %{over}, label %{go}, !prof !2")
        w.label(over)
        w.store_field("%warp", WARP["fault_kind"], str(int(FaultKind.STACK_OVERFLOW)))
        w.store_field("%warp", WARP["fault_address"], "0")
        w.store_field("%warp", WARP["fault_lanes"], w.wide_mask(lanes))
        w.store_field("%warp", WARP["fault_bytes"], "0")
        w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[w.index].address))
        w.emit("br label %fault")
        w.label(go)
        entry = self._entry_at(count)
        w.emit(f"store {w.mask_type} {lanes}, ptr {entry}")
        w.emit(f"store i32 {block}, ptr {w.op(f'getelementptr i8, ptr {entry}, i64 {self.block_at}')}")
        w.emit(f"store i32 {KINDS[kind]}, ptr {w.op(f'getelementptr i8, ptr {entry}, i64 {self.block_at + 4}')}")
        w.emit(f"store i64 {w.op(f'add i64 {count}, 1')}, ptr %stack_count")

    def _leave_entries(self, kind: str, lanes: str) -> None:
        """Remove lanes from every entry above the topmost one of a kind."""
        w = self.w
        first = w.op("load i64, ptr %stack_count")
        before, loop, look, out, done = (w.new_label(x) for x in ("leaving", "leave", "entry", "not_this", "left"))
        w.emit(f"br label %{before}")
        w.label(before)
        w.emit(f"br label %{loop}")
        w.label(loop)
        number, following = f"%{w.new_label('entry_number')}", f"%{w.new_label('entry_below')}"
        w.emit(f"{number} = phi i64 [ {first}, %{before} ], [ {following}, %{out} ]")
        none = w.op(f"icmp eq i64 {number}, 0")
        wild = w.new_label("no_entry")
        w.emit(f"br i1 {none}, label %{wild}, label %{look}")
        w.label(wild)
        self._wild(w.block, lanes, "0")
        w.label(look)
        w.emit(f"{following} = sub i64 {number}, 1")
        entry = self._entry_at(following)
        found = w.op(f"load i32, ptr {w.op(f'getelementptr i8, ptr {entry}, i64 {self.block_at + 4}')}")
        same = w.op(f"icmp eq i32 {found}, {KINDS[kind]}")
        w.emit(f"br i1 {same}, label %{done}, label %{out}")
        w.label(out)
        old = w.op(f"load {w.mask_type}, ptr {entry}")
        others = w.op(f"xor {w.mask_type} {lanes}, -1")
        w.emit(f"store {w.mask_type} {w.op(f'and {w.mask_type} {old}, {others}')}, ptr {entry}")
        w.emit(f"br label %{loop}")
        w.label(done)

    def _convergence(self, index: int, position: int, op: Op, args: list[Val]) -> None:
        """SSY, PBK, PCNT, PRET: push the point at which the executing lanes reconverge."""
        w = self.w
        kind, address = op.attr
        block = next(b.number for b in w.blocks if w.program.instructions[b.first].address == address)
        self._push(kind, block, w.exec.bits)

    # --- ends of blocks ---------------------------------------------------------------------------
    def _stack_jump(self, n: int, op: Op, condition: Val | None) -> None:
        w = self.w
        if op.name == "call":
            target = next(b.number for b in w.blocks if w.program.instructions[b.first].address == op.attr)
            self._push("ret", n + 1, w.mask.bits)
            self._goto(n, target, w.mask.bits)
            return
        taken, decides, inverted = self._taken(condition)
        if w.guard is None and condition is None:
            self._pop(op.attr, w.mask.bits)
            w.emit("br label %tail")
            return
        if decides is not None:
            yes, no = self._by_scalar(decides, inverted, "leaves", "stays")
            w.label(yes)
            self._pop(op.attr, w.mask.bits)
            w.emit("br label %tail")
            w.label(no)
            self._goto(n, n + 1, w.mask.bits)
            return
        rest = w.op(f"and {w.mask_type} {w.mask.bits}, {w.op(f'xor {w.mask_type} {taken.bits}, -1')}")
        some, stay, left = w.new_label("leaves"), w.new_label("stays"), w.new_label("left")
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {taken.bits}, 0')}, label %{some}, label %{stay}")
        w.label(some)
        self._pop(op.attr, taken.bits)
        w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {rest}, 0')}, label %tail, label %{left}")
        w.label(left)
        self._goto(n, n + 1, rest)
        w.label(stay)
        self._goto(n, n + 1, w.mask.bits)

    def _pop(self, kind: str, lanes: str) -> None:
        """Send lanes to the topmost entry of a kind.  Compilers leave no entry with its lanes above an SSY entry."""
        if kind != "ssy":
            self._leave_entries(kind, lanes)

    def _fork(self, n: int, first: int, first_lanes: str, second: int, second_lanes: str) -> None:
        """Two paths for the lanes of a group: the taken side (the second) runs, the other waits on the stack."""
        w = self.w
        some, none, both, all_ = (w.new_label(x) for x in ("some", "none", "both", "all"))
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {second_lanes}, 0')}, label %{some}, label %{none}")
        w.label(none)
        self._goto(n, first, first_lanes)
        w.label(some)
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {first_lanes}, 0')}, label %{both}, label %{all_}")
        w.label(both)
        self._push("div", first, first_lanes)
        w.emit(f"br label %{all_}")
        w.label(all_)
        self._goto(n, second, second_lanes)

    def _branch_indirect(self, n: int, address: Val) -> None:
        w = self.w
        if uniform(address.shape) and (w.guard is None or uniform(w.guard.shape)):
            super()._branch_indirect(n, address)
            return
        vector = w.vector(address)
        rest = w.exec.bits
        if w.guard is not None:
            stay = w.op(f"and {w.mask_type} {w.mask.bits}, {w.op(f'xor {w.mask_type} {rest}, -1')}")
            self._push("div", n + 1, stay)
        base = w.program.code_base
        for target in sorted(w.blocks[n].successors, reverse=True):
            place = w.program.instructions[w.blocks[target].first].address + base
            same = w.op(f"icmp eq {w.vec64} {vector}, {w.literal_vector('i64', (place,) * w.lanes)}")
            here = w.op(f"and {w.mask_type} {rest}, {w.bits_of(same)}")
            rest = w.op(f"and {w.mask_type} {rest}, {w.op(f'xor {w.mask_type} {here}, -1')}")
            self._push("div", target, here)
        lost = w.op(f"icmp ne {w.mask_type} {rest}, 0")
        wild = w.new_label("wild")
        w.emit(f"br i1 {lost}, label %{wild}, label %tail")
        w.label(wild)
        self._wild(n, rest, "0")

    def _arriving(self) -> str:
        """A block barrier counts whole warps: lanes that wait on the stack count as arrived."""
        w = self.w
        gone = w.op(f"load {w.mask_type}, ptr %exited")
        return w.op(f"and {w.mask_type} %lanes, {w.op(f'xor {w.mask_type} {gone}, -1')}")

"""LLVM text for ends of blocks: where the lanes of a group continue, and whether the warp stops."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property

from warpwright.engine.abi import BACK_EDGES_BEFORE_YIELD, BARRIER_MODES, LAUNCH, WARP, FaultKind, Status
from warpwright.engine.jit import cross_lane as ln
from warpwright.engine.jit import lockstep
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.checks import settle_faults
from warpwright.engine.jit.instructions import Instructions
from warpwright.engine.jit.llvm_text import Masks, Val
from warpwright.engine.jit.shape_inference import uniform
from warpwright.engine.jit.shapes import UNIFORM, UNSET_KIND
from warpwright.isa.ops import Op

INSTRUCTIONS_BETWEEN_CANCEL_CHECKS = 1 << 20


def _decides(condition: Val) -> bool:
    """Whether a predicate is uniform, so that its scalar decides a branch."""
    return uniform(condition.shape) or condition.shape.kind == UNSET_KIND


class Jumps(Instructions):
    """Writes what follows the last instruction of a block."""

    def _live_out(self, n: int) -> Container[int]:
        """Webs that are live after a block; its last instruction may continue after a barrier."""
        w = self.w
        if w.flow.ends[n] == "barrier_red":
            return range(len(w.webs.webs))
        return frozenset().union(*(w.webs.live_in[s] for s in w.blocks[n].successors))

    @cached_property
    def _block_at(self) -> dict[int, int]:
        """The block that begins at each address."""
        w = self.w
        return {w.program.instructions[b.first].address: b.number for b in reversed(w.blocks)}

    def _last(self, n: int, index: int) -> None:
        """Write the last instruction of a block and the code after it."""
        w = self.w
        values = self._instruction(index)
        if w.flow.starts[n] == "warpsync" and w.trace and w.setting.watched:
            wanted = values[w.lowered[index].ops[-1].args[0]]
            tr.note_outside(w, w.exec.bits, wanted, w.program.instructions[index].address)
        tr.finish_block(w)
        settle_faults(w)
        w.store_webs(self._live_out(n))
        low = w.lowered[index]
        end = w.flow.ends[n]
        if not end:
            self._goto(n, n + 1, w.mask.bits)
            return
        op = next(o for o in low.ops if o.name == end)
        args = [values[a] for a in op.args]
        if end == "branch":
            target = self._block_at[op.attr]
            self._branch(n, target, args[0] if args else None)
        elif end == "branch_indirect":
            self._branch_indirect(n, args[0])
        elif end == "exit":
            self._exit(n, args[0] if args else None)
        elif end == "trap":
            self._trap(n, index)
        elif end == "nanosleep":
            self._nanosleep(n, op, args[0])
        elif end == "yield":
            self.groups.give_way(n + 1, w.mask.bits, lambda: self._goto(n, n + 1, w.mask.bits))
        elif end in ("pop", "call"):
            self._stack_jump(n, op, args[0] if args else None)
        else:
            self._barrier(n, op, args)

    def _goto(self, n: int, target: int, lanes: str) -> None:
        """Send a group to a block."""
        w = self.w
        if target >= len(w.blocks):
            self._wild(n, lanes, str(16 * sum(b.count for b in w.blocks)))
            return
        if self._is_alone(n, target):
            assert target not in self.given, target
            self.given[target] = lanes
            w.emit(f"br label %e{target}")
            return
        w.emit(f"store {w.mask_type} {lanes}, ptr {w.variable('p', target)}")
        if target <= n:
            self._back_edge(n, target)
        else:
            w.emit(f"br label %e{target}")

    def _is_added(self, n: int) -> bool:
        """Whether a block is the compiler's own (``repeated_code.py``): not counted, and no turn of a loop that waits."""
        return self.w.repeats is not None and self.w.repeats.numbers[n] < 0

    def _is_alone(self, n: int, target: int) -> bool:
        """Whether a branch is the only entry of a block, so that its lanes need no variable."""
        w = self.w
        if w.trace or self.groups.exist or w.flow.stacked or w.flow.ends[n] not in ("", "branch", "exit"):
            return False
        twice = w.flow.ends[n] == "branch" and self.w.blocks[n].successors == (n + 1,)
        elsewhere = ("enter", target) in w.resumes or w.left_out >> target & 1 or w.blocks[target].gives_way
        return self.predecessors[target] == [n] and n < target and not twice and not elsewhere

    def _back_edge(self, n: int, target: int) -> None:
        """A backward branch: makes endless loops stoppable, and spin loops yield."""
        w = self.w
        made = w.op("load i64, ptr %instructions")
        late = w.op(f"icmp ugt i64 {made}, " + w.op("load i64, ptr %limit"))
        check, go = w.new_label("check"), w.new_label("loop")
        w.emit(f"br i1 {late}, label %{check}, label %{go}, !prof !2")
        w.label(check)
        w.emit(f"store i64 {w.op(f'add i64 {made}, {INSTRUCTIONS_BETWEEN_CANCEL_CHECKS}')}, ptr %limit")
        pointer = w.field("%launch", LAUNCH["cancel"])
        stop = w.op("icmp ne i64 " + w.op(f"load atomic i64, ptr {pointer} monotonic, align 8") + ", 0")
        leave = w.new_label("leave")
        w.emit(f"br i1 {stop}, label %{leave}, label %{go}")
        w.label(leave)
        # The warp never runs again; its position is recorded for a message.
        at = w.program.instructions[w.blocks[n].first + w.blocks[n].count - 1].address
        w.store_field("%warp", WARP["cancelled_at"], str(at + 1))
        w.store_field(
            "%warp", WARP["fault_lanes"], w.wide_mask(w.op(f"load {w.mask_type}, ptr {w.variable('p', target)}"))
        )
        w.emit(f"store i32 {int(Status.YIELD)}, ptr %status")
        w.emit("br label %return")
        w.label(go)
        fair = w.flow.fair[n] and w.flow.fair[target] and not self._is_added(n)
        stride = "" if fair or target != n else lockstep.long_stride(w, n)
        if stride:
            self.in_step = not w.trace
            lockstep.give_way(w, stride, self.save_label("enter", n), f"%e{n}")
            return
        if not fair:
            w.emit(f"br label %e{target}")
            return
        turns = w.op("add i32 1, " + w.op("load i32, ptr %turns"))
        w.emit(f"store i32 {turns}, ptr %turns")
        enough = w.op(f"icmp uge i32 {turns}, {BACK_EDGES_BEFORE_YIELD}")
        leave_warp, stay = w.new_label("yield"), w.new_label("stay")
        w.emit(f"br i1 {enough}, label %{leave_warp}, label %{stay}")
        w.label(leave_warp)
        w.emit("store i32 0, ptr %turns")
        w.emit(f"store i32 {int(Status.YIELD)}, ptr %status")
        w.emit(f"br label {self.save_label('enter', target)}")
        w.label(stay)
        w.emit(f"br label %e{target}")

    # --- branches ---------------------------------------------------------------------------------

    def _taken(self, condition: Val | None) -> tuple[Masks, Val | None, bool]:
        """(lanes that take a branch, the scalar that decides for all lanes or None, whether it is inverted)."""
        w = self.w
        if condition is None:
            if w.guard is None:
                return w.exec, None, False
            if _decides(w.guard):
                return w.exec, w.guard, w.guard_inverted
            return w.exec, None, False
        taken = w.and_mask(w.exec, condition)
        if not _decides(condition) or (w.guard is not None and not _decides(w.guard)):
            return taken, None, False
        if w.guard is None:
            return taken, condition, False
        # The analysis also treats such a branch as uniform: one scalar must decide.
        guard = w.scalar(w.guard)
        if w.guard_inverted:
            guard = w.op(f"xor i1 {guard}, true")
        both = w.op(f"and i1 {guard}, {w.scalar(condition)}")
        return taken, Val("i1", UNIFORM, scalar=both), False

    def _by_scalar(self, decides: Val, inverted: bool, taken: str, stays: str) -> tuple[str, str]:
        """Branch on the scalar that decides for all lanes; returns the labels of the two paths, which have these
        stems."""
        w = self.w
        yes, no = w.new_label(taken), w.new_label(stays)
        first, second = (no, yes) if inverted else (yes, no)
        w.emit(f"br i1 {w.scalar(decides)}, label %{first}, label %{second}")
        return yes, no

    def _pass_without_lanes(self, n: int, executes: str, passes: str) -> None:
        """If the guard holds in no lane of a group, continue after the block; the labels have these stems."""
        w = self.w
        if w.guard is None:
            return
        some = w.op(f"icmp ne {w.mask_type} {w.exec.bits}, 0")
        yes, no = w.new_label(executes), w.new_label(passes)
        w.emit(f"br i1 {some}, label %{yes}, label %{no}")
        w.label(no)
        self._goto(n, n + 1, w.mask.bits)
        w.label(yes)

    def _branch(self, n: int, target: int, condition: Val | None) -> None:
        w = self.w
        taken, decides, inverted = self._taken(condition)
        if w.guard is None and condition is None:
            self._goto(n, target, w.mask.bits)
            return
        if decides is not None:
            yes, no = self._by_scalar(decides, inverted, "taken", "falls")
            w.label(yes)
            self._goto(n, target, w.mask.bits)
            w.label(no)
            self._goto(n, n + 1, w.mask.bits)
            return
        rest = w.op(f"and {w.mask_type} {w.mask.bits}, {w.op(f'xor {w.mask_type} {taken.bits}, -1')}")
        if target == n + 1:
            self._goto(n, target, w.mask.bits)
            return
        self._fork(n, n + 1, rest, target, taken.bits)

    def _fork(self, n: int, first: int, first_lanes: str, second: int, second_lanes: str) -> None:
        """Two paths for the lanes of a group, which diverges if both have lanes."""
        w = self.w
        one, other, two, both = (w.new_label(stem) for stem in ("all", "some", "none", "both"))
        # Most often the whole group takes a loop's backward branch.
        checks = [(second_lanes, one), (first_lanes, two)]
        if second <= n:
            checks.reverse()
        (lanes, label), (lanes2, label2) = checks
        w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {lanes}, 0')}, label %{label}, label %{other}, !prof !0")
        w.label(other)
        w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {lanes2}, 0')}, label %{label2}, label %{both}")
        w.label(one)
        self._goto(n, first, first_lanes)
        w.label(two)
        self._goto(n, second, second_lanes)
        w.label(both)
        self.groups.part(n, first, first_lanes, second, second_lanes, lambda block, lanes: self._goto(n, block, lanes))

    def _wild(self, n: int, lanes: str, address: str) -> None:
        w = self.w
        index = w.blocks[n].first + w.blocks[n].count - 1
        w.store_field("%warp", WARP["fault_kind"], str(int(FaultKind.WILD_BRANCH)))
        w.store_field("%warp", WARP["fault_address"], address)
        w.store_field("%warp", WARP["fault_lanes"], w.wide_mask(lanes))
        w.store_field("%warp", WARP["fault_bytes"], "0")
        w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[index].address))
        w.emit("br label %fault")

    def _branch_indirect(self, n: int, address: Val) -> None:
        """Returns and jump tables: dispatch to every possible target block; any other address is an invalid branch."""
        w = self.w
        base = w.program.code_base
        if uniform(address.shape) and (w.guard is None or uniform(w.guard.shape)):
            if w.guard is not None:
                yes, no = self._by_scalar(w.guard, w.guard_inverted, "taken", "falls")
                w.label(no)
                self._goto(n, n + 1, w.mask.bits)
                w.label(yes)
            value = w.op(f"sub i64 {w.scalar(address)}, {base}")
            landings, wild = self._switch(n, value)
            for target, landing in landings:
                w.label(landing)
                self._goto(n, target, w.mask.bits)
            w.label(wild)
            self._wild(n, w.mask.bits, value)
            return
        vector = w.vector(address)
        lanes = w.exec.bits
        self._pass_without_lanes(n, "some", "none")
        # The lowest lane's target; lanes with other targets, and those that only fall through, execute the instruction again.
        number = ln.first_lane_number(w, w.exec)
        place = w.op(f"extractelement {w.vec64} {vector}, {w.mask_type} {number}")
        same = w.op(f"icmp eq {w.vec64} {vector}, {w.splat('i64', place)}")
        here = w.op(f"and {w.mask_type} {lanes}, {w.bits_of(same)}")
        rest = w.op(f"xor {w.mask_type} {w.mask.bits}, {here}")
        value = w.op(f"sub i64 {place}, {base}")
        landings, wild = self._switch(n, value)
        for target, landing in landings:
            w.label(landing)
            alone, parted = w.new_label("one"), w.new_label("several")
            w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {rest}, 0')}, label %{alone}, label %{parted}")
            w.label(alone)
            self._goto(n, target, here)
            w.label(parted)
            self.groups.part(n, target, here, n, rest, lambda block, lanes: self._goto(n, block, lanes))
        w.label(wild)
        self._wild(n, here, value)

    def _switch(self, n: int, address: str) -> tuple[list[tuple[int, str]], str]:
        """Dispatch on a code address: (block, label) of every possible target, and the label for any other address."""
        w = self.w
        landings = [(target, w.new_label("go")) for target in w.blocks[n].successors]
        wild = w.new_label("wild")
        places = (f"i64 {w.program.instructions[w.blocks[t].first].address}, label %{label}" for t, label in landings)
        for run in w.repeats.runs if w.repeats is not None else ():
            # Its address in the first copy, if it is in the copy that the warp executes.
            begin = w.op(f"add i64 {w.op('mul i64 ' + w.op('load i64, ptr %copy') + f', {run.bytes}')}, {run.address}")
            offset = w.op(f"sub i64 {address}, {begin}")
            inside = w.op(f"icmp ult i64 {offset}, {run.bytes}")
            first = w.op(f"add i64 {offset}, {run.address}")
            other = w.op(f"icmp ult i64 {w.op(f'sub i64 {address}, {run.address}')}, {run.bytes * run.copies}")
            outside = w.op(f"select i1 {other}, i64 -1, i64 {address}")
            address = w.op(f"select i1 {inside}, i64 {first}, i64 {outside}")
        w.emit(f"switch i64 {address}, label %{wild} [{' '.join(places)}]")
        return landings, wild

    def _stack_jump(self, n: int, op: Op, condition: Val | None) -> None:
        """Jumps of the reconvergence stack; implemented in ``stack.py``."""
        raise ValueError(f"operation {op.name} needs a reconvergence stack")

    # --- ends and stops ---------------------------------------------------------------------------

    def _exit(self, n: int, condition: Val | None) -> None:
        w = self.w
        taken, decides, inverted = self._taken(condition)
        if w.guard is None and condition is None:
            self._leave(n, w.mask.bits)
            return
        if decides is not None:
            yes, no = self._by_scalar(decides, inverted, "ends", "lives")
            w.label(yes)
            self._leave(n, w.mask.bits)
            w.label(no)
            self._goto(n, n + 1, w.mask.bits)
            return
        rest = w.op(f"and {w.mask_type} {w.mask.bits}, {w.op(f'xor {w.mask_type} {taken.bits}, -1')}")
        some, none = w.new_label("lives"), w.new_label("ends")
        gone = w.op(f"load {w.mask_type}, ptr %exited")
        w.emit(f"store {w.mask_type} {w.op(f'or {w.mask_type} {gone}, {taken.bits}')}, ptr %exited")
        self.groups.let_go(n)
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {rest}, 0')}, label %{some}, label %{none}")
        w.label(some)
        self._goto(n, n + 1, rest)
        w.label(none)
        self._after_exit(n)

    def _leave(self, n: int, lanes: str) -> None:
        w = self.w
        gone = w.op(f"load {w.mask_type}, ptr %exited")
        w.emit(f"store {w.mask_type} {w.op(f'or {w.mask_type} {gone}, {lanes}')}, ptr %exited")
        self.groups.let_go(n)
        self._after_exit(n)

    def _after_exit(self, n: int) -> None:
        self.w.emit("br label %next" if self.groups.exist else "br label %finish")

    def _trap(self, n: int, index: int) -> None:
        w = self.w
        self._pass_without_lanes(n, "trap", "go")
        w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[index].address))
        w.store_field("%warp", WARP["fault_lanes"], w.wide_mask(w.exec.bits))
        w.store_field("%warp", WARP["fault_kind"], "0")
        w.emit(f"store i32 {int(Status.TRAP)}, ptr %status")
        w.emit("br label %return")

    def _nanosleep(self, n: int, op: Op, time: Val) -> None:
        """NANOSLEEP, or griddepcontrol, for which the timing model is told whether any lane executes it."""
        w = self.w
        if op.attr == "grid":
            longest = w.op(f"zext i1 {w.op(f'icmp ne {w.mask_type} {w.exec.bits}, 0')} to i64")
        else:
            longest = w.op(f"zext i32 {w.scalar(ln.first_lane(w, time, w.exec))} to i64")
        w.store_field("%warp", WARP["sleep_ns"], longest)
        w.emit(f"store i32 {int(Status.SLEEP if w.trace else Status.YIELD)}, ptr %status")
        w.emit(f"store {w.mask_type} {w.mask.bits}, ptr {w.variable('p', n + 1)}")
        if not self.groups.exist:
            w.emit(f"br label {self.save_label('enter', n + 1)}")
            return
        rested = self.groups.sleep(n + 1, w.mask.bits)
        # Where all others have yielded too, lanes that wait for them may continue; otherwise the search ends at the next group.
        w.emit(f"br i1 {rested}, label {self.save_label('next', -1)}, label {self.save_label('scan', -1)}")

    def _arriving(self) -> str:
        """The lanes that count as arrived at a block barrier."""
        return self.w.exec.bits

    def _barrier(self, n: int, op: Op, args: list[Val]) -> None:
        """A block barrier: record it, save state, return."""
        w = self.w
        number = w.scalar(ln.first_lane(w, args[0], w.exec))
        threads = w.scalar(ln.first_lane(w, args[1], w.exec))
        mode = BARRIER_MODES.index(op.attr)
        self._pass_without_lanes(n, "arrives", "passes")
        if self.groups.divergent >> n & 1:
            self._passers_first(n)
        w.store_field("%warp", WARP["barrier_id"], w.op(f"zext i32 {number} to i64"))
        w.store_field("%warp", WARP["barrier_threads"], w.op(f"zext i32 {threads} to i64"))
        w.store_field("%warp", WARP["barrier_mode"], str(mode))
        # The position at which it waits, for the message of a deadlock.
        w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[w.index].address))
        lanes = w.wide_mask(self._arriving())
        held = n in self.held_barriers
        pointer = w.field("%warp", WARP["barrier_lanes"])
        before = w.op(f"load i64, ptr {pointer}") if held else "0"
        w.emit(f"store i64 {w.op(f'or i64 {lanes}, {before}') if held else lanes}, ptr {pointer}")
        if len(args) > 2:
            vote = w.wide_mask(w.and_mask(w.exec, args[2]).bits)
            pointer = w.field("%warp", WARP["barrier_vote"])
            if held:
                # The predicates of lanes that have not arrived belong to an earlier barrier.
                said = w.op(f"and i64 {before}, " + w.op(f"load i64, ptr {pointer}"))
                vote = w.op(f"or i64 {vote}, {said}")
            w.emit(f"store i64 {vote}, ptr {pointer}")
        w.emit(f"store i32 {int(Status.BARRIER)}, ptr %status")
        if held:
            for place in (w.variable("q", n), "%held"):
                old = w.op(f"load {w.mask_type}, ptr {place}")
                w.emit(f"store {w.mask_type} {w.op(f'or {w.mask_type} {old}, {w.mask.bits}')}, ptr {place}")
            w.emit("br label %next")
            return
        w.emit(f"store {w.mask_type} {w.mask.bits}, ptr {w.variable('p', n + 1)}")
        kind = "red" if op.name == "barrier_red" else "enter"
        w.emit(f"br label {self.save_label(kind, n + 1)}")

    def _passers_first(self, n: int) -> None:
        """Lanes that a barrier's guard excludes do not wait: they continue, and the others come to the barrier again
        when it is their turn."""
        w = self.w
        rest = w.op(f"and {w.mask_type} {w.mask.bits}, {w.op(f'xor {w.mask_type} {w.exec.bits}, -1')}")
        some, none = w.new_label("pass"), w.new_label("wait")
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {rest}, 0')}, label %{some}, label %{none}")
        w.label(some)
        self.groups.push(n, w.exec.bits)
        self._goto(n, n + 1, rest)
        w.label(none)

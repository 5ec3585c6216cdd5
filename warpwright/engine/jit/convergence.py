"""Groups of a warp in compiled code: lanes that run together, the stack of waiting groups, and joining.

One group runs.  When its lanes diverge, the smaller part continues and the other is pushed; of two equal parts, the one
that falls through continues.  A group runs until it waits, ends or yields; then the last group pushed continues.  If it
was pushed after the last such choice, it runs alone.  If another group had been pushed on top of it, it is joined by
all lanes at its instruction, on the stack or waiting there at a BSYNC, which they execute again (``leave_apart``,
``count_leaves``).  Otherwise only BSYNC and WARPSYNC join groups: two groups at the same instruction execute it
separately.  An indirect branch takes the lanes that share the target of the lowest lane; the others execute it again.
A WARPSYNC that groups reached separately is executed once more for all.  This is the behaviour of an H200
(``bench/micro/divergence.cu``).

YIELD and NANOSLEEP yield: the group goes to the bottom of the stack.  When no other group can run, or at a NANOSLEEP if
all others have yielded too, lanes that wait at a BSYNC only for such groups continue without them.  YIELD does not wake
groups that yielded themselves; the group released first continues first (``bench/micro/spins.cu``).  Lanes also continue without lanes that wait at a WARPSYNC
(``bench/micro/warpsync.cu``).  Lanes that are left behind do not wait for others at that BSYNC.

The stack is in the warp's save area: an entry is a block number and lanes, and ``apart`` says whether the last one runs
alone.  ``a<n>`` are the lanes that wait at convergence point n, ``p<n>`` the lanes that enter block n.  Labels:
``next`` takes the next group, ``scan`` searches for a convergence point that can release lanes, ``c<n>`` tests one,
``finish`` is reached when no group can run.

Lanes that wait at different WARPSYNCs can meet. The code that compares one with all others exists once per function,
not once for each of them (``meet`` and ``release``): it is called with its arguments in the save area and returns to
``met<n>`` and ``released<n>``. Lanes rarely wait at another one; ``synced``, the lanes at all such WARPSYNCs, shows
whether any do.
"""

from __future__ import annotations

from collections.abc import Callable

from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.flow_graph import Bits, members
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Masks, Val
from warpwright.engine.jit.shape_inference import uniform

YIELDS_BEFORE_ALL_TAKE_TURNS = 4
"""Ensures that spinning lanes and lanes that yielded before them do not wait for each other forever."""


MATES = """\
mates:
br label %mate
mate:
%seen = phi i64 [ 0, %mates ], [ %seen_next, %look ]
%kept = phi i64 [ 0, %mates ], [ %kept_next, %look ]
%joined = phi {type} [ {entry}, %mates ], [ %joined_next, %look ]
%more = icmp ult i64 %seen, {top}
br i1 %more, label %look, label %met
look:
%look_at = getelementptr {type}, ptr %stack, i64 %seen
%mate_entry = load {type}, ptr %look_at
%difference = xor {type} %mate_entry, {entry}
%difference_of_blocks = trunc {type} %difference to i32
%other_block = icmp ne i32 %difference_of_blocks, 0
%mate_lanes = select i1 %other_block, {type} 0, {type} %mate_entry
%joined_next = or {type} %joined, %mate_lanes
%keep_at = getelementptr {type}, ptr %stack, i64 %kept
store {type} %mate_entry, ptr %keep_at
%keeps = zext i1 %other_block to i64
%kept_next = add i64 %kept, %keeps
%seen_next = add i64 %seen, 1
br label %mate
met:
store i64 %kept, ptr %depth
br label %chosen"""
"""Removes the entries of one block from the stack."""


class Groups:
    """Writes the code between groups; ``WarpFunction`` writes the code within a group."""

    def __init__(self, w: FunctionWriter, held_barriers: list[int]) -> None:
        self.w = w
        facts = w.facts
        self.divergent = facts.divergent
        self.stands: Bits = facts.stands
        for n in held_barriers:
            self.stands |= 1 << (n + 1)
        self.points = [n for n in members(facts.waiting) if w.flow.starts[n]]
        """Blocks that are a convergence point at which lanes wait."""
        self.syncs = [n for n in self.points if not w.left_out >> n & 1]
        """Those in this function; at the others, lanes wait only in the whole function."""
        self.waits: Bits = sum(1 << n for n in self.syncs)
        self.meeting = [n for n in self.points if w.flow.starts[n] == "warpsync" and w.flow.collective >> n & 1]
        """WARPSYNCs whose lanes can meet; a function for a part of the blocks has only those of ``syncs``."""
        self.exist = bool(self.stands or self.points or held_barriers)
        """Whether more than one group can exist."""
        self.yields = bool(w.flow.gives_way) and self.exist
        self.pushed: Bits = sum(1 << (n + 1) for n in held_barriers)
        """Blocks for which code pushes groups; known once all blocks are written."""

        for n in self.points:
            if w.lowered[w.blocks[n].first].guard is not None:
                self.stands |= 1 << (n + 1)
        self.held_barriers = held_barriers
        self.callers: dict[str, list[int]] = {}
        """WARPSYNCs that call shared code, by its label."""
        self.counted: dict[str, str] = {}
        """Number of lanes in a mask that was a block's."""

    def waiting_lanes(self) -> list[tuple[str, int]]:
        """The variables of the lanes that wait somewhere, as in ``FunctionWriter.variable``."""
        return [*(("a", n) for n in self.points), *(("q", n) for n in self.held_barriers)] if self.exist else []

    def variables(self) -> list[tuple[str, int]]:
        """Names and sizes of the other variables in the save area."""
        if not self.exist:
            return []
        found = [("depth", 8), ("apart", 8), ("yielded", 8), ("scanning", 8), ("joining", 8)]
        if self.held_barriers:
            found.append(("held", 8))
        if self.meeting:
            found += [
                ("synced", 8),
                ("caller", 8),
                ("met_lanes", 8),
                ("leaving", 8),
                ("met_masks", self.w.lanes * self.w.lanes // 8),
            ]
        return [*found, ("stack", self.w.entry_bytes * (self.w.lanes + 1))]

    def enters(self, n: int) -> bool:
        """Whether a block can be entered from other blocks than its predecessors."""
        return bool(self.stands >> n & 1) or (n > 0 and bool(self.waits >> (n - 1) & 1))

    # --- helpers ----------------------------------------------------------------------------------
    def count(self, lanes: str) -> str:
        if lanes == "-1":
            return str(self.w.lanes)
        w, kind = self.w, self.w.mask_type
        w.declared[f"llvm.ctpop.{kind}"] = f"declare {kind} @llvm.ctpop.{kind}({kind})"
        count = w.op(f"call {kind} @llvm.ctpop.{kind}({kind} {lanes})")
        return count if kind == "i32" else w.op(f"{'trunc' if w.lanes > 32 else 'zext'} {kind} {count} to i32")

    def executed(self, lanes: str, count: int, again: bool = False) -> None:
        """Count instructions that a group executes; with ``again``, a block that certainly ran before may have counted
        them."""
        w = self.w
        made = w.op("load i64, ptr %instructions")
        w.emit(f"store i64 {w.op(f'add i64 {made}, {count}')}, ptr %instructions")
        if not again or lanes not in self.counted:
            self.counted[lanes] = self.count(lanes)
        threads = w.op(f"zext i32 {w.op(f'mul i32 {self.counted[lanes]}, {count}')} to i64")
        total = w.op(f"add i64 {threads}, " + w.op("load i64, ptr %threads"))
        w.emit(f"store i64 {total}, ptr %threads")

    def enter(self, n: int, lanes: str) -> str:
        """Set the lanes that enter a block; returns its label."""
        self.w.emit(f"store {self.w.mask_type} {lanes}, ptr {self.w.variable('p', n)}")
        return f"%e{n}"

    def entry(self, block: int, lanes: str) -> str:
        """A stack entry."""
        w = self.w
        self.pushed |= 1 << block
        kind = w.entry_type
        wide = w.op(f"shl {kind} {w.op(f'zext {w.mask_type} {lanes} to {kind}')}, 32")
        return w.op(f"or {kind} {wide}, {block}")

    def lanes_of_entry(self, entry: str) -> str:
        """The lanes of a stack entry."""
        w = self.w
        return w.op(f"trunc {w.entry_type} {w.op(f'lshr {w.entry_type} {entry}, 32')} to {w.mask_type}")

    # --- divergence -------------------------------------------------------------------------------
    def push(self, block: int, lanes: str) -> None:
        """Put a group on the stack."""
        w = self.w
        entry = self.entry(block, lanes)
        depth = w.op("load i64, ptr %depth")
        w.emit(f"store {w.entry_type} {entry}, ptr {w.op(f'getelementptr {w.entry_type}, ptr %stack, i64 {depth}')}")
        w.emit(f"store i64 {w.op(f'add i64 {depth}, 1')}, ptr %depth")
        w.emit("store i64 1, ptr %apart")

    def part(
        self, n: int, first: int, first_lanes: str, second: int, second_lanes: str, go: Callable[[int, str], None]
    ) -> None:
        """Both parts have lanes: the smaller one continues, or ``first`` if they are equal; the other waits."""
        w = self.w
        smaller = w.op(f"icmp ult i32 {self.count(second_lanes)}, {self.count(first_lanes)}")
        one, two = w.new_label("part"), w.new_label("part")
        w.emit(f"br i1 {smaller}, label %{two}, label %{one}")
        w.label(one)
        self._goes_first(n, first, first_lanes, second, second_lanes, go)
        w.label(two)
        self._goes_first(n, second, second_lanes, first, first_lanes, go)

    def _goes_first(
        self, n: int, first: int, first_lanes: str, second: int, second_lanes: str, go: Callable[[int, str], None]
    ) -> None:
        """Whether part ``first`` continues."""
        w = self.w
        if self.waits >> first & 1 and w.flow.joined_by.get(first, 0) >> n & 1:
            # No lane leaves such a BSYNC before the other part arrives, which runs next: its state is unchanged, and
            # other groups are below it.
            self._arrives(first, first_lanes)
            w.emit("store i64 0, ptr %apart")
            go(second, second_lanes)
            return
        self.push(second, second_lanes)
        go(first, first_lanes)

    def _arrives(self, n: int, lanes: str) -> None:
        """A group executes a convergence point and waits there."""
        self._passes(n, lanes)
        self._wait_at(n, lanes)

    def _wait_at(self, n: int, lanes: str) -> None:
        """Lanes wait at a convergence point from now on."""
        w = self.w
        for place in (w.variable("a", n), "%synced")[: 1 + (n in self.meeting)]:
            old = w.op(f"load {w.mask_type}, ptr {place}")
            w.emit(f"store {w.mask_type} {w.op(f'or {w.mask_type} {old}, {lanes}')}, ptr {place}")

    def _leave(self, n: int, arrived: str, leaving: str) -> None:
        """Of the lanes that wait at a convergence point, some go on."""
        w = self.w
        w.emit(f"store {w.mask_type} {w.op(f'xor {w.mask_type} {arrived}, {leaving}')}, ptr {w.variable('a', n)}")
        if n in self.meeting:
            all_lanes = w.op(f"load {w.mask_type}, ptr %synced")
            w.emit(f"store {w.mask_type} {w.op(f'xor {w.mask_type} {all_lanes}, {leaving}')}, ptr %synced")

    def _passes(self, n: int, lanes: str) -> None:
        """Count a convergence point's instruction for a group."""
        w = self.w
        if w.repeats is not None and w.repeats.numbers[n] < 0:
            return
        self.executed(lanes, 1)
        words = w.trace_words
        tr.record_block(w, n, lanes)
        tr.finish_block(w)
        w.trace_words = words + 1

    def give_way(self, target: int, lanes: str, alone: Callable[[], None]) -> None:
        """A YIELD: let another group continue first; ``alone`` writes the code for the case that there is none.

        It does not wake groups that yielded themselves, except every ``YIELDS_BEFORE_ALL_TAKE_TURNS``th time.
        """
        w = self.w
        if not self.exist:
            alone()
            return
        made = w.op("add i32 1, " + w.op("load i32, ptr %yields"))
        w.emit(f"store i32 {made}, ptr %yields")
        urgent = w.op(f"icmp eq i32 {w.op(f'and i32 {made}, {YIELDS_BEFORE_ALL_TAKE_TURNS - 1}')}, 0")
        some, rested = self._others_rested()
        ready = w.op(f"and i1 {some}, {w.op(f'or i1 {urgent}, {rested}')}")
        someone = ready
        for sync in self.syncs:
            waits = w.op(f"icmp ne {w.mask_type} " + w.op(f"load {w.mask_type}, ptr {w.variable('a', sync)}") + ", 0")
            someone = w.op(f"or i1 {someone}, {waits}")
        way, stay, back, over = (w.new_label(name) for name in ("way", "alone", "back", "over"))
        w.emit(f"br i1 {someone}, label %{way}, label %{stay}")
        w.label(way)
        w.emit(f"br i1 {ready}, label %{back}, label %{over}")
        w.label(back)
        self.step_back(target, lanes)
        w.emit("br label %next")
        w.label(over)
        self.push(target, lanes)
        self._gave_way(lanes)
        w.emit("br label %scan")
        w.label(stay)
        alone()

    def _others_rested(self) -> tuple[str, str]:
        """Whether there are other groups on the stack, and whether the top one has not yielded; those that have are below all others."""
        w = self.w
        depth = w.op("load i64, ptr %depth")
        some = w.op(f"icmp ne i64 {depth}, 0")
        top = w.op(f"select i1 {some}, i64 {w.op(f'sub i64 {depth}, 1')}, i64 0")
        entry = w.op(f"load {w.entry_type}, ptr " + w.op(f"getelementptr {w.entry_type}, ptr %stack, i64 {top}"))
        above = self.lanes_of_entry(entry)
        yielded = w.op(f"and {w.mask_type} {above}, {w.op(f'load {w.mask_type}, ptr %yielded')}")
        return some, w.op(f"icmp eq {w.mask_type} {yielded}, 0")

    def sleep(self, target: int, lanes: str) -> str:
        """A NANOSLEEP: put the group at the bottom of the stack; returns whether the group on top, which has not yielded, is next."""
        some, rested = self._others_rested()
        self.step_back(target, lanes)
        return self.w.op(f"and i1 {some}, {rested}")

    def _gave_way(self, lanes: str) -> None:
        yielded = self.w.op(f"or {self.w.mask_type} {lanes}, " + self.w.op(f"load {self.w.mask_type}, ptr %yielded"))
        self.w.emit(f"store {self.w.mask_type} {yielded}, ptr %yielded")

    def step_back(self, target: int, lanes: str) -> None:
        """Put a group at the bottom of the stack, as one that has yielded."""
        w = self.w
        entry = self.entry(target, lanes)
        depth = w.op("load i64, ptr %depth")
        w.declared["llvm.memmove.p0.p0.i64"] = "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)"
        above = w.op(f"getelementptr {w.entry_type}, ptr %stack, i64 1")
        size = w.op(f"shl i64 {depth}, {w.entry_bytes.bit_length() - 1}")
        w.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {above}, ptr %stack, i64 {size}, i1 false)")
        w.emit(f"store {w.entry_type} {entry}, ptr %stack")
        w.emit(f"store i64 {w.op(f'add i64 {depth}, 1')}, ptr %depth")
        self._gave_way(lanes)

    # --- joining ----------------------------------------------------------------------------------
    def converge(self, n: int, warpsync_mask: Callable[[int], Val]) -> None:
        """A block that consists of one BSYNC or WARPSYNC, entered by the lanes ``p<n>``."""
        w = self.w
        index = w.blocks[n].first
        arriving = w.op(f"load {w.mask_type}, ptr {w.variable('p', n)}")
        w.trace_words = 0
        self._passes(n, arriving)
        guard_of = w.lowered[index].guard
        if guard_of is not None:
            w.index = index
            w.exec = w.mask = Masks(arriving)
            guard = w.read_web(w.webs.references[index, -1].low)
            waits = w.and_mask(w.mask, guard, guard_of[2]).bits
            past = w.op(f"and {w.mask_type} {arriving}, {w.op(f'xor {w.mask_type} {waits}, -1')}")
            some, none = w.new_label("past"), w.new_label("all")
            w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {past}, 0')}, label %{some}, label %{none}")
            w.label(some)
            self.push(n + 1, past)
            w.emit(f"br label %{none}")
            w.label(none)
            arriving = waits
            w.forget()
        if w.flow.replays & self.stands & 1 << n:  # otherwise all lanes have the same mask
            arriving = self._lanes_of_one_mask(n, arriving, warpsync_mask(index))
            w.forget()
        if w.trace and w.setting.watched and w.flow.starts[n] == "warpsync":
            tr.note_outside(w, arriving, warpsync_mask(index), w.program.instructions[index].address)
        self._wait_at(n, arriving)
        w.emit("store i32 0, ptr %scanning")
        if w.flow.starts[n] == "warpsync":
            w.emit(f"store {w.mask_type} {arriving}, ptr %joining")
        w.emit(f"br label %c{n}")
        w.label(f"c{n}")
        w.forget()
        self._ask(n, warpsync_mask)

    def _lanes_of_one_mask(self, n: int, arriving: str, wanted: Val) -> str:
        """The lanes with the lowest lane's mask; the others execute the instruction again separately."""
        w = self.w
        leader = w.lowest_lane(arriving)
        mask = w.op(f"extractelement {w.vecmask} {w.vector(wanted)}, {w.mask_type} {leader}")
        own = w.op(f"or {w.mask_type} {mask}, {w.op(f'shl {w.mask_type} 1, {leader}')}")
        here = w.op(f"and {w.mask_type} {arriving}, {own}")
        rest = w.op(f"xor {w.mask_type} {arriving}, {here}")
        some, none = w.new_label("masks"), w.new_label("mask")
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {rest}, 0')}, label %{some}, label %{none}")
        w.label(some)
        self.push(n, rest)
        w.emit(f"br label %{none}")
        w.label(none)
        return here

    def _ask(self, n: int, warpsync_mask: Callable[[int], Val]) -> None:
        """Whether waiting lanes may continue."""
        w = self.w
        bsync = w.flow.starts[n] == "bsync"
        index = w.blocks[n].first
        arrived = w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}")
        web = -1
        if bsync:
            web = w.webs.references[index, len(w.lowered[index].ops) - 1].low
            wanted = w.read_web(web)
            here = arrived
            waiting = [w.variable("a", other) for other in self._passed_without(n)]
            for place in (["%yielded"] if self.yields else []) + waiting:
                here = w.op(f"or {w.mask_type} {here}, " + w.op(f"load {w.mask_type}, ptr {place}"))
            leaving = self._complete(n, w.vector(wanted), arrived, here)
        else:
            wanted = warpsync_mask(index)
            leaving = self._met(n, wanted, arrived)
            if self._meets(n):  # code that others also reach: their values are not known
                w.forget()
                wanted = warpsync_mask(index)
                arrived = w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}")
        go, fail = w.new_label("joined"), w.new_label("waits")
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {leaving}, 0')}, label %{go}, label %{fail}")
        w.label(fail)
        later = [s for s in self.syncs if s > n]
        scan = w.op("icmp ne i32 " + w.op("load i32, ptr %scanning") + ", 0")
        w.emit(f"br i1 {scan}, label %{f'scan{later[0]}' if later else 'scanned'}, label %next")
        w.label(go)
        self._leave(n, arrived, leaving)
        if bsync and (self.yields or self._passed_without(n)):
            self._leave_behind(web, wanted, leaving)
        if not bsync:
            if w.trace and w.setting.watched:
                # No live lane is missing: lanes of the mask that are not here have ended.
                absent = w.op(
                    f"and {w.mask_type} {self._named(wanted, leaving)}, {w.op(f'load {w.mask_type}, ptr %exited')}"
                )
                tr.record_sync_alone(w, n, leaving, w.op(f"and {w.mask_type} {absent}, %lanes"))
            leaving = self._let_others_go(n, wanted, leaving)
            joining = w.op(f"load {w.mask_type}, ptr %joining")
            again, once = w.new_label("again"), w.new_label("once")
            w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {joining}, {leaving}')}, label %{again}, label %{once}")
            w.label(again)
            self._passes(n, leaving)
            w.emit(f"br label %{once}")
            w.label(once)
        if n + 1 < len(w.blocks):
            w.emit(f"br label {self.enter(n + 1, leaving)}")
        else:
            w.emit("br label %next")

    def _complete(self, n: int, wanted: str, arrived: str, here: str) -> str:
        """The arrived lanes that are complete; with ``here``, only these lanes count as arrived."""
        w = self.w
        alive = self._alive()
        missing = w.op(f"and {w.mask_type} {alive}, {w.op(f'xor {w.mask_type} {here}, -1')}")
        if w.flow.saved >> n & 1:
            return self._complete_by_groups(wanted, arrived, missing)
        missing = w.splat(w.mask_type, missing)
        absent = w.op(f"and {w.vecmask} {wanted}, {missing}")
        complete = w.op(f"icmp eq {w.vecmask} {absent}, zeroinitializer")
        return w.op(f"and {w.mask_type} {arrived}, {w.bits_of(complete)}")

    def _met(self, n: int, wanted: Val, arrived: str) -> str:
        """The lanes waiting at a WARPSYNC whose mask has arrived completely, with the same mask.

        Lanes with another mask wait for others, for example in the inner one of nested loops that end lane by lane.
        """
        w = self.w
        if not self._meets(n):
            return self._met_here(wanted, arrived)
        elsewhere, here, found = (w.new_label(stem) for stem in ("elsewhere", "here", "found"))
        w.emit(f"store {w.mask_type} {arrived}, ptr %met_lanes")
        masks = w.vector(wanted)
        self._call("meet", n, elsewhere, here)
        w.label(elsewhere)
        w.emit(f"store {w.vecmask} {masks}, ptr %met_masks")
        w.emit("br label %meet")
        w.label(here)
        w.emit(f"store {w.mask_type} {self._met_here(wanted, arrived)}, ptr %met_lanes")
        w.emit(f"br label %{found}")
        w.label(f"met{n}")
        w.emit(f"br label %{found}")
        w.label(found)
        return w.op(f"load {w.mask_type}, ptr %met_lanes")

    def _call(self, shared: str, n: int, elsewhere: str, here: str) -> None:
        """Branch to ``elsewhere``, from where WARPSYNC ``n`` calls shared code, if lanes wait at other WARPSYNCs."""
        w = self.w
        w.emit(f"store i64 {n}, ptr %caller")
        all_lanes = w.op(f"load {w.mask_type}, ptr %synced")
        others = w.op(f"xor {w.mask_type} {all_lanes}, " + w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}"))
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {others}, 0')}, label %{elsewhere}, label %{here}")
        self.callers.setdefault(shared, []).append(n)

    def _return(self, shared: str, label: str) -> None:
        """Return from shared code to its caller."""
        w = self.w
        first, *others = self.callers[shared]
        cases = " ".join(f"i64 {n}, label %{label}{n}" for n in others)
        w.emit(f"switch i64 {w.op('load i64, ptr %caller')}, label %{label}{first} [{cases}]")

    def _met_here(self, wanted: Val, arrived: str) -> str:
        """The lanes of a WARPSYNC whose mask has arrived completely there, if no lanes wait at other WARPSYNCs."""
        w = self.w
        alive = self._alive()
        if uniform(wanted.shape):
            missing = w.op(f"and {w.mask_type} {alive}, {w.op(f'xor {w.mask_type} {arrived}, -1')}")
            absent = w.op(f"and {w.mask_type} {w.scalar(wanted)}, {missing}")
            return w.op(
                f"select i1 {w.op(f'icmp eq {w.mask_type} {absent}, 0')}, {w.mask_type} {arrived}, {w.mask_type} 0"
            )
        return self._by_mask(arrived, w.vector(wanted), lambda mask, _, own: self._if_complete(mask, own, own, alive))

    def _if_complete(self, mask: str, here: str, own: str, alive: str) -> str:
        """The lanes ``own``, if all live lanes of a mask are ``here``; otherwise none."""
        w = self.w
        missing = w.op(f"and {w.mask_type} {alive}, {w.op(f'xor {w.mask_type} {here}, -1')}")
        complete = w.op(f"icmp eq {w.mask_type} {w.op(f'and {w.mask_type} {mask}, {missing}')}, 0")
        return w.op(f"select i1 {complete}, {w.mask_type} {own}, {w.mask_type} 0")

    def _write_meeting(self, warpsync_mask: Callable[[int], Val]) -> None:
        """Shared code of the WARPSYNCs whose lanes can meet."""
        w = self.w
        syncs = [n for n in self.meeting if n in self.syncs]
        if "meet" in self.callers:
            w.label("meet")
            w.forget()
            alive = self._alive()
            arrived = w.op(f"load {w.mask_type}, ptr %met_lanes")
            called = w.op(f"load {w.vecmask}, ptr %met_masks")
            waiting = [
                (w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}"), w.vector(warpsync_mask(w.blocks[n].first)))
                for n in syncs
            ]

            def leaving(mask: str, every: str, own: str) -> str:
                here = own
                for lanes, vector in waiting:
                    alike = w.op(
                        f"and {w.mask_type} {lanes}, {w.bits_of(w.op(f'icmp eq {w.vecmask} {vector}, {every}'))}"
                    )
                    here = w.op(f"or {w.mask_type} {here}, {alike}")
                return self._if_complete(mask, here, own, alive)

            w.emit(f"store {w.mask_type} {self._by_mask(arrived, called, leaving)}, ptr %met_lanes")
            self._return("meet", "met")
        if "release" in self.callers:
            w.label("release")
            w.forget()
            caller = w.op("load i64, ptr %caller")
            mask = w.op(f"load {w.mask_type}, ptr %met_lanes")
            for n in syncs:
                arrived = w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}")
                is_caller = w.op(f"icmp eq i64 {caller}, {n}")
                others = w.op(f"select i1 {is_caller}, {w.mask_type} 0, {w.mask_type} {arrived}")
                going = w.op(f"and {w.mask_type} {others}, {mask}")
                some, none = w.new_label("some"), w.new_label("alone")
                w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {going}, 0')}, label %{some}, label %{none}")
                w.label(some)
                self._leave(n, arrived, going)
                self._passes(n, going)
                self.push(n + 1, going)
                w.emit(f"br label %{none}")
                w.label(none)
            self._return("release", "released")

    def _by_mask(self, lanes: str, masks: str, found: Callable[[str, str, str], str]) -> str:
        """Joins the results of ``found`` for each mask that lanes have, called with the mask and the lanes that have
        it."""
        w = self.w
        before, head, body, done = (w.new_label(stem) for stem in ("masks", "mask", "same", "compared"))
        left, total, still, more = (f"%{w.new_label(stem)}" for stem in ("left", "total", "still", "more"))
        w.emit(f"br label %{before}")
        w.label(before)
        w.emit(f"br label %{head}")
        w.label(head)
        w.emit(f"{left} = phi {w.mask_type} [ {lanes}, %{before} ], [ {still}, %{body} ]")
        w.emit(f"{total} = phi {w.mask_type} [ 0, %{before} ], [ {more}, %{body} ]")
        w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {left}, 0')}, label %{done}, label %{body}")
        w.label(body)
        leader = w.lowest_lane(left, some=True)
        mask = w.op(f"extractelement {w.vecmask} {masks}, {w.mask_type} {leader}")
        every = w.splat(w.mask_type, mask)
        own = w.op(f"and {w.mask_type} {left}, {w.bits_of(w.op(f'icmp eq {w.vecmask} {masks}, {every}'))}")
        w.emit(f"{more} = or {w.mask_type} {total}, {found(mask, every, own)}")
        w.emit(f"{still} = and {w.mask_type} {left}, {w.op(f'xor {w.mask_type} {own}, -1')}")
        w.emit(f"br label %{head}")
        w.label(done)
        return total

    def _alive(self) -> str:
        """The warp's lanes that have not ended."""
        gone = self.w.op(f"load {self.w.mask_type}, ptr %exited")
        return self.w.op(f"and {self.w.mask_type} %lanes, {self.w.op(f'xor {self.w.mask_type} {gone}, -1')}")

    def let_go(self, block: int, broken: int = -1) -> None:
        """Lanes leave by EXIT, or by BREAK a barrier (web ``broken``): push those for which no lane is missing any
        more; they execute the BSYNC again."""
        w = self.w
        for n in self.syncs:
            if w.flow.starts[n] != "bsync" or not w.facts.together[block] >> n & 1:
                continue
            index = w.blocks[n].first
            web = w.webs.references[index, len(w.lowered[index].ops) - 1].low
            if broken not in (-1, web):
                continue
            asks, goes, done = (w.new_label(stem) for stem in ("left", "free", "held"))
            arrived = w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}")
            w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {arrived}, 0')}, label %{done}, label %{asks}")
            w.label(asks)
            wanted = w.op(f"load {w.vecmask}, ptr {w.variable('w', web)}")
            leaving = self._complete(n, wanted, arrived, arrived)
            w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {leaving}, 0')}, label %{done}, label %{goes}")
            w.label(goes)
            w.emit(f"store {w.mask_type} {w.op(f'xor {w.mask_type} {arrived}, {leaving}')}, ptr {w.variable('a', n)}")
            self.push(n, leaving)
            w.emit(f"br label %{done}")
            w.label(done)

    def _passed_without(self, n: int) -> list[int]:
        """WARPSYNCs whose waiting lanes do not delay a BSYNC."""
        flow = self.w.flow
        return [s for s in self.syncs if flow.starts[s] == "warpsync" and flow.inside.get(n, -1) >> s & 1]

    def _meets(self, n: int) -> list[int]:
        """Other WARPSYNCs whose lanes meet with those of WARPSYNC ``n``."""
        together = self.w.flow.collective
        return [s for s in self.syncs if s != n and together >> s & 1] if together >> n & 1 else []

    def _named(self, wanted: Val, lanes: str) -> str:
        """All lanes that are in the masks of some lanes."""
        w = self.w
        reduce = f"llvm.vector.reduce.or.v{w.lanes}{w.mask_type}"
        w.declared[reduce] = f"declare {w.mask_type} @{reduce}({w.vecmask})"
        own = w.op(
            f"select {w.vecbool} {w.mask_vector(Masks(lanes))}, {w.vecmask} {w.vector(wanted)}, {w.vecmask} zeroinitializer"
        )
        return w.op(f"call {w.mask_type} @{reduce}({w.vecmask} {own})")

    def _let_others_go(self, n: int, wanted: Val, leaving: str) -> str:
        """Lanes of the mask that wait with it at other WARPSYNCs will continue as well; returns the lanes that leave this one."""
        w = self.w
        if not self._meets(n):
            return leaving
        w.emit(f"store {w.mask_type} {leaving}, ptr %leaving")
        others, none = w.new_label("others"), w.new_label("none")
        self._call("release", n, others, none)
        w.label(others)
        w.emit(f"store {w.mask_type} {self._named(wanted, leaving)}, ptr %met_lanes")
        w.emit("br label %release")
        w.label(f"released{n}")
        w.emit(f"br label %{none}")
        w.label(none)
        w.forget()
        w.trace_words += min(len(self.meeting) - 1, w.lanes)  # each passes for some lanes, with a record
        return w.op(f"load {w.mask_type}, ptr %leaving")

    def _leave_behind(self, web: int, wanted: Val, leaving: str) -> None:
        """Lanes without which others of their mask continued do not wait for any lane there."""
        w = self.w
        some, none = w.new_label("behind"), w.new_label("together")
        masks = w.vector(wanted)
        shared = w.op(f"and {w.vecmask} {masks}, {w.splat(w.mask_type, leaving)}")
        left = w.op(f"icmp ne {w.vecmask} {shared}, zeroinitializer")
        behind = w.op(f"and {w.mask_type} {w.bits_of(left)}, {w.op(f'xor {w.mask_type} {leaving}, -1')}")
        w.emit(f"br i1 {w.op(f'icmp ne {w.mask_type} {behind}, 0')}, label %{some}, label %{none}")
        w.label(some)
        # In recursive code, lanes that wait in an outer call have a mask that includes those lanes, but it is a different mask.
        alike = self._by_mask(
            leaving, masks, lambda _, every, own: w.bits_of(w.op(f"icmp eq {w.vecmask} {masks}, {every}"))
        )
        free = w.lanes_of(w.op(f"and {w.mask_type} {alike}, {behind}"))
        kept = w.op(f"select {w.vecbool} {free}, {w.vecmask} zeroinitializer, {w.vecmask} {masks}")
        w.emit(f"store {w.vecmask} {kept}, ptr {w.variable('w', web)}")
        w.emit(f"br label %{none}")
        w.label(none)
        w.forget()

    def _complete_by_groups(self, wanted: str, arrived: str, missing: str) -> str:
        """The arrived lanes whose groups are complete at a BSYNC whose masks may differ from lane to lane.

        In recursive code, lanes of several depths wait at one BSYNC: a lane that waits for an inner group without this
        lane has not arrived in this lane's group.  Almost always, all have the same mask, which names them.
        """
        w, kind = self.w, self.w.mask_type
        ask, one, many, body, done = (w.new_label(stem) for stem in ("masks", "one", "many", "group", "grouped"))
        w.emit(f"br label %{ask}")
        w.label(ask)
        mask = w.op(f"extractelement {w.vecmask} {wanted}, {kind} {w.lowest_lane(arrived, some=True)}")
        alike = w.bits_of(w.op(f"icmp eq {w.vecmask} {wanted}, {w.splat(kind, mask)}"))
        named = w.op(f"and {kind} {alike}, {mask}")
        apart = w.op(f"and {kind} {arrived}, {w.op(f'xor {kind} {named}, -1')}")
        w.emit(f"br i1 {w.op(f'icmp eq {kind} {apart}, 0')}, label %{one}, label %{many}")
        w.label(one)
        absent = w.op(f"and {kind} {mask}, {missing}")
        together = w.op(f"select i1 {w.op(f'icmp eq {kind} {absent}, 0')}, {kind} {arrived}, {kind} 0")
        w.emit(f"br label %{done}")
        w.label(many)
        left, found, still, more = (f"%{w.new_label(stem)}" for stem in ("left", "found", "still", "more"))
        w.emit(f"br label %{body}")
        w.label(body)
        w.emit(f"{left} = phi {kind} [ {arrived}, %{many} ], [ {still}, %{body} ]")
        w.emit(f"{found} = phi {kind} [ 0, %{many} ], [ {more}, %{body} ]")
        lane = w.op(f"and {kind} {left}, {w.op(f'sub {kind} 0, {left}')}")
        inside = w.op(f"and {w.vecmask} {wanted}, {w.splat(kind, lane)}")
        strangers = w.op(f"and {kind} {arrived}, {w.bits_of(w.op(f'icmp eq {w.vecmask} {inside}, zeroinitializer'))}")
        lacking = w.splat(kind, w.op(f"or {kind} {missing}, {strangers}"))
        waits = w.bits_of(w.op(f"icmp ne {w.vecmask} {w.op(f'and {w.vecmask} {wanted}, {lacking}')}, zeroinitializer"))
        w.emit(f"{more} = or {kind} {found}, {w.op(f'and {kind} {lane}, ' + w.op(f'xor {kind} {waits}, -1'))}")
        w.emit(f"{still} = xor {kind} {left}, {lane}")
        w.emit(f"br i1 {w.op(f'icmp eq {kind} {still}, 0')}, label %{done}, label %{body}")
        w.label(done)
        return w.op(f"phi {kind} [ {together}, %{one} ], [ {more}, %{body} ]")

    # --- between groups ---------------------------------------------------------------------------
    def write(self, warpsync_mask: Callable[[int], Val]) -> None:
        """Write ``next`` and ``scan``: the group found enters its block, otherwise control reaches ``finish``."""
        w = self.w
        self._write_meeting(warpsync_mask)
        w.label("next")
        depth = w.op("load i64, ptr %depth")
        w.emit(f"br i1 {w.op(f'icmp eq i64 {depth}, 0')}, label %scan, label %pop")
        w.label("pop")
        places = members(self.pushed)
        assert not self.pushed & ~self.stands, "a group is where the analysis has not found one"
        if not places:
            w.emit("unreachable")
        else:
            depth = w.op("load i64, ptr %depth")
            top = w.op(f"sub i64 {depth}, 1")
            entry = w.op(f"load {w.entry_type}, ptr " + w.op(f"getelementptr {w.entry_type}, ptr %stack, i64 {top}"))
            w.emit(f"store i64 {top}, ptr %depth")
            entry, joins = self._join(entry, top)
            lanes = self.lanes_of_entry(entry)
            if self.yields:
                others = w.op(f"xor {w.mask_type} {lanes}, -1")
                yielded = w.op(f"and {w.mask_type} {others}, " + w.op(f"load {w.mask_type}, ptr %yielded"))
                w.emit(f"store {w.mask_type} {yielded}, ptr %yielded")
            number = w.op(f"trunc {w.entry_type} {entry} to i32")
            cases = " ".join(f"i32 {n}, label %turn{n}" for n in places[1:])
            w.emit(f"switch i32 {number}, label %turn{places[0]} [{cases}]")
            for n in places:
                w.label(f"turn{n}")
                w.emit(f"br label {self.enter(n, self._who_waits_there(n, lanes, joins))}")
        w.label("scan")
        if self.syncs:
            w.emit("store i32 1, ptr %scanning")
            w.emit(f"store {w.mask_type} 0, ptr %joining")
            w.emit(f"br label %scan{self.syncs[0]}")
            for n, after in zip(self.syncs, [*self.syncs[1:], None], strict=True):
                w.label(f"scan{n}")
                some = w.op(f"icmp ne {w.mask_type} " + w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}") + ", 0")
                w.emit(f"br i1 {some}, label %c{n}, label %{'scanned' if after is None else f'scan{after}'}")
        else:
            w.emit("br label %scanned")
        w.label("scanned")
        depth = w.op("load i64, ptr %depth")
        w.emit(f"br i1 {w.op(f'icmp eq i64 {depth}, 0')}, label %finish, label %pop")

    def _join(self, entry: str, top: str) -> tuple[str, str]:
        """Join the entry taken from the stack with all lanes at its block, unless it was the last one pushed; returns
        whether they join."""
        w = self.w
        apart = w.op("load i64, ptr %apart")
        w.emit("store i64 0, ptr %apart")
        alone = w.op(f"icmp ne i64 {apart}, 0")
        w.emit(f"br i1 {alone}, label %chosen, label %mates")
        for line in MATES.format(entry=entry, top=top, type=w.entry_type).splitlines():
            w.emit(line)
        w.label("chosen")
        w.emit(f"%chosen_entry = phi {w.entry_type} [ {entry}, %pop ], [ %joined, %met ]")
        w.emit("%joins = phi i1 [ false, %pop ], [ true, %met ]")
        return "%chosen_entry", "%joins"

    def _who_waits_there(self, n: int, lanes: str, joins: str) -> str:
        """A group that joins is joined by lanes that wait at its BSYNC, which they execute again."""
        w = self.w
        if n not in self.points or w.flow.starts[n] != "bsync":
            return lanes
        waiting = w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}")
        stays = w.op(f"select i1 {joins}, {w.mask_type} 0, {w.mask_type} {waiting}")
        w.emit(f"store {w.mask_type} {stays}, ptr {w.variable('a', n)}")
        return w.op(f"or {w.mask_type} {lanes}, {w.op(f'xor {w.mask_type} {waiting}, {stays}')}")

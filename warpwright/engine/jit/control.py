"""The warp function: blocks, jumps, divergence, stops and resumes.

Labels: ``e<n>`` enters block n with the lanes in ``p<n>``, ``b<n>`` is its body behind the stop check of a traced
strong access, ``finish`` is reached when no group can run; ``groups.py`` has those between groups.
"""

from __future__ import annotations

from collections.abc import Container

from warpwright.engine.abi import BARRIER_MODES, BLOCK, LAUNCH, SPILL_HEADER_BYTES, WARP, FaultKind, Status
from warpwright.engine.blocks import recorded_accesses
from warpwright.engine.jit import cold, steps
from warpwright.engine.jit import group_products as gr
from warpwright.engine.jit import lanes as ln
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit.arithmetic import canonical_word
from warpwright.engine.jit.checks import settle_faults
from warpwright.engine.jit.flow import Bits, members
from warpwright.engine.jit.function import FunctionWriter, Masks, ResumePoint, Val, vector_type
from warpwright.engine.jit.groups import Groups
from warpwright.engine.jit.infer import Known, pack, uniform
from warpwright.engine.jit.nans import late_nans
from warpwright.engine.jit.operations import emit_operation, pair
from warpwright.engine.jit.places import shift_of
from warpwright.engine.jit.shapes import LANES, UNIFORM, UNSET_KIND, Shape
from warpwright.engine.jit.singles import single_loads
from warpwright.engine.jit.slots import share_slots
from warpwright.engine.jit.storage import in_loops, place_variables
from warpwright.engine.jit.webs import FILE_BASE
from warpwright.engine.standing import Standing
from warpwright.isa.ops import Op

TURNS_AT = 24
"""Offset in the save area of the count of back edges, which outlives returns."""
YIELDS_AT = 28
"""The same of the count of YIELDs."""
BACK_EDGES_BEFORE_YIELD = 64
"""A warp in a spin loop gives way to other warps after so many iterations."""
INSTRUCTIONS_BETWEEN_CANCEL_CHECKS = 1 << 20
VECBOOL = f"<{LANES} x i1>"
CONTROL = frozenset(
    (
        *("branch", "branch_indirect", "exit", "trap", "bssy", "bsync", "break", "warpsync", "yield", "nanosleep"),
        *("barrier", "barrier_red", "push", "pop", "call"),
    )
)
CHANGES_MEMORY = frozenset(("store", "atomic", "fence", "service", "texture"))
"""Operations behind which a load must not have been served before them."""


def _decides(condition: Val) -> bool:
    """Whether a predicate is one for all lanes, so that its scalar decides a branch."""
    return uniform(condition.shape) or condition.shape.kind == UNSET_KIND


class WarpFunction:
    """Writes the whole function."""

    STACK_COUNT = "depth"
    """The variable that counts the entries of the stack of groups."""

    def __init__(self, w: FunctionWriter, name: str) -> None:
        self.w = w
        self.name = name
        facts = w.facts
        self.together = facts.together
        self.waiting = facts.waiting
        # Lanes that a spin loop let go from BSYNC leave others behind, wherever they go.
        scattered = bool(w.flow.gives_way and self.waiting)
        self.held_barriers = [
            n
            for n, end in enumerate(w.flow.ends)
            if end in ("barrier", "barrier_red") and (self.together[n] or scattered)
        ]
        """Blocks that end in a block barrier which only part of the warp may have reached."""
        self.groups = Groups(w, self.held_barriers)
        self.undivided = not self.groups.exist and not w.flow.stacked and self._stays_whole()
        """Whether all lanes of every warp run in every block."""
        self.wanted_barriers = self._wanted_barrier_webs()
        self.nans = late_nans(w.lowered, w.webs)
        w.single_loads = single_loads(w.lowered, w.webs)
        w.looping = in_loops(w.flow)
        self.storage = place_variables(w.blocks, w.webs, w.flow, w.looping)
        self.shared_slots = self._share_slots()
        self.given: dict[int, str] = {}
        """The lanes that enter a block where only one jump leads to it."""
        self.predecessors: list[list[int]] = [[] for _ in w.blocks]
        for block in w.blocks:
            for successor in block.successors:
                self.predecessors[successor].append(block.number)
        self.in_step = False
        """Whether warps of a block may take turns in a loop."""
        self.words_ahead: list[int] = []
        """For each block written so far: words of trace that may have come since the buffer's room was asked for."""

    # --- what is needed ---------------------------------------------------------------------------
    def _stays_whole(self) -> bool:
        """Whether a warp has all its lanes from its beginning to its end: no lane ends before others."""
        w = self.w
        for n, end in enumerate(w.flow.ends):
            index = w.blocks[n].first + w.blocks[n].count - 1
            low = w.lowered[index]
            shapes: list[Known] = [] if low.guard is None else [w.facts.webs[w.webs.references[index, -1].low]]
            shapes += [w.facts.values[index][a] for a in low.ops[-1].args] if low.ops else []
            if end == "exit" and not all(uniform(shape) for shape in shapes):
                return False
        return w.setting.threads % LANES == 0

    def _wanted_barrier_webs(self) -> set[int]:
        w = self.w
        wanted: set[int] = set()
        for n in members(self.waiting):
            if w.flow.starts[n] == "bsync":
                index = w.blocks[n].first
                wanted.add(w.webs.references[index, len(w.lowered[index].ops) - 1].low)
        for (index, position), reference in w.webs.references.items():
            if position >= 0 and w.lowered[index].ops[position].name == "get_barrier":
                wanted.add(reference.low)
        return wanted

    # --- the whole --------------------------------------------------------------------------------
    def write(self) -> list[str]:
        w = self.w
        for block in w.blocks:
            if not w.left_out >> block.number & 1:
                self._block(block.number)
        body = w.lines
        w.lines = []
        if self.groups.exist:
            self.groups.write()
        self._finish()
        for n in members(self._rare_entries()):
            w.label(f"e{n}")
            w.emit(f"store i32 {int(Status.NOT_COMPILED)}, ptr %status")
            w.emit(f"br label {self.save_label('enter', n)}")
        tail = w.lines
        w.lines = []
        self._returns()
        returns = w.lines
        w.lines = []
        self._entry()
        entry = w.lines
        tuned = '"tune-cpu"="generic"'
        head = f"define i32 @{self.name}(ptr noalias {self._given()}) noredzone {tuned} {{"
        return [head, *entry, *body, *tail, *returns, "}"]

    def _given(self) -> str:
        """The function's argument: the warp, or the first one."""
        return "%given" if self.in_step else "%warp"

    def _rare_entries(self) -> Bits:
        """Blocks left out that the others lead to."""
        w = self.w
        entries = self.groups.pushed
        for block in w.blocks:
            if not w.left_out >> block.number & 1:
                entries |= sum(1 << s for s in set(block.successors))
        return entries & w.left_out

    def _entry(self) -> None:
        w = self.w
        w.label("entry")
        for web in w.webs.webs:
            if w.has_storage(web.number) and web.number not in self.storage.webs:
                w.emit(f"%w{web.number} = alloca {w.web_type(web.number)}, align 64")
        for n in range(len(w.blocks)):
            if not self.storage.masks >> n & 1:
                w.emit(f"%p{n} = alloca i32")
        for name, type in (("status", "i32"), ("instructions", "i64"), ("threads", "i64"), ("trace_at", "ptr")):
            w.emit(f"%{name} = alloca {type}")
        scratch_bytes = cold.SCRATCH_BYTES + cold.WINDOW_BYTES * w.most_rooms
        w.emit(f"%lane_addresses = alloca [{scratch_bytes} x i8], align 64")
        w.emit(f"%lane_values = getelementptr i8, ptr %lane_addresses, i64 {cold.VALUES_AT}")
        if size := gr.scratch_bytes(w.lowered):
            w.emit(f"%group_values = alloca [{size} x i8], align 64")
        w.emit(f"%needs = getelementptr i8, ptr %lane_addresses, i64 {cold.NEEDS_AT}")
        w.emit(f"%noted_exec = getelementptr i8, ptr %needs, i64 {cold.NEEDS['exec'][0]}")
        w.emit(f"%launch = load ptr, ptr {w.field(self._given(), WARP['launch'])}")
        w.emit(f"%block = load ptr, ptr {w.field(self._given(), WARP['block'])}")
        w.emit(f"%host_minus_device = load i64, ptr {w.field('%launch', LAUNCH['host_minus_device'])}")
        w.emit(f"%shared_base = load ptr, ptr {w.field('%block', BLOCK['shared_base'])}")
        for bank, name in w.banks.items():
            w.emit(f"{name} = load ptr, ptr {w.field('%launch', LAUNCH['constant_banks'] + 8 * bank)}")
        for (extent, size), name in w.shared_limits.items():
            total = w.load_field("%block", BLOCK["shared_bytes"])
            self._limit(name, total, extent, size)
        for size, name in w.local_limits.items():
            total = w.load_field("%launch", LAUNCH["local_bytes_per_thread"])
            self._limit(name, total, size, size)
        if self.in_step:
            steps.begin(w)
        self._enter_warp()

    def _enter_warp(self) -> None:
        """What differs from warp to warp, and the way to where this one goes on."""
        w = self.w
        w.emit(f"%save = load ptr, ptr {w.field('%warp', WARP['spill'])}")
        for web in w.webs.webs:
            if w.has_storage(web.number) and web.number in self.storage.webs:
                w.emit(f"%w{web.number} = getelementptr i8, ptr %save, i64 SAVE+{self.web_slot(web.number)}")
        for n in members(self.storage.masks):
            w.emit(f"%p{n} = getelementptr i8, ptr %save, i64 SAVE+{self.slot(f'p{n}', 8)}")
        w.emit(f"%local_base = load ptr, ptr {w.field('%warp', WARP['local_base'])}")
        w.emit(f"%trace_base = load ptr, ptr {w.field('%warp', WARP['trace_base'])}")
        w.emit("%sites_given = load ptr, ptr %save")
        w.emit(f"%sites_own = getelementptr i8, ptr %save, i64 {SPILL_HEADER_BYTES}")
        w.emit("%sites_null = icmp eq ptr %sites_given, null")
        w.emit("%sites = select i1 %sites_null, ptr %sites_own, ptr %sites_given")
        if w.accesses:
            needs = {"self": "%lane_addresses", "warp": "%warp", "sites": "%sites", "accesses": "@accesses"}
            for name, pointer in needs.items():
                w.store_field("%needs", cold.NEEDS[name][0], pointer, "ptr")
        w.emit(f"%exited = getelementptr i8, ptr %warp, i64 {WARP['exited']}")
        w.emit(f"%turns = getelementptr i8, ptr %save, i64 {TURNS_AT}")
        w.emit(f"%yields = getelementptr i8, ptr %save, i64 {YIELDS_AT}")
        w.emit(f"%limit = getelementptr i8, ptr %save, i64 SAVE+{self.slot('limit', 8)}")
        w.emit(f"store i64 {INSTRUCTIONS_BETWEEN_CANCEL_CHECKS}, ptr %limit")
        for name, size in self.groups.variables():
            w.emit(f"%{name} = getelementptr i8, ptr %save, i64 SAVE+{self.slot(name, size)}")
        for name in ("instructions", "threads"):
            w.emit(f"store i64 0, ptr %{name}")
        w.emit("store i32 0, ptr %status")
        if w.trace:
            used = w.load_field("%warp", WARP["trace_used"])
            w.emit(f"store ptr {w.op(f'getelementptr i64, ptr %trace_base, i64 {used}')}, ptr %trace_at")
        w.emit(f"%lanes = load i32, ptr {w.field('%warp', WARP['lanes'])}")
        number = w.load_field("%warp", WARP["resume"], "i32")
        resumes = [r for r in w.resumes.values() if not (r.kind == "enter" or w.is_rest) or not self._is_left_out(r)]
        cases = " ".join(f"i32 {r.number}, label %r{r.number}" for r in resumes)
        if w.is_rest:
            w.emit(f"switch i32 {number}, label %nowhere [{cases}]")
            w.label("nowhere")
            w.emit("unreachable")
        elif w.left_out:
            # A place that this function does not know is one of the whole function's.
            w.emit(f"switch i32 {number}, label %whole [i32 0, label %start {cases}]")
        else:
            w.emit(f"switch i32 {number}, label %start [{cases}]")
        if not w.is_rest:
            self._start()
        for resume in resumes:
            self._resume(resume)

    def _start(self) -> None:
        """Where a warp begins."""
        w = self.w
        w.label("start")
        for live in w.webs.live_in[0]:
            if w.has_storage(live):
                w.emit(f"store {w.web_type(live)} zeroinitializer, ptr %w{live}")
        w.emit(f"store i64 0, ptr {w.field('%warp', WARP['barrier_lanes'])}")
        for name, size in self.groups.variables():
            if size == 8:
                w.emit(f"store i64 0, ptr %{name}")
        w.emit("store i32 %lanes, ptr %p0")
        # Where shapes rely on gridDim.x * blockDim.x staying below 2**31, launches see to it (grid_fits).
        w.emit("br label %e0")

    def _is_left_out(self, resume: ResumePoint) -> bool:
        return resume.block >= 0 and bool(self.w.left_out >> resume.block & 1)

    def _limit(self, name: str, total: str, extent: int, size: int) -> None:
        w = self.w
        room = w.op(f"sub i64 {total}, {extent - size}")
        w.declared["llvm.smax.i64"] = "declare i64 @llvm.smax.i64(i64, i64)"
        room = w.op(f"call i64 @llvm.smax.i64(i64 {room}, i64 0)")
        places = w.op(f"lshr i64 {room}, {shift_of(size)}")
        w.emit(f"{name} = trunc i64 {places} to i32")

    def standing(self, variables: int) -> Standing:
        """Where the groups of a stopped warp are found; ``variables``: bytes in front of the save area's variable part."""
        w = self.w
        offsets = w.offsets

        def place(name: str) -> int:
            return variables + offsets[name] if name in offsets else -1

        resumes = [
            (r.block, place(f"p{r.block}") if r.kind in ("enter", "body") else -1)
            for r in sorted(w.resumes.values(), key=lambda r: r.number)
        ]
        return Standing(
            [w.program.instructions[b.first].address for b in w.blocks],
            resumes,
            [(n, place(f"a{n}")) for n in self.groups.points],
            place(self.STACK_COUNT),
            place("stack"),
            w.flow.stacked,
        )

    # --- saving and resuming ----------------------------------------------------------------------
    def slot(self, name: str, size: int) -> int:
        """Byte offset of a named value in the save area (relative to its variable part)."""
        offsets = self.w.offsets
        if name not in offsets:
            # Vectors begin at cache lines: a store across two of them takes twice as long.
            end = offsets.get("end", 0)
            offsets[name] = (end + 63) // 64 * 64 if size > 8 else end
            offsets["end"] = offsets[name] + size
        return offsets[name]

    def web_slot(self, number: int) -> int:
        """Byte offset of a web's place in the save area."""
        shared = self.shared_slots.get(number)
        return self.slot(f"w{number}", self._web_size(number)) if shared is None else shared

    def _web_size(self, number: int) -> int:
        type = self.w.web_type(number)
        size = {vector_type("i64"): 256, vector_type("i32"): 128}.get(type, 8)
        if type[0] == "[":
            size = 8 * (LANES // self.w.row_length)
        return size

    def _share_slots(self) -> dict[int, int]:
        """Places of the variables in memory.

        Where several groups can exist, who needs what no longer follows from the blocks that run: there nothing is shared.
        """
        w = self.w
        if self.groups.exist:
            return {}
        sizes = {n: self._web_size(n) for n in self.storage.webs if w.has_storage(n)}
        offsets, end = share_slots(w.blocks, w.webs, w.facts.live_elsewhere, sizes)
        w.offsets["end"] = end
        return offsets

    def _others_at(self, resume: ResumePoint) -> bool:
        """Whether other groups may stand elsewhere at a resume point; at a convergence point they are on their way."""
        if resume.kind in ("next", "scan", "barrier") or (self.w.flow.gives_way and self.waiting):
            # Lanes that a spin loop let go from BSYNC have left others behind it.
            return True
        return bool(self.together[resume.block]) or bool(self.waiting >> resume.block & 1)

    def _live_out(self, n: int) -> Container[int]:
        """Webs that are read after a block; its last instruction may go on behind a barrier."""
        w = self.w
        if w.flow.ends[n] == "barrier_red":
            return range(len(w.webs.webs))
        return frozenset().union(*(w.webs.live_in[s] for s in w.blocks[n].successors))

    def live_at(self, resume: ResumePoint) -> list[int]:
        w = self.w
        blocks: set[int] = {resume.block}
        if self._others_at(resume):
            blocks.update(members(self.groups.stands | self.waiting))
        live: set[int] = set()
        for n in blocks:
            live |= w.webs.live_in[n]
        reds = []
        if resume.kind == "red":
            reds = [resume.block - 1]
        elif resume.kind == "barrier":
            reds = [n for n in self.held_barriers if w.flow.ends[n] == "barrier_red"]
        for n in reds:
            last = w.blocks[n].first + w.blocks[n].count - 1
            for (index, _), reference in w.webs.references.items():
                if index == last:
                    live.add(reference.low)
                    if reference.high >= 0:
                        live.add(reference.high)
        return [n for n in sorted(live) if w.has_storage(n)]

    def resume_point(self, kind: str, block: int) -> ResumePoint:
        w = self.w
        key = (kind, -1 if kind in ("next", "scan", "barrier") else block)
        if key not in w.resumes:
            w.resumes[key] = ResumePoint(len(w.resumes) + 1, kind, block)
        return w.resumes[key]

    def _saved(self, resume: ResumePoint) -> list[tuple[str, str, int]]:
        """(variable, LLVM type, offset) of everything that a resume point needs."""
        w = self.w
        found = []
        for n in self.live_at(resume):
            if n not in self.storage.webs:
                found.append((f"%w{n}", w.web_type(n), self.web_slot(n)))
        if resume.kind in ("enter", "body") and not self.storage.masks >> resume.block & 1:
            found.append((f"%p{resume.block}", "i32", self.slot(f"p{resume.block}", 8)))
        if resume.kind == "red" and not self.storage.masks >> resume.block & 1:
            found.append((f"%p{resume.block}", "i32", self.slot(f"p{resume.block}", 8)))
        return found

    def save_label(self, kind: str, block: int) -> str:
        """Label of the code that saves for a resume point and returns %status."""
        return f"%s{self.resume_point(kind, block).number}"

    def _save(self, resume: ResumePoint) -> None:
        w = self.w
        w.label(f"s{resume.number}")
        for name, type, offset in self._saved(resume):
            value = w.op(f"load {type}, ptr {name}")
            pointer = w.op(f"getelementptr i8, ptr %save, i64 SAVE+{offset}")
            if type == VECBOOL:
                value, type = w.bits_of(value), "i32"
            w.emit(f"store {type} {value}, ptr {pointer}, align 8")
        w.emit(f"store i64 {resume.number}, ptr {w.field('%warp', WARP['resume'])}")
        w.emit("br label %return")

    def _resume(self, resume: ResumePoint) -> None:
        w = self.w
        w.label(f"r{resume.number}")
        for name, type, offset in self._saved(resume):
            pointer = w.op(f"getelementptr i8, ptr %save, i64 SAVE+{offset}")
            kept = "i32" if type == VECBOOL else type
            value = w.op(f"load {kept}, ptr {pointer}, align 8")
            if type == VECBOOL:
                value = w.lanes_of(value)
            w.emit(f"store {type} {value}, ptr {name}")
        if resume.kind == "barrier":
            for n in self.held_barriers:
                held = w.op(f"load i32, ptr %q{n}")
                w.emit(f"store i32 0, ptr %q{n}")
                some = w.op(f"icmp ne i32 {held}, 0")
                then, after = w.new_label("held"), w.new_label("after")
                w.emit(f"br i1 {some}, label %{then}, label %{after}")
                w.label(then)
                if w.flow.ends[n] == "barrier_red":
                    self._finish_red(n, held)
                self.groups.push(n + 1, held)
                w.emit(f"br label %{after}")
                w.label(after)
            w.emit(f"store i64 0, ptr {w.field('%warp', WARP['barrier_lanes'])}")
        if resume.kind == "red":
            lanes = w.load_field("%warp", WARP["barrier_lanes"], "i32")
            self._finish_red(resume.block - 1, lanes)
        if resume.kind in ("red", "enter"):
            w.emit(f"store i64 0, ptr {w.field('%warp', WARP['barrier_lanes'])}")
        if resume.kind in ("next", "barrier"):
            w.emit("br label %next")
        elif resume.kind == "scan":
            w.emit("br label %scan")
        elif resume.kind == "body":
            w.emit(f"br label %b{resume.block}")
        else:
            w.emit(f"br label %e{resume.block}")

    def _finish_red(self, n: int, lanes: str) -> None:
        """The rest of a reducing barrier's instruction, once its result is there."""
        w = self.w
        index = w.blocks[n].first + w.blocks[n].count - 1
        w.block = n
        w.forget()
        w.mask = Masks(lanes)
        self._instruction(index, after_barrier=True)
        w.store_webs(w.webs.live_in[n + 1])
        w.forget()

    def _finish(self) -> None:
        """No group can run: every lane has ended, or they wait at a block barrier, or for each other."""
        w = self.w
        w.label("finish")
        if not self.groups.syncs and not self.held_barriers:
            w.emit(f"store i32 {int(Status.EXIT)}, ptr %status")
            w.emit("br label %return")
            return
        waiting = "0"
        for n in self.groups.syncs:
            waiting = w.op(f"or i32 {waiting}, " + w.op(f"load i32, ptr %a{n}"))
        held = "0"
        for n in self.held_barriers:
            held = w.op(f"or i32 {held}, " + w.op(f"load i32, ptr %q{n}"))
        none = w.op(f"icmp eq i32 {w.op(f'or i32 {waiting}, {held}')}, 0")
        w.emit(f"br i1 {none}, label %all_exited, label %stuck")
        w.label("all_exited")
        w.emit(f"store i32 {int(Status.EXIT)}, ptr %status")
        w.emit("br label %return")
        w.label("stuck")
        if self.held_barriers:
            at_barrier = w.op(f"icmp ne i32 {held}, 0")
            w.emit(f"br i1 {at_barrier}, label %arrive, label %deadlock")
            w.label("arrive")
            w.emit(f"store i32 {int(Status.BARRIER)}, ptr %status")
            w.emit(f"br label {self.save_label('barrier', -1)}")
        else:
            w.emit("br label %deadlock")
        w.label("deadlock")
        first = self.groups.syncs[0] if self.groups.syncs else 0
        address = w.program.instructions[w.blocks[first].first].address
        w.store_field("%warp", WARP["fault_instruction"], str(address))
        w.store_field("%warp", WARP["fault_lanes"], w.op(f"zext i32 {waiting} to i64"))
        w.emit(f"store i32 {int(Status.DEADLOCK)}, ptr %status")
        w.emit("br label %return")

    def _returns(self) -> None:
        w = self.w
        done: set[int] = set()
        while len(done) < len(w.resumes):
            for resume in list(w.resumes.values()):
                if resume.number not in done:
                    done.add(resume.number)
                    if not w.is_rest or not self._is_left_out(resume):
                        self._save(resume)
        w.label("fault")
        w.emit(f"store i32 {int(Status.FAULT)}, ptr %status")
        w.emit("br label %return")
        w.label("interpret")
        w.emit(f"store i32 {int(Status.INTERPRET)}, ptr %status")
        w.emit("br label %return")
        w.label("return")
        made = w.op("load i64, ptr %instructions")
        pointer = w.field("%warp", WARP["instructions"])
        total = w.op(f"add i64 {made}, " + w.op(f"load i64, ptr {pointer}"))
        w.emit(f"store i64 {total}, ptr {pointer}")
        threads = w.op("load i64, ptr %threads")
        pointer = w.field("%warp", WARP["thread_instructions"])
        total = w.op(f"add i64 {threads}, " + w.op(f"load i64, ptr {pointer}"))
        w.emit(f"store i64 {total}, ptr {pointer}")
        if w.trace:
            w.store_field("%warp", WARP["trace_used"], self._trace_used())
        status = w.op("load i32, ptr %status")
        if self.in_step:
            steps.pass_on(w, status)
        if not w.left_out or w.is_rest:
            self._return(status)
            return
        w.emit(f"br i1 {w.op(f'icmp eq i32 {status}, {int(Status.NOT_COMPILED)}')}, label %whole, label %leave")
        w.label("whole")
        w.globals.append("@whole = global ptr null")
        self._return(w.op("call i32 " + w.op("load ptr, ptr @whole") + "(ptr %warp)"))
        w.label("leave")
        self._return(status)

    def _return(self, status: str) -> None:
        w = self.w
        w.emit(f"ret i32 {w.op(f'or i32 {status}, %passed_on') if self.in_step else status}")

    # --- one block --------------------------------------------------------------------------------
    def _block(self, n: int) -> None:
        w = self.w
        block = w.blocks[n]
        w.block = n
        w.forget()
        w.label(f"e{n}")
        start = len(w.lines)
        if w.trace and block.stop:
            status = Status.STRONG if block.stop == "strong" else Status.CLOCK
            w.emit(f"store i32 {int(status)}, ptr %status")
            w.emit(f"br label {self.save_label('body', n)}")
            w.label(f"b{n}")
        if self.groups.waits >> n & 1:
            self.groups.converge(n, self._warpsync_mask)
        else:
            mask = "-1" if self.undivided else self.given.get(n) or w.op(f"load i32, ptr %p{n}")
            w.mask = Masks(mask)
            self.groups.executed(mask, block.count, again=n in self.given)
            tr.record_block(w, n, mask)
            last = block.first + block.count - 1
            for index in range(block.first, last):
                self._instruction(index)
            self._last(n, last)
        if w.trace:
            self._ask_for_room(n, start)

    def _trace_used(self) -> str:
        """Words in the record buffer."""
        w = self.w
        at = w.op(f"ptrtoint ptr {w.op('load ptr, ptr %trace_at')} to i64")
        start = w.op("ptrtoint ptr %trace_base to i64")
        return w.op(f"lshr i64 {w.op(f'sub i64 {at}, {start}')}, 3")

    def _stop_when_full(self, label: str) -> None:
        """Leave through a save label when the record buffer is full."""
        w = self.w
        limit = w.load_field("%warp", WARP["trace_limit"])
        full = w.op(f"icmp ugt i64 {self._trace_used()}, {limit}")
        stop, go = w.new_label("full"), w.new_label("room")
        w.emit(f"br i1 {full}, label %{stop}, label %{go}, !prof !2")
        w.label(stop)
        w.emit(f"store i32 {int(Status.TRACE_FULL)}, ptr %status")
        w.emit(f"br label {label}")
        w.label(go)

    def _ask_for_room(self, n: int, start: int) -> None:
        """Put the question whether there is room for its records before a block, where it is due.

        A warp that stops before the block for another reason has an empty buffer there.
        """
        w = self.w
        blocks = w.blocks
        if blocks[n].stop:
            self.words_ahead.append(w.trace_words)
            return
        back = any(n in b.successors for b in blocks[n:]) or self.groups.enters(n)
        before = [m for m in range(n) if n in blocks[m].successors]
        due, words = tr.words_ahead(w.trace_words, [self.words_ahead[m] for m in before], back)
        self.words_ahead.append(words)
        if due:
            written = w.lines
            w.lines = []
            self._stop_when_full(self.save_label("enter", n))
            w.lines = written[:start] + w.lines + written[start:]

    def _warpsync_mask(self, index: int) -> Val:
        """The operand of a WARPSYNC, computed before its lanes are known."""
        w = self.w
        w.index = index
        w.exec = w.mask = Masks("-1")
        values = self._operations(index, stop_before="warpsync")
        return values[w.lowered[index].ops[-1].args[0]]

    # --- instructions -----------------------------------------------------------------------------
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
        """BSSY and BREAK: the masks of convergence barriers, kept only where a BSYNC waits."""
        w = self.w
        reference = w.webs.references.get((index, position))
        if reference is None or reference.low not in self.wanted_barriers or not w.has_storage(reference.low):
            return
        web = reference.low
        w.store_webs(range(len(w.webs.webs)))
        old = w.op(f"load <32 x i32>, ptr %w{web}")
        if op.name == "bssy":
            group = w.splat("i32", w.exec.bits)
            new = w.op(f"select {VECBOOL} {w.mask_vector(w.exec)}, <32 x i32> {group}, <32 x i32> {old}")
        else:
            leaving = w.and_mask(w.exec, args[0], False) if args else w.exec
            rest = w.splat("i32", w.op(f"xor i32 {leaving.bits}, -1"))
            new = w.op(f"and <32 x i32> {old}, {rest}")
        w.emit(f"store <32 x i32> {new}, ptr %w{web}")
        w.held.pop(web, None)
        if op.name == "break":
            self.groups.let_go(w.block, web)

    # --- ends of blocks ---------------------------------------------------------------------------
    def _last(self, n: int, index: int) -> None:
        """The last instruction of a block and what follows it."""
        w = self.w
        values = self._instruction(index)
        if w.flow.starts[n] == "warpsync" and w.trace:
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
            target = next(b.number for b in w.blocks if w.program.instructions[b.first].address == op.attr)
            self._branch(n, target, args[0] if args else None)
        elif end == "branch_indirect":
            self._branch_indirect(n, args[0])
        elif end == "exit":
            self._exit(n, args[0] if args else None)
        elif end == "trap":
            self._trap(n, index)
        elif end == "nanosleep":
            self._nanosleep(n, args[0])
        elif end == "yield":
            self.groups.give_way(n + 1, w.mask.bits, lambda: self._goto(n, n + 1, w.mask.bits))
        elif end in ("pop", "call"):
            self._stack_jump(n, op, args[0] if args else None)
        else:
            self._barrier(n, op, args)

    def _goto(self, n: int, target: int, lanes: str) -> None:
        """A group goes to a block."""
        w = self.w
        if target >= len(w.blocks):
            self._wild(n, lanes, str(16 * sum(b.count for b in w.blocks)))
            return
        if self._is_alone(n, target):
            assert target not in self.given, target
            self.given[target] = lanes
            w.emit(f"br label %e{target}")
            return
        w.emit(f"store i32 {lanes}, ptr %p{target}")
        if target <= n:
            self._back_edge(n, target)
        else:
            w.emit(f"br label %e{target}")

    def _is_alone(self, n: int, target: int) -> bool:
        """Whether a jump is the only way into a block: then its lanes need no variable."""
        w = self.w
        if w.trace or self.groups.exist or w.flow.stacked or w.flow.ends[n] not in ("", "branch", "exit"):
            return False
        twice = w.flow.ends[n] == "branch" and self.w.blocks[n].successors == (n + 1,)
        elsewhere = ("enter", target) in w.resumes or w.left_out >> target & 1
        return self.predecessors[target] == [n] and n < target and not twice and not elsewhere

    def _back_edge(self, n: int, target: int) -> None:
        """A jump back: endless loops can be stopped, spin loops give way."""
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
        w.emit(f"store i32 {int(Status.YIELD)}, ptr %status")
        w.emit("br label %return")
        w.label(go)
        fair = w.flow.fair[n] and w.flow.fair[target]
        stride = "" if fair or target != n else steps.long_stride(w, n)
        if stride:
            self.in_step = not w.trace
            steps.give_way(w, stride, self.save_label("enter", n), f"%e{n}")
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

    def _taken(self, condition: Val | None) -> tuple[Masks, Val | None, bool]:
        """(lanes that take a jump, the scalar that decides for all or None, whether it is inverted)."""
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
        # The analysis knows such a branch for uniform as well: one scalar must decide.
        guard = w.scalar(w.guard)
        if w.guard_inverted:
            guard = w.op(f"xor i1 {guard}, true")
        both = w.op(f"and i1 {guard}, {w.scalar(condition)}")
        return taken, Val("i1", UNIFORM, scalar=both), False

    def _branch(self, n: int, target: int, condition: Val | None) -> None:
        w = self.w
        taken, decides, inverted = self._taken(condition)
        if w.guard is None and condition is None:
            self._goto(n, target, w.mask.bits)
            return
        if decides is not None:
            yes, no = w.new_label("taken"), w.new_label("falls")
            first, second = (no, yes) if inverted else (yes, no)
            w.emit(f"br i1 {w.scalar(decides)}, label %{first}, label %{second}")
            w.label(yes)
            self._goto(n, target, w.mask.bits)
            w.label(no)
            self._goto(n, n + 1, w.mask.bits)
            return
        rest = w.op(f"and i32 {w.mask.bits}, {w.op(f'xor i32 {taken.bits}, -1')}")
        if target == n + 1:
            self._goto(n, target, w.mask.bits)
            return
        self._fork(n, n + 1, rest, target, taken.bits)

    def _fork(self, n: int, first: int, first_lanes: str, second: int, second_lanes: str) -> None:
        """Two ways for the lanes of a group; it parts when both have some."""
        w = self.w
        one, other, two, both = (w.new_label(stem) for stem in ("all", "some", "none", "both"))
        # A loop's way back is what its group mostly takes whole.
        checks = [(second_lanes, one), (first_lanes, two)]
        if second <= n:
            checks.reverse()
        (lanes, label), (lanes2, label2) = checks
        w.emit(f"br i1 {w.op(f'icmp eq i32 {lanes}, 0')}, label %{label}, label %{other}, !prof !0")
        w.label(other)
        w.emit(f"br i1 {w.op(f'icmp eq i32 {lanes2}, 0')}, label %{label2}, label %{both}")
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
        w.store_field("%warp", WARP["fault_lanes"], w.op(f"zext i32 {lanes} to i64"))
        w.store_field("%warp", WARP["fault_bytes"], "0")
        w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[index].address))
        w.emit("br label %fault")

    def _branch_indirect(self, n: int, address: Val) -> None:
        """Returns and jump tables: dispatch on every block that may be meant; anything else is a wild branch."""
        w = self.w
        block = w.blocks[n]
        targets = list(block.successors)
        guarded = w.guard is not None
        base = w.program.code_base
        if uniform(address.shape) and (not guarded or (w.guard is not None and uniform(w.guard.shape))):
            if guarded:
                assert w.guard is not None
                yes, no = w.new_label("taken"), w.new_label("falls")
                first, second = (no, yes) if w.guard_inverted else (yes, no)
                w.emit(f"br i1 {w.scalar(w.guard)}, label %{first}, label %{second}")
                w.label(no)
                self._goto(n, n + 1, w.mask.bits)
                w.label(yes)
            value = w.op(f"sub i64 {w.scalar(address)}, {base}")
            labels = [(w.program.instructions[w.blocks[t].first].address, t, w.new_label("go")) for t in targets]
            wild = w.new_label("wild")
            w.emit(
                f"switch i64 {value}, label %{wild} [" + " ".join(f"i64 {a}, label %{x}" for a, _, x in labels) + "]"
            )
            for _, target, name in labels:
                w.label(name)
                self._goto(n, target, w.mask.bits)
            w.label(wild)
            self._wild(n, w.mask.bits, value)
            return
        vector = w.vector(address)
        lanes = w.exec.bits
        if guarded:
            some, none = w.new_label("some"), w.new_label("none")
            w.emit(f"br i1 {w.op(f'icmp ne i32 {lanes}, 0')}, label %{some}, label %{none}")
            w.label(none)
            self._goto(n, n + 1, w.mask.bits)
            w.label(some)
        # The lowest lane's target; lanes for others, and those that only pass, run the instruction again.
        number = ln.first_lane_number(w, w.exec)
        place = w.op(f"extractelement <32 x i64> {vector}, i32 {number}")
        same = w.op(f"icmp eq <32 x i64> {vector}, {w.splat('i64', place)}")
        here = w.op(f"and i32 {lanes}, {w.bits_of(same)}")
        rest = w.op(f"xor i32 {w.mask.bits}, {here}")
        value = w.op(f"sub i64 {place}, {base}")
        labels = [(w.program.instructions[w.blocks[t].first].address, t, w.new_label("go")) for t in targets]
        wild = w.new_label("wild")
        w.emit(f"switch i64 {value}, label %{wild} [" + " ".join(f"i64 {a}, label %{x}" for a, _, x in labels) + "]")
        for _, target, name in labels:
            w.label(name)
            alone, parted = w.new_label("one"), w.new_label("several")
            w.emit(f"br i1 {w.op(f'icmp eq i32 {rest}, 0')}, label %{alone}, label %{parted}")
            w.label(alone)
            self._goto(n, target, here)
            w.label(parted)
            self.groups.part(n, target, here, n, rest, lambda block, lanes: self._goto(n, block, lanes))
        w.label(wild)
        self._wild(n, here, value)

    def _exit(self, n: int, condition: Val | None) -> None:
        w = self.w
        taken, decides, inverted = self._taken(condition)
        if w.guard is None and condition is None:
            self._leave(n, w.mask.bits)
            return
        if decides is not None:
            yes, no = w.new_label("ends"), w.new_label("lives")
            first, second = (no, yes) if inverted else (yes, no)
            w.emit(f"br i1 {w.scalar(decides)}, label %{first}, label %{second}")
            w.label(yes)
            self._leave(n, w.mask.bits)
            w.label(no)
            self._goto(n, n + 1, w.mask.bits)
            return
        rest = w.op(f"and i32 {w.mask.bits}, {w.op(f'xor i32 {taken.bits}, -1')}")
        some, none = w.new_label("lives"), w.new_label("ends")
        gone = w.op("load i32, ptr %exited")
        w.emit(f"store i32 {w.op(f'or i32 {gone}, {taken.bits}')}, ptr %exited")
        self.groups.let_go(n)
        w.emit(f"br i1 {w.op(f'icmp ne i32 {rest}, 0')}, label %{some}, label %{none}")
        w.label(some)
        self._goto(n, n + 1, rest)
        w.label(none)
        self._after_exit(n)

    def _leave(self, n: int, lanes: str) -> None:
        w = self.w
        gone = w.op("load i32, ptr %exited")
        w.emit(f"store i32 {w.op(f'or i32 {gone}, {lanes}')}, ptr %exited")
        self.groups.let_go(n)
        self._after_exit(n)

    def _after_exit(self, n: int) -> None:
        self.w.emit("br label %next" if self.groups.exist else "br label %finish")

    def _stack_jump(self, n: int, op: Op, condition: Val | None) -> None:
        """Jumps of the reconvergence stack, which ``stack.py`` has."""
        raise ValueError(f"operation {op.name} needs a reconvergence stack")

    def _trap(self, n: int, index: int) -> None:
        w = self.w
        if w.guard is not None:
            some = w.op(f"icmp ne i32 {w.exec.bits}, 0")
            yes, no = w.new_label("trap"), w.new_label("go")
            w.emit(f"br i1 {some}, label %{yes}, label %{no}")
            w.label(no)
            self._goto(n, n + 1, w.mask.bits)
            w.label(yes)
        w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[index].address))
        w.store_field("%warp", WARP["fault_lanes"], w.op(f"zext i32 {w.exec.bits} to i64"))
        w.store_field("%warp", WARP["fault_kind"], "0")
        w.emit(f"store i32 {int(Status.TRAP)}, ptr %status")
        w.emit("br label %return")

    def _nanosleep(self, n: int, time: Val) -> None:
        w = self.w
        longest = w.op(f"zext i32 {w.scalar(ln.first_lane(w, time, w.exec))} to i64")
        w.store_field("%warp", WARP["sleep_ns"], longest)
        w.emit(f"store i32 {int(Status.SLEEP if w.trace else Status.YIELD)}, ptr %status")
        w.emit(f"store i32 {w.mask.bits}, ptr %p{n + 1}")
        if not self.groups.exist:
            w.emit(f"br label {self.save_label('enter', n + 1)}")
            return
        others = w.op("icmp ne i64 " + w.op("load i64, ptr %depth") + ", 0")
        self.groups.step_back(n + 1, w.mask.bits)
        w.emit(f"br i1 {others}, label {self.save_label('next', -1)}, label {self.save_label('scan', -1)}")

    def _arriving(self) -> str:
        """Lanes that a block barrier counts."""
        return self.w.exec.bits

    def _barrier(self, n: int, op: Op, args: list[Val]) -> None:
        """A block barrier: tell which, save, return."""
        w = self.w
        number = w.scalar(ln.first_lane(w, args[0], w.exec))
        threads = w.scalar(ln.first_lane(w, args[1], w.exec))
        mode = BARRIER_MODES.index(op.attr)
        if w.guard is not None:
            some = w.op(f"icmp ne i32 {w.exec.bits}, 0")
            arrives, passes = w.new_label("arrives"), w.new_label("passes")
            w.emit(f"br i1 {some}, label %{arrives}, label %{passes}")
            w.label(passes)
            self._goto(n, n + 1, w.mask.bits)
            w.label(arrives)
        w.store_field("%warp", WARP["barrier_id"], w.op(f"zext i32 {number} to i64"))
        w.store_field("%warp", WARP["barrier_threads"], w.op(f"zext i32 {threads} to i64"))
        w.store_field("%warp", WARP["barrier_mode"], str(mode))
        # Where it waits, for the message of a deadlock.
        w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[w.index].address))
        lanes = w.op(f"zext i32 {self._arriving()} to i64")
        held = n in self.held_barriers
        pointer = w.field("%warp", WARP["barrier_lanes"])
        if held:
            lanes = w.op(f"or i64 {lanes}, " + w.op(f"load i64, ptr {pointer}"))
        w.emit(f"store i64 {lanes}, ptr {pointer}")
        if len(args) > 2:
            vote = w.op(f"zext i32 {w.and_mask(w.exec, args[2]).bits} to i64")
            pointer = w.field("%warp", WARP["barrier_vote"])
            if held:
                vote = w.op(f"or i64 {vote}, " + w.op(f"load i64, ptr {pointer}"))
            w.emit(f"store i64 {vote}, ptr {pointer}")
        w.emit(f"store i32 {int(Status.BARRIER)}, ptr %status")
        if held:
            old = w.op(f"load i32, ptr %q{n}")
            w.emit(f"store i32 {w.op(f'or i32 {old}, {w.mask.bits}')}, ptr %q{n}")
            w.emit("br label %next")
            return
        w.emit(f"store i32 {w.mask.bits}, ptr %p{n + 1}")
        kind = "red" if op.name == "barrier_red" else "enter"
        w.emit(f"br label {self.save_label(kind, n + 1)}")

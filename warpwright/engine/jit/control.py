"""The warp function: its entry, its blocks, and how it stops and resumes.

Labels: ``e<n>`` enters block n with the lanes in ``p<n>``, ``b<n>`` is its body after the stop check of a traced
strong access, ``finish`` is reached when no group can run; ``convergence.py`` defines the labels between groups.
``resume_points.py`` handles the state of a stopped warp, ``instructions.py`` the operations of an instruction,
``jumps.py`` the ends of blocks.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK, LAUNCH, SPILL_HEADER_BYTES, TURNS_AT, WARP, Status
from warpwright.engine.jit import lockstep, slow_path
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit import warpgroup_products as gr
from warpwright.engine.jit.addressing import shift_of
from warpwright.engine.jit.flow_graph import Bits, members
from warpwright.engine.jit.jumps import INSTRUCTIONS_BETWEEN_CANCEL_CHECKS, Jumps
from warpwright.engine.jit.llvm_text import Masks, ResumePoint

YIELDS_AT = 28
"""Offset in the save area of the count of YIELDs, which is kept between calls."""


class WarpFunction(Jumps):
    """Writes the whole function."""

    def write(self) -> list[str]:
        w = self.w
        for block in w.blocks:
            if not w.left_out >> block.number & 1:
                self._block(block.number)
        body = w.lines
        w.lines = []
        if self.groups.exist:
            self.groups.write(self._warpsync_mask)
        self._finish()
        for n in members(self._slow_path_entries()):
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
        """The function's argument: the warp, or the first warp."""
        return "%given" if self.in_step else "%warp"

    def _slow_path_entries(self) -> Bits:
        """Omitted blocks to which remaining blocks branch."""
        w = self.w
        entries = self.groups.pushed
        for block in w.blocks:
            if not w.left_out >> block.number & 1:
                entries |= sum(1 << s for s in set(block.successors))
        return entries & w.left_out

    # --- start and resumption ----------------------------------------------------------------------

    def _entry(self) -> None:
        w = self.w
        w.label("entry")
        for web in w.webs.webs:
            if w.has_storage(web.number) and web.number not in self.storage.webs:
                w.emit(f"%w{web.number} = alloca {w.web_type(web.number)}, align 64")
        for n in range(len(w.blocks)):
            if not self.storage.masks >> n & 1:
                w.emit(f"%p{n} = alloca {w.mask_type}")
        for name, type in (("status", "i32"), ("instructions", "i64"), ("threads", "i64"), ("trace_at", "ptr")):
            w.emit(f"%{name} = alloca {type}")
        scratch = slow_path.scratch_of(w.lanes)
        scratch_bytes = scratch.bytes + slow_path.WINDOW_BYTES * w.most_rooms
        w.emit(f"%lane_addresses = alloca [{scratch_bytes} x i8], align 64")
        w.emit(f"%lane_values = getelementptr i8, ptr %lane_addresses, i64 {scratch.values_at}")
        if size := gr.scratch_bytes(w.lowered):
            w.emit(f"%group_values = alloca [{size} x i8], align 64")
        w.emit(f"%needs = getelementptr i8, ptr %lane_addresses, i64 {scratch.needs_at}")
        w.emit(f"%noted_exec = getelementptr i8, ptr %needs, i64 {slow_path.NEEDS['exec'][0]}")
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
            lockstep.begin(w)
        self._enter_warp()

    def _enter_warp(self) -> None:
        """Load the state that differs from warp to warp, and branch to where this warp continues."""
        w = self.w
        w.emit(f"%save = load ptr, ptr {w.field('%warp', WARP['spill'])}")
        for web in w.webs.webs:
            if w.has_storage(web.number) and web.number in self.storage.webs:
                self.web_slot(web.number)  # of all, also those that only the whole function uses
        for n in members(self.storage.masks):
            self.slot(f"p{n}", 8)
        w.emit(f"%local_base = load ptr, ptr {w.field('%warp', WARP['local_base'])}")
        w.emit(f"%trace_base = load ptr, ptr {w.field('%warp', WARP['trace_base'])}")
        w.emit("%sites_given = load ptr, ptr %save")
        w.emit(f"%sites_own = getelementptr i8, ptr %save, i64 {SPILL_HEADER_BYTES}")
        w.emit("%sites_null = icmp eq ptr %sites_given, null")
        w.emit("%sites = select i1 %sites_null, ptr %sites_own, ptr %sites_given")
        if w.accesses:
            needs = {"self": "%lane_addresses", "warp": "%warp", "sites": "%sites", "accesses": "@accesses"}
            for name, pointer in needs.items():
                w.store_field("%needs", slow_path.NEEDS[name][0], pointer, "ptr")
        w.emit(f"%exited = getelementptr i8, ptr %warp, i64 {WARP['exited']}")
        w.emit(f"%turns = getelementptr i8, ptr %save, i64 {TURNS_AT}")
        w.emit(f"%yields = getelementptr i8, ptr %save, i64 {YIELDS_AT}")
        if w.repeats is not None:
            w.emit(f"%copy = getelementptr i8, ptr %save, i64 SAVE+{self.slot('copy', 8)}")
        w.emit(f"%limit = getelementptr i8, ptr %save, i64 SAVE+{self.slot('limit', 8)}")
        w.emit(f"store i64 {INSTRUCTIONS_BETWEEN_CANCEL_CHECKS}, ptr %limit")
        for kind, n in self.groups.waiting_lanes():
            self.slot(f"{kind}{n}", 8)
        for name, size in self.groups.variables():
            w.emit(f"%{name} = getelementptr i8, ptr %save, i64 SAVE+{self.slot(name, size)}")
        for name in ("instructions", "threads"):
            w.emit(f"store i64 0, ptr %{name}")
        w.emit("store i32 0, ptr %status")
        if w.trace:
            used = w.load_field("%warp", WARP["trace_used"])
            w.emit(f"store ptr {w.op(f'getelementptr i64, ptr %trace_base, i64 {used}')}, ptr %trace_at")
        w.emit(f"%lanes = load {w.mask_type}, ptr {w.field('%warp', WARP['lanes'])}")
        number = w.load_field("%warp", WARP["resume"], "i32")
        resumes = [r for r in w.resumes.values() if not (r.kind == "enter" or w.is_rest) or not self._is_left_out(r)]
        cases = " ".join(f"i32 {r.number}, label %r{r.number}" for r in resumes)
        if w.is_rest:
            w.emit(f"switch i32 {number}, label %nowhere [{cases}]")
            w.label("nowhere")
            w.emit("unreachable")
        elif w.left_out:
            # A resume point that this function does not know belongs to the whole function.
            w.emit(f"switch i32 {number}, label %whole [i32 0, label %start {cases}]")
        else:
            w.emit(f"switch i32 {number}, label %start [{cases}]")
        if not w.is_rest:
            self._start()
        for resume in resumes:
            self._resume(resume)

    def _start(self) -> None:
        """The block at which a warp begins."""
        w = self.w
        w.label("start")
        for live in w.webs.live_in[0]:
            if w.has_storage(live):
                w.emit(f"store {w.web_type(live)} zeroinitializer, ptr {w.variable('w', live)}")
        w.emit(f"store i64 0, ptr {w.field('%warp', WARP['barrier_lanes'])}")
        if w.repeats is not None:
            w.emit("store i64 0, ptr %copy")
        for kind, n in self.groups.waiting_lanes():
            w.emit(f"store i64 0, ptr {w.variable(kind, n)}")
        for name, size in self.groups.variables():
            if size == 8:
                w.emit(f"store i64 0, ptr %{name}")
        w.emit(f"store {w.mask_type} %lanes, ptr {w.variable('p', 0)}")
        # Where shapes rely on gridDim.x * blockDim.x being below 2**31, the launch guarantees it (grid_fits).
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

    def _resume(self, resume: ResumePoint) -> None:
        w = self.w
        w.label(f"r{resume.number}")
        for name, type, offset in self._saved(resume):
            pointer = w.op(f"getelementptr i8, ptr %save, i64 SAVE+{offset}")
            kept = w.mask_type if type == w.vecbool else type
            value = w.op(f"load {kept}, ptr {pointer}, align 8")
            if type == w.vecbool:
                value = w.lanes_of(value)
            w.emit(f"store {type} {value}, ptr {name}")
        if resume.kind == "barrier":
            for n in self.held_barriers:
                place = w.variable("q", n)
                held = w.op(f"load {w.mask_type}, ptr {place}")
                w.emit(f"store {w.mask_type} 0, ptr {place}")
                some = w.op(f"icmp ne {w.mask_type} {held}, 0")
                then, after = w.new_label("held"), w.new_label("after")
                w.emit(f"br i1 {some}, label %{then}, label %{after}")
                w.label(then)
                if w.flow.ends[n] == "barrier_red":
                    self._finish_red(n, held)
                self.groups.push(n + 1, held)
                w.emit(f"br label %{after}")
                w.label(after)
            if self.held_barriers:
                w.emit(f"store {w.mask_type} 0, ptr %held")
            w.emit(f"store i64 0, ptr {w.field('%warp', WARP['barrier_lanes'])}")
        if resume.kind == "red":
            lanes = w.load_field("%warp", WARP["barrier_lanes"], w.mask_type)
            self._finish_red(resume.block - 1, lanes)
        if resume.kind in ("red", "enter"):
            # A spin loop yields here as well, while other lanes of the warp may have reached a barrier.
            held = w.wide_mask(self._lanes_held())
            w.emit(f"store i64 {held}, ptr {w.field('%warp', WARP['barrier_lanes'])}")
        if resume.kind in ("next", "barrier"):
            w.emit("br label %next")
        elif resume.kind == "scan":
            w.emit("br label %scan")
        elif resume.kind == "body":
            w.emit(f"br label %b{resume.block}")
        else:
            w.emit(f"br label %e{resume.block}")

    def _lanes_held(self) -> str:
        """The lanes at block barriers that the rest of the warp may not have reached."""
        return self.w.op(f"load {self.w.mask_type}, ptr %held") if self.held_barriers else "0"

    def _finish_red(self, n: int, lanes: str) -> None:
        """Finish the instruction of a reducing barrier, once its result is available."""
        w = self.w
        index = w.blocks[n].first + w.blocks[n].count - 1
        w.block = n
        w.forget()
        w.mask = Masks(lanes)
        self._instruction(index, after_barrier=True)
        w.store_webs(w.webs.live_in[n + 1])
        w.forget()

    # --- ending -----------------------------------------------------------------------------------

    def _finish(self) -> None:
        """No group can run: all lanes have ended, or they wait at a block barrier, or for each other."""
        w = self.w
        w.label("finish")
        if not self.groups.syncs and not self.held_barriers:
            w.emit(f"store i32 {int(Status.EXIT)}, ptr %status")
            w.emit("br label %return")
            return
        waiting = "0"
        for n in self.groups.syncs:
            waiting = w.op(f"or {w.mask_type} {waiting}, " + w.op(f"load {w.mask_type}, ptr {w.variable('a', n)}"))
        held = self._lanes_held()
        none = w.op(f"icmp eq {w.mask_type} {w.op(f'or {w.mask_type} {waiting}, {held}')}, 0")
        w.emit(f"br i1 {none}, label %all_exited, label %stuck")
        w.label("all_exited")
        w.emit(f"store i32 {int(Status.EXIT)}, ptr %status")
        w.emit("br label %return")
        w.label("stuck")
        if self.held_barriers:
            at_barrier = w.op(f"icmp ne {w.mask_type} {held}, 0")
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
        w.store_field("%warp", WARP["fault_lanes"], w.wide_mask(waiting))
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
        if w.repeats is not None:
            for name, base in (("fault_instruction", 0), ("cancelled_at", 1)):
                self._name_copy(name, base)
        status = w.op("load i32, ptr %status")
        if self.in_step:
            lockstep.pass_on(w, status)
        if not w.left_out or w.is_rest:
            self._return(status)
            return
        w.emit(f"br i1 {w.op(f'icmp eq i32 {status}, {int(Status.NOT_COMPILED)}')}, label %whole, label %leave")
        w.label("whole")
        w.globals.append("@whole = global ptr null")
        self._return(w.op("call i32 " + w.op("load ptr, ptr @whole") + "(ptr %warp)"))
        w.label("leave")
        self._return(status)

    def _name_copy(self, name: str, base: int) -> None:
        """Let a field with an instruction's address, plus ``base``, name the copy that the warp executes."""
        w = self.w
        assert w.repeats is not None
        place = w.field("%warp", WARP[name])
        found = w.op(f"load i64, ptr {place}")
        copy = w.op("load i64, ptr %copy")
        address = found
        for run in w.repeats.runs:
            inside = w.op(f"icmp ult i64 {w.op(f'sub i64 {found}, {run.address + base}')}, {run.bytes}")
            further = w.op(f"add i64 {found}, {w.op(f'mul i64 {copy}, {run.bytes}')}")
            address = w.op(f"select i1 {inside}, i64 {further}, i64 {address}")
        w.emit(f"store i64 {address}, ptr {place}")

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
        if (w.trace and block.stop) or block.gives_way:
            status = Status.YIELD if not w.trace else Status.STRONG if block.stop == "strong" else Status.CLOCK
            w.emit(f"store i32 {int(status)}, ptr %status")
            w.emit(f"br label {self.save_label('body', n)}")
            w.label(f"b{n}")
        if self.groups.waits >> n & 1:
            self.groups.converge(n, self._warpsync_mask)
        else:
            mask = (
                "-1" if self.undivided else self.given.get(n) or w.op(f"load {w.mask_type}, ptr {w.variable('p', n)}")
            )
            w.mask = Masks(mask)
            if w.trace and block.stop and "TRYWAIT" in w.program.instructions[block.first].modifiers:
                self._hold_back(n)
            if not self._is_added(n):
                self.groups.executed(mask, block.count, again=n in self.given)
            tr.record_block(w, n, mask)
            last = block.first + block.count - 1
            for index in range(block.first, last):
                self._instruction(index)
            self._last(n, last)
        if w.trace:
            self._ask_for_room(n, start)

    def _hold_back(self, n: int) -> None:
        """Stop again before a try_wait whose phase has not ended, if the caller of the warp function says so."""
        w = self.w
        index = w.blocks[n].first
        ops = w.lowered[index].ops
        decides = next((op for op in ops if op.name in ("set_pred", "set_upred")), None)
        if decides is None:
            return
        self._set_exec(index)
        ended = self._operations(index, stop_before=decides.name)[decides.args[0]]
        waits = w.op(f"icmp ne {w.mask_type} {w.and_mask(w.exec, ended, inverted=True).bits}, 0")
        asked = w.op(f"icmp ne i64 {w.load_field('%warp', WARP['holds_back'])}, 0")
        held = w.op(f"and i1 {waits}, {asked}")
        w.emit(f"br i1 {held}, label %h{n}, label %l{n}")
        w.label(f"h{n}")
        w.emit(f"store i32 {int(Status.CLOCK)}, ptr %status")
        w.emit(f"br label {self.save_label('body', n)}")
        w.label(f"l{n}")

    def _trace_used(self) -> str:
        """Words in the record buffer."""
        w = self.w
        at = w.op(f"ptrtoint ptr {w.op('load ptr, ptr %trace_at')} to i64")
        start = w.op("ptrtoint ptr %trace_base to i64")
        return w.op(f"lshr i64 {w.op(f'sub i64 {at}, {start}')}, 3")

    def _stop_when_full(self, label: str) -> None:
        """Branch to a save label if the record buffer is full."""
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
        """Check before a block, where needed, whether the buffer has room for its records.

        A warp that stops before the block for another reason has an empty buffer there.
        """
        w = self.w
        if w.blocks[n].stop:
            self.words_ahead.append(w.trace_words)
            return
        comes_from = self.predecessors[n]
        back = any(m >= n for m in comes_from) or self.groups.enters(n)
        before = [m for m in dict.fromkeys(comes_from) if m < n]
        due, words = tr.words_ahead(w.trace_words, [self.words_ahead[m] for m in before], back)
        self.words_ahead.append(words)
        if due:
            written = w.lines
            w.lines = []
            self._stop_when_full(self.save_label("enter", n))
            written[start:start] = w.lines
            w.lines = written

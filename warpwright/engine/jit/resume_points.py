"""State that survives a stop of a warp: its variables, their offsets in the save area, and the numbered resume points.

``control.py`` restores what is saved here.
"""

from __future__ import annotations

from functools import cached_property

from warpwright.engine.abi import WARP
from warpwright.engine.clock_uses import timed_writes
from warpwright.engine.jit.canonical_nans import late_nans
from warpwright.engine.jit.convergence import Groups
from warpwright.engine.jit.flow_graph import members
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import ResumePoint
from warpwright.engine.jit.narrowed_loads import single_loads
from warpwright.engine.jit.shape_inference import Known, uniform
from warpwright.engine.jit.spill_slots import share_slots
from warpwright.engine.jit.storage import in_loops, place_variables
from warpwright.engine.lane_positions import SavedPositions


class Stops:
    """What a warp saves when it stops, and the points at which it resumes."""

    STACK_COUNT = "depth"
    """The variable that counts the entries of the stack of groups."""

    def __init__(self, w: FunctionWriter, name: str) -> None:
        self.w = w
        self.name = name
        facts = w.facts
        self.together = facts.together
        self.waiting = facts.waiting
        # Lanes that a spin loop released from a BSYNC leave others behind, wherever they go.
        scattered = bool(w.flow.gives_way and self.waiting)
        self.held_barriers = [
            n
            for n, end in enumerate(w.flow.ends)
            if end in ("barrier", "barrier_red") and (self.together[n] or scattered)
        ]
        """Blocks that end in a block barrier which only part of the warp may have reached."""
        self.groups = Groups(w, self.held_barriers)
        self.undivided = not self.groups.exist and not w.flow.stacked and self._stays_whole()
        """Whether all lanes of every warp execute every block."""
        self.wanted_barriers = self._wanted_barrier_webs()
        self.nans = late_nans(w.lowered, w.webs)
        w.single_loads = single_loads(w.lowered, w.webs)
        w.looping = in_loops(w.flow)
        vectors = [n.number for n in w.webs.webs if w.is_vector(n.number)]
        self.timed = self._timed_webs()
        """Variables that clocks alone decide."""
        self.storage = place_variables(w.blocks, w.webs, w.flow, w.looping, vectors)
        self.shared_slots = self._share_slots()
        w.saved_at = self.saved_at
        self.given: dict[int, str] = {}
        """The lanes that enter a block with a single predecessor."""
        self.predecessors: list[list[int]] = [[] for _ in w.blocks]
        for block in w.blocks:
            for successor in block.successors:
                self.predecessors[successor].append(block.number)
        self.in_step = False
        """Whether warps of a block may take turns in a loop."""
        self.words_ahead: list[int] = []
        """For each block written so far: maximum number of trace words since the last check of the buffer's space."""

    def _stays_whole(self) -> bool:
        """Whether a warp keeps all its lanes from start to end: no lane ends before others."""
        w = self.w
        for n, end in enumerate(w.flow.ends):
            index = w.blocks[n].first + w.blocks[n].count - 1
            low = w.lowered[index]
            shapes: list[Known] = [] if low.guard is None else [w.facts.webs[w.webs.references[index, -1].low]]
            shapes += [w.facts.values[index][a] for a in low.ops[-1].args] if low.ops else []
            if end == "exit" and not all(uniform(shape) for shape in shapes):
                return False
        return w.setting.threads % w.lanes == 0

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

    def _timed_webs(self) -> set[int]:
        w = self.w
        writes = timed_writes(w.program, w.lowered, w.blocks)
        found: set[int] = set()
        for (index, position), reference in w.webs.references.items() if writes else ():
            if index in writes and position >= 0 and w.lowered[index].ops[position].name.startswith("set_"):
                found |= {reference.low, reference.high} - {-1}
        return found

    # --- places -----------------------------------------------------------------------------------

    def slot(self, name: str, size: int) -> int:
        """Byte offset of a named value in the save area (relative to its variable part)."""
        offsets = self.w.offsets
        if name not in offsets:
            # Vectors begin at cache lines: a store across two lines takes twice as long.
            end = offsets.get("end", 0)
            offsets[name] = (end + 63) // 64 * 64 if size > 8 else end
            offsets["end"] = offsets[name] + size
        return offsets[name]

    def saved_at(self, kind: str, number: int) -> int | None:
        """Byte offset in the save area of a variable that is always there, None of one that LLVM places; see ``FunctionWriter.variable``."""
        if kind == "w":
            return self.web_slot(number) if number in self.storage.webs else None
        if kind == "p" and not self.storage.masks >> number & 1:
            return None
        return self.slot(f"{kind}{number}", 8)

    def web_slot(self, number: int) -> int:
        """Byte offset of a web's slot in the save area."""
        shared = self.shared_slots.get(number)
        return self.slot(f"w{number}", self._web_size(number)) if shared is None else shared

    def _web_size(self, number: int) -> int:
        w = self.w
        type = w.web_type(number)
        size = {w.vecmask: w.lanes * w.lanes // 8, w.vec64: 2 * w.row_bytes, w.vec32: w.row_bytes}.get(type, 8)
        if type[0] == "[":
            size = 8 * (w.lanes // w.row_length)
        return size

    def _share_slots(self) -> dict[int, int]:
        """Slots of the variables in memory.

        If several groups can exist, liveness no longer follows from the executing block alone, and slots are not
        shared. Nor are they if some variables do not count when states are compared.
        """
        w = self.w
        if self.groups.exist or self.timed:
            return {}
        sizes = {n: self._web_size(n) for n in self.storage.webs if w.has_storage(n)}
        offsets, end = share_slots(w.blocks, w.webs, w.facts.live_elsewhere, sizes)
        w.offsets["end"] = end
        return offsets

    def saved_positions(self, variables: int) -> SavedPositions:
        """Where the groups of a stopped warp are stored; ``variables``: bytes before the save area's variable part."""
        w = self.w
        offsets = w.offsets

        def place(name: str) -> int:
            return variables + offsets[name] if name in offsets else -1

        resumes = [
            (r.block, place(f"p{r.block}") if r.kind in ("enter", "body") else -1)
            for r in sorted(w.resumes.values(), key=lambda r: r.number)
        ]
        return SavedPositions(
            [w.program.instructions[b.first].address for b in w.blocks],
            resumes,
            [(n, place(f"a{n}")) for n in self.groups.points],
            sorted((place(f"w{n}"), self._web_size(n)) for n in self.timed if f"w{n}" in offsets),
            place(self.STACK_COUNT),
            place("stack"),
            w.lanes,
            place("copy"),
            w.repeats.bytes_per_copy if w.repeats is not None else [],
            w.flow.stacked,
        )

    # --- what is saved ----------------------------------------------------------------------------

    def _others_at(self, resume: ResumePoint) -> bool:
        """Whether other groups may be elsewhere at a resume point; at a convergence point they are about to move."""
        if resume.kind in ("next", "scan", "barrier") or (self.w.flow.gives_way and self.waiting):
            # Lanes that a spin loop released from a BSYNC have left others behind.
            return True
        return bool(self.together[resume.block]) or bool(self.waiting >> resume.block & 1)

    @cached_property
    def _live_where_groups_stand(self) -> set[int]:
        """The live webs of every block at which another group of the warp may be: the same at all resume points."""
        live: set[int] = set()
        for n in members(self.groups.stands | self.waiting):
            live |= self.w.webs.live_in[n]
        return live & self._stored

    @cached_property
    def _stored(self) -> set[int]:
        """The webs that have a variable."""
        return {web.number for web in self.w.webs.webs if self.w.has_storage(web.number)}

    @cached_property
    def _webs_of(self) -> dict[int, set[int]]:
        """The webs that each instruction reads or writes."""
        found: dict[int, set[int]] = {}
        for (index, _), reference in self.w.webs.references.items():
            some = found.setdefault(index, set())
            some.add(reference.low)
            if reference.high >= 0:
                some.add(reference.high)
        return found

    def live_at(self, resume: ResumePoint) -> list[int]:
        w = self.w
        live = self._stored & w.webs.live_in[resume.block]
        if self._others_at(resume):
            live |= self._live_where_groups_stand
        reds = []
        if resume.kind == "red":
            reds = [resume.block - 1]
        elif resume.kind == "barrier":
            reds = [n for n in self.held_barriers if w.flow.ends[n] == "barrier_red"]
        for n in reds:
            live |= self._stored & self._webs_of.get(w.blocks[n].first + w.blocks[n].count - 1, set())
        return sorted(live)

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
            found.append((f"%p{resume.block}", w.mask_type, self.slot(f"p{resume.block}", 8)))
        if resume.kind == "red" and not self.storage.masks >> resume.block & 1:
            found.append((f"%p{resume.block}", w.mask_type, self.slot(f"p{resume.block}", 8)))
        return found

    def save_label(self, kind: str, block: int) -> str:
        """Label of the code that saves the state for a resume point and returns %status."""
        return f"%s{self.resume_point(kind, block).number}"

    def _save(self, resume: ResumePoint) -> None:
        w = self.w
        w.label(f"s{resume.number}")
        for name, type, offset in self._saved(resume):
            value = w.op(f"load {type}, ptr {name}")
            pointer = w.op(f"getelementptr i8, ptr %save, i64 SAVE+{offset}")
            if type == w.vecbool:
                value, type = w.bits_of(value), w.mask_type
            w.emit(f"store {type} {value}, ptr {pointer}, align 8")
        w.emit(f"store i64 {resume.number}, ptr {w.field('%warp', WARP['resume'])}")
        w.emit("br label %return")

"""A program in execution order: the contents of its clauses, interleaved with the actions of its control-flow words.

Each item is one instruction of the model.  Lanes leave the execution mask by branching to the point at which they are
enabled again: an ``ELSE``, a ``POP``, the end of a loop.  That point follows from the structure of the words, which is
analysed once for the whole program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from warpwright.isa.r600.bindings import MIP_LINEAR, Bindings
from warpwright.isa.r600.decoded_program import Bundle, ControlWord, FetchWord, Listing
from warpwright.isa.r600.tables_control import Role
from warpwright.isa.sass.meaning import UnsupportedInstruction


class Flow(Enum):
    """The effect of an item on the flow of control."""

    NONE = "none"
    PUSH = "push"
    """A region begins; lanes reconverge at its label."""
    LEAVE = "leave"
    """Lanes that have finished their part of the region wait at its label."""
    LOOP = "loop"
    TURN = "turn"
    """A loop iteration begins, in which lanes may continue to the iteration's end."""
    BREAK = "break"
    CONTINUE = "continue"
    REPEAT = "repeat"
    EXIT = "exit"


class Filtering(Enum):
    """The part of a filtered fetch that an item is."""

    NONE = "none"
    BEGIN = "begin"
    """Level of detail, and the number of means."""
    LOOP = "loop"
    MEAN = "mean"
    """A mean of texels of one level, which is a memory access."""
    COARSE = "coarse"
    """The same of the next level."""
    NEXT = "next"
    """Lanes with all their means leave the loop."""
    REPEAT = "repeat"
    END = "end"
    """The result goes to registers."""


@dataclass(eq=False)
class Region:
    """A conditional or a loop; its boundaries are item numbers."""

    is_loop: bool
    after: int = -1
    otherwise: int = -1
    """The first item of the other side; -1 if there is none."""
    leave: int = -1
    """Where lanes that skip the region leave it."""
    start: int = -1
    turn: int = -1
    """Where the lanes of a loop iteration reconverge; -1 if the loop has no continue."""
    continues: bool = False


@dataclass(eq=False)
class Item:
    """One instruction of the model."""

    flow: Flow = Flow.NONE
    region: Region | None = None
    control: ControlWord | None = None
    """The control-flow word, for an item that is not part of a clause."""
    bundle: Bundle | None = None
    following: Bundle | None = None
    """The next bundle of its clause, which may read this bundle's results as PV and PS."""
    fetch: FetchWord | None = None
    clause: ControlWord | None = None
    """The word that executes the clause, with its constant cache."""
    masks: Region | None = None
    """Lanes without the predicate branch to this region's other side, or to its end."""
    second_read: bool = False
    """The second of two values that the previous bundle reads from local data share."""
    free: bool = False
    """Part of another word; it takes no time of its own."""
    filtering: Filtering = Filtering.NONE
    bounded: bool = False
    """A random access to a target with a size."""
    tests_bounds: bool = False
    """Determines which lanes of the following random access are inside its target."""
    reads: tuple[int, ...] = field(default=())
    """Queue entries that the bundle consumes, and that its access fills."""
    fills: tuple[int, ...] = field(default=())


TWO_READS = "LDS_READ2_RET"
STORE_TYPED, READ = "STORE_TYPED", "NOP_RTN"
"""The random accesses that convert a value to their target's format, and that return an element and do not change it."""
REFUSED = "{name} has no meaning in a compute program"
_LOOP_STARTS = ("LOOP_START", "LOOP_START_DX10", "LOOP_START_NO_AL")
_POPS = {"ALU_POP_AFTER": 1, "ALU_POP2_AFTER": 2}
_NOTHING = ("NOP", "WAIT_ACK", "WAVE_SYNC", "LDS_DEALLOC", "SET_PRIORITY", "JUMP")


def items_of(listing: Listing, bounds: bool = False, images: Bindings | None = None) -> list[Item]:
    """The items of a program.

    Args:
        bounds: whether random access targets have a size.
        images: what fetches filter, and how.

    Raises:
        UnsupportedInstruction: naming what is not implemented, or an invalid structure of words.
    """
    return _Walk(listing, bounds, images or Bindings()).run()


@dataclass
class _Walk:
    listing: Listing
    bounds: bool
    images: Bindings
    items: list[Item] = field(default_factory=list)
    open: list[Region] = field(default_factory=list)
    queue: _Queue = field(default_factory=lambda: _Queue())
    """A clause may consume a value that an earlier clause requested, in the order of the words."""

    def run(self) -> list[Item]:
        continuing = _loops_that_continue(self.listing)
        for word in self.listing.control:
            self.word(word, word.address in continuing)
            if word.ends_program:
                self.add(Item(Flow.EXIT, control=word, free=word.operation.name != "CF_END"))
        if self.open:
            raise UnsupportedInstruction("the program ends inside a loop or a conditional")
        return self.items

    def add(self, item: Item) -> Item:
        self.items.append(item)
        return item

    @property
    def next(self) -> int:
        return len(self.items)

    def word(self, word: ControlWord, continues: bool) -> None:
        name, role = word.operation.name, word.operation.role
        if role is Role.ALU_CLAUSE:
            self.alu(word)
        elif role is Role.FETCH_CLAUSE:
            clause = self.listing.clauses[word.fields["addr"]]
            for fetch in clause.fetches:
                self.fetch(fetch, word)
        elif role is Role.RAT:
            bound = word.fields["rat_id"] in self.images.targets and word.rat_operation in (STORE_TYPED, READ)
            bounded = self.bounds or bound
            if bounded:
                self.add(Item(control=word, free=True, bounded=True, tests_bounds=True))
            self.add(Item(control=word, bounded=bounded))
        elif name == "PUSH":
            self.push(word, free=False)
        elif name == "ELSE":
            region = self.innermost(word)
            self.add(Item(Flow.LEAVE, region, word))
            region.otherwise = self.next
        elif name == "POP":
            self.pop(word.fields["pop_count"], word)
        elif role is Role.LOOP:
            self.loop(name, word, continues)
        elif name in _NOTHING:
            self.add(Item(control=word))
        elif name != "CF_END":
            raise UnsupportedInstruction(REFUSED.format(name=name))

    # --- clauses ------------------------------------------------------------------------------------------------
    def alu(self, word: ControlWord) -> None:
        name = word.operation.name
        if name == "ALU_PUSH_BEFORE":
            self.push(word, free=True)
        elif name not in ("ALU", *_POPS):
            raise UnsupportedInstruction(REFUSED.format(name=name))
        clause = self.listing.clauses[word.fields["addr"]]
        for n, bundle in enumerate(clause.bundles):
            following = clause.bundles[n + 1] if n + 1 < len(clause.bundles) else None
            item = self.add(Item(bundle=bundle, following=following, clause=word))
            item.reads, item.fills = self.queue.pass_bundle(bundle)
            if any(w.fields.get("update_exec_mask") for w in bundle.words):
                if following is not None:
                    raise UnsupportedInstruction("an execution mask that changes before the clause ends")
                item.masks = self.innermost(word)
            if any(w.operation.name == TWO_READS for w in bundle.words):
                self.add(Item(clause=word, second_read=True, fills=item.fills))
        if name in _POPS:
            self.pop(_POPS[name], word, free=True)

    def fetch(self, fetch: FetchWord, word: ControlWord) -> None:
        """A fetch; one that filters is a sequence of items, with a loop if its number of means depends on the lane."""
        name = fetch.operation.name
        if not name.startswith(("SAMPLE", "GATHER4")):
            self.add(Item(fetch=fetch, clause=word))
            return

        def part(filtering: Filtering, region: Region | None = None) -> None:
            self.add(Item(fetch=fetch, clause=word, filtering=filtering, region=region))

        sampler = self.images.samplers.get(fetch.fields["sampler_id"])
        image = self.images.textures.get(fetch.fields["resource_id"])
        region = Region(True)
        repeats = sampler is not None and sampler.anisotropy > 1 and name == "SAMPLE_G"
        part(Filtering.BEGIN)
        if repeats:
            part(Filtering.LOOP, region)
        region.start = self.next
        part(Filtering.MEAN)
        if sampler is not None and sampler.mip == MIP_LINEAR and image is not None and image.levels > 1:
            part(Filtering.COARSE)
        if repeats:
            part(Filtering.NEXT)
            part(Filtering.REPEAT, region)
        region.after = self.next
        part(Filtering.END)

    # --- regions ------------------------------------------------------------------------------------------------
    def innermost(self, word: ControlWord) -> Region:
        """The innermost open conditional."""
        if not self.open or self.open[-1].is_loop:
            raise UnsupportedInstruction(f"{word.operation.name} changes the execution mask outside of a conditional")
        return self.open[-1]

    def push(self, word: ControlWord, free: bool) -> None:
        region = Region(False)
        self.open.append(region)
        self.add(Item(Flow.PUSH, region, word, free=free))

    def pop(self, count: int, word: ControlWord, free: bool = False) -> None:
        for n in range(count):
            region = self.innermost(word)
            region.leave = self.next
            self.add(Item(Flow.LEAVE, region, word, free=free or n > 0))
            region.after = self.next
            self.open.pop()

    def loop(self, name: str, word: ControlWord, continues: bool) -> None:
        if name in _LOOP_STARTS:
            region = Region(True, continues=continues)
            self.open.append(region)
            self.add(Item(Flow.LOOP, region, word))
            region.start = self.next
            if continues:
                self.add(Item(Flow.TURN, region, word, free=True))
            return
        region = next((r for r in reversed(self.open) if r.is_loop), Region(True))
        if region.start < 0:
            raise UnsupportedInstruction(f"{name} outside of a loop")
        if name == "LOOP_BREAK":
            self.add(Item(Flow.BREAK, region, word))
        elif name == "LOOP_CONTINUE":
            self.add(Item(Flow.CONTINUE, region, word))
        elif name == "LOOP_END":
            if self.open[-1] is not region:
                raise UnsupportedInstruction("a loop that ends inside a conditional")
            if region.continues:
                self.add(Item(Flow.CONTINUE, region, word, free=True))
                region.turn = self.next
            self.add(Item(Flow.REPEAT, region, word))
            region.after = self.next
            self.open.pop()
        else:
            raise UnsupportedInstruction(REFUSED.format(name=name))


def _loops_that_continue(listing: Listing) -> set[int]:
    """Addresses of the words that begin loops with a continue."""
    open_loops: list[int] = []
    found = set()
    for word in listing.control:
        if word.operation.name in _LOOP_STARTS:
            open_loops.append(word.address)
        elif word.operation.name == "LOOP_CONTINUE" and open_loops:
            found.add(open_loops[-1])
        elif word.operation.name == "LOOP_END" and open_loops:
            open_loops.pop()
    return found


OUTPUT_QUEUE_POP, OUTPUT_QUEUE_B_POP, OUTPUT_QUEUE, OUTPUT_QUEUE_B = 221, 222, 219, 220
"""Sources that read what local data share has returned: the oldest value of queue A or B, removed from the queue or
left there."""


@dataclass
class _Queue:
    """The values in queues A and B that local data share has returned and that have not been consumed."""

    filled: int = 0
    taken: int = 0

    def pass_bundle(self, bundle: Bundle) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The entry that a bundle consumes, and the one that its access fills."""
        sources = {s.select for w in bundle.words for s in w.sources}
        reads: tuple[int, ...] = ()
        if sources & {OUTPUT_QUEUE, OUTPUT_QUEUE_B, OUTPUT_QUEUE_POP, OUTPUT_QUEUE_B_POP}:
            if self.taken == self.filled:
                raise UnsupportedInstruction("a bundle takes a value of local data share that no access returns")
            reads = (self.taken,)
            self.taken += bool(sources & {OUTPUT_QUEUE_POP, OUTPUT_QUEUE_B_POP})
        fills: tuple[int, ...] = ()
        for word in bundle.words:
            if "lds_op" in word.fields and word.operation.name.endswith("_RET"):
                fills = (self.filled,)
                self.filled += 1
        return reads, fills

"""Lowers a program's items to common operations."""

from __future__ import annotations

from warpwright.isa.ops import Lowered, Value, verify
from warpwright.isa.r600 import meaning_filter, meaning_float, meaning_integer
from warpwright.isa.r600.decoded_program import AluWord, Bundle
from warpwright.isa.r600.items import Filtering, Flow, Item
from warpwright.isa.r600.launch_words import FIRST_REGISTERS
from warpwright.isa.r600.load import LANES, STEP_BYTES, R600Program, described
from warpwright.isa.r600.meaning import (
    EXECUTES,
    FLOAT_MEANINGS,
    INSIDE,
    INTEGER_MEANINGS,
    PREDICATE,
    PREVIOUS,
    PREVIOUS_SCALAR,
    TEST_MEANINGS,
    Names,
    R600Emitter,
    as_float,
    register_name,
    rounded,
    set_relative,
    source,
    truth,
)
from warpwright.isa.r600.meaning_bound import access_target, bound_fetch, is_bound, test_bounds, texture_fetch
from warpwright.isa.r600.meaning_double import double_results
from warpwright.isa.r600.meaning_memory import fetch, local_data_share, random_access, second_read
from warpwright.isa.r600.meaning_share import global_data_share
from warpwright.isa.r600.tables_fetch import FetchKind
from warpwright.isa.sass.meaning import UnsupportedInstruction

_FILLED = (meaning_float, meaning_integer)
MULTIPLIERS = {1: 0x40000000, 2: 0x40800000, 3: 0x3F000000}
"""Factors of the output modifiers: 2, 4 and 1/2."""
PREDICATE_ZERO, PREDICATE_ONE = 2, 3


def lower(program: R600Program) -> list[Lowered]:
    """The meaning of every instruction of a program, in order; the first also sets the position registers.

    Raises:
        UnsupportedInstruction: naming kernel, chip and text.
    """
    names = Names(highest=highest_register(program.items))
    result = []
    for n, item in enumerate(program.items):
        b = R600Emitter([], names, item, program.bindings, program.images)
        guard = None
        try:
            if n == 0:
                first_registers(b)
            guard = bundle_guard(item)
            b.guarded = guard is not None
            lower_item(b, program)
        except UnsupportedInstruction as error:
            raise UnsupportedInstruction(
                f"kernel {program.name}: cannot execute instruction {n} ({program.generation}): {described(item, program.generation)[2]}: {error}"
            ) from None
        verify(b.ops, LANES)
        result.append(Lowered(b.ops, guard))
    return result


def first_registers(b: R600Emitter) -> None:
    """Set T0 and T1 to the positions, as a program expects at its start."""
    for n, name in enumerate(FIRST_REGISTERS):
        register = register_name(n // 3, "xyz"[n % 3])
        value = b.op("special", "i32", attr=name)
        b.set(register, value)
        b.read_words[register] = value


def highest_register(items: list[Item]) -> int:
    """The highest register that a program names."""
    highest = 1
    for item in items:
        for word in item.bundle.words if item.bundle is not None else ():
            highest = max(
                highest, word.fields.get("dst_gpr", 0), *(s.select for s in word.sources if s.select < 128), 0
            )
        if item.fetch is not None:
            highest = max(highest, item.fetch.fields["dst_gpr"], item.fetch.fields["src_gpr"])
        if item.control is not None and item.control.rat_operation:
            highest = max(highest, item.control.fields["rw_gpr"], item.control.fields["index_gpr"])
    return highest


def bundle_guard(item: Item) -> tuple[str, int, bool] | None:
    """The predicate of a random access that is ignored outside of its target, or of a bundle that accesses local data share under a predicate, which all its operations share."""
    if item.bounded and item.flow is Flow.NONE and not item.tests_bounds:
        return "pred", INSIDE, False
    words = item.bundle.words if item.bundle is not None else ()
    if not any("lds_op" in w.fields and w.fields["pred_sel"] for w in words):
        return None
    wanted = {w.fields["pred_sel"] for w in words}
    if len(wanted) > 1:
        raise UnsupportedInstruction("an access under a predicate beside operations under another one")
    return "pred", PREDICATE, wanted == {PREDICATE_ZERO}


def place(number: int) -> int:
    return STEP_BYTES * number


def lower_item(b: R600Emitter, program: R600Program) -> None:
    """One item's operations."""
    item = b.item
    if item.bundle is not None:
        lower_bundle(b, item.bundle)
        if item.masks is not None:
            target = item.masks.otherwise if item.masks.otherwise >= 0 else item.masks.leave
            outside = b.not_(b.op("get_pred", "i1", attr=EXECUTES))
            b.op("branch", "void", outside, attr=place(target))
    elif item.second_read:
        second_read(b)
    elif item.fetch is not None:
        lower_fetch(b, program)
    elif item.control is not None and item.control.rat_operation and item.flow is Flow.NONE:
        if item.tests_bounds:
            test_bounds(b)
        elif item.bounded:
            access_target(b, program.generation)
        else:
            random_access(b, program.generation)
    else:
        lower_flow(b)


def lower_fetch(b: R600Emitter, program: R600Program) -> None:
    """Lower a fetch according to its kind."""
    word = b.item.fetch
    assert word is not None
    if word.operation.kind is FetchKind.GLOBAL_SHARE:
        global_data_share(b, program.global_share_address)
    elif b.item.filtering is not Filtering.NONE:
        lower_filter(b, program.generation)
    elif b.bindings is not None or is_bound(b):
        bound_fetch(b)
    elif word.operation.kind is FetchKind.TEXTURE:
        texture_fetch(b)
    else:
        fetch(b)


def lower_filter(b: R600Emitter, generation: str) -> None:
    """Lower a part of a filtered fetch."""
    part, region = b.item.filtering, b.item.region
    if part is Filtering.BEGIN:
        meaning_filter.begin(b)
    elif part in (Filtering.MEAN, Filtering.COARSE):
        meaning_filter.add_mean(b, coarse=part is Filtering.COARSE)
    elif part is Filtering.NEXT:
        meaning_filter.next_mean(b)
    elif part is Filtering.END:
        meaning_filter.finish(b, generation)
    elif region is not None:
        if part is Filtering.LOOP:
            b.op("push", "void", attr=("brk", place(region.after)))
        else:
            b.op("branch", "void", attr=place(region.start))


def lower_flow(b: R600Emitter) -> None:
    """Lower a control-flow word, using the warp's stack."""
    flow, region = b.item.flow, b.item.region
    if flow is Flow.EXIT:
        b.op("exit", "void")
    if region is None:
        return
    if flow is Flow.PUSH:
        b.op("push", "void", attr=("ssy", place(region.after)))
    elif flow is Flow.LEAVE:
        b.op("pop", "void", attr="ssy")
    elif flow is Flow.LOOP:
        b.op("push", "void", attr=("brk", place(region.after)))
    elif flow is Flow.TURN:
        b.op("push", "void", attr=("cnt", place(region.turn)))
    elif flow is Flow.BREAK:
        b.op("pop", "void", attr="brk")
    elif flow is Flow.CONTINUE:
        b.op("pop", "void", attr="cnt")
    elif flow is Flow.REPEAT:
        b.op("branch", "void", attr=place(region.start))


# --- bundles --------------------------------------------------------------------------------------------------
def lower_bundle(b: R600Emitter, bundle: Bundle) -> None:
    """Lower a bundle, whose operations all read before any writes."""
    forwarded = _forwarded(b.item.following)
    results: list[tuple[AluWord, Value]] = []
    tests: list[tuple[AluWord, Value]] = []
    address = None
    doubles = double_results(b, bundle)
    for word in bundle.words:
        name = word.operation.name
        if "lds_op" in word.fields:
            local_data_share(b, word)
        elif word.slot in doubles.words:
            results.append((word, doubles.words[word.slot]))
            if name.startswith("PRED_") and word.slot in doubles.tests:
                tests.append((word, doubles.tests[word.slot]))
        elif name == "GROUP_BARRIER":
            _barrier(b, bundle)
        elif name == "MOVA_INT":
            address = source(b, word, word.sources[0])
        elif name in TEST_MEANINGS:
            test = TEST_MEANINGS[name](b, [source(b, word, s) for s in word.sources])
            tests.append((word, test))
            results.append((word, _test_result(b, name, test)))
        elif word.writes or _forwards(word, forwarded):
            results.append((word, _of_bundle(b, word, bundle)))
    for word, value in results:
        write(b, word, value, forwarded)
    if address is not None:
        b.set("AR", address)
    for word, test in tests:
        if word.fields["update_pred"]:
            b.op("set_pred", "void", test, attr=PREDICATE)
        if word.fields["update_exec_mask"]:
            b.op("set_pred", "void", test, attr=EXECUTES)


def _barrier(b: R600Emitter, bundle: Bundle) -> None:
    if len(bundle.words) > 1:
        raise UnsupportedInstruction("GROUP_BARRIER with other operations in its bundle has no meaning here")
    b.op("barrier", "void", b.number(0), b.number(0), attr="sync")


def _forwarded(following: Bundle | None) -> frozenset[str]:
    """The slots whose results the next bundle reads as PV or PS."""
    if following is None:
        return frozenset()
    sources = [s for word in following.words for s in word.sources]
    found = {"xyzw"[s.channel] for s in sources if s.select == PREVIOUS}
    return frozenset(found | ({"t"} if any(s.select == PREVIOUS_SCALAR for s in sources) else set()))


def _forwards(word: AluWord, forwarded: frozenset[str]) -> bool:
    return word.slot in forwarded


def _test_result(b: R600Emitter, name: str, test: Value) -> Value:
    """The result of a comparison: all ones for integer and DX10 comparisons, 1.0 for the others; 0 if false."""
    is_float = name.startswith("SET") and not name.endswith(("_INT", "_UINT", "_DX10"))
    return truth(b, test, 0x3F800000 if is_float else 0xFFFFFFFF)


def _of_bundle(b: R600Emitter, word: AluWord, bundle: Bundle) -> Value:
    """The result of an operation, which may depend on other slots."""
    if word.operation.name == LANES_BELOW:
        return _lanes_below(b, word, bundle)
    if word.operation.name in meaning_float.FOUR_SLOT_MEANINGS:
        return _modified(b, word, _of_four_slots(b, word.operation.name, bundle))
    return _result(b, word)


def _of_four_slots(b: R600Emitter, name: str, bundle: Bundle) -> Value:
    """What four slots give together: the pairs of slots first, each rounded."""
    own, together = meaning_float.FOUR_SLOT_MEANINGS[name]
    words = [w for w in bundle.words if w.operation.name == name]
    if [w.slot for w in words] != list("xyzw"):
        raise UnsupportedInstruction(f"{name} in fewer than four slots has no meaning here")
    x, y, z, w = (own(b, [as_float(b, source(b, word, s)) for s in word.sources]) for word in words)
    return together(b, together(b, x, y), together(b, z, w))


LANES_BELOW = "MBCNT_32LO_ACCUM_PREV_INT"


def _lanes_below(b: R600Emitter, word: AluWord, bundle: Bundle) -> Value:
    """The number of set bits of a mask below each lane in the first half, plus the count for the second half from the
    next slot."""
    others = [w for w in bundle.words if w.slot == {"x": "y", "z": "w"}.get(word.slot)]
    if not others:
        raise UnsupportedInstruction(f"{LANES_BELOW} with nothing in the slot after it has no meaning here")
    (mask,) = (source(b, word, s) for s in word.sources)
    return b.add(meaning_integer.lanes_below(b, mask, first=0), _result(b, others[0]))


def _result(b: R600Emitter, word: AluWord) -> Value:
    name = word.operation.name
    sources = [source(b, word, s) for s in word.sources]
    if name in INTEGER_MEANINGS:
        found = INTEGER_MEANINGS[name](b, sources)
        # Moves, selections and conversions also return floats, to which modifiers apply.
        return _modified(b, word, as_float(b, found)) if _has_modifier(word) else found
    known = FLOAT_MEANINGS.get(name)
    if known is None:
        raise UnsupportedInstruction(f"{name} has no meaning here")
    return _modified(b, word, known(b, [as_float(b, x) for x in sources]))


def _has_modifier(word: AluWord) -> bool:
    return bool(word.fields["clamp"] or word.fields.get("omod", 0))


def _modified(b: R600Emitter, word: AluWord, value: Value) -> Value:
    """A float with its output modifiers applied, as a word."""
    multiplier = MULTIPLIERS.get(word.fields.get("omod", 0))
    if multiplier is not None:
        value = rounded(b, b.op("fmul", "f32", value, b.single(multiplier), attr="rn"))
    if word.fields["clamp"]:
        value = b.op("fmax", "f32", value, b.single(0), attr="number")
        value = b.op("fmin", "f32", value, b.single(0x3F800000), attr="number")
    return b.bitcast(value, "i32")


def write(b: R600Emitter, word: AluWord, value: Value, forwarded: frozenset[str]) -> None:
    """Write a result to its register under the predicate, and to PV or PS if the next bundle reads it."""
    if word.slot in forwarded:
        b.set("PS" if word.slot == "t" else f"PV.{word.slot}", value)
    if not word.writes:
        return
    number, channel = word.fields["dst_gpr"], "xyzw"[word.fields["dst_chan"]]
    wanted = word.fields["pred_sel"]
    if not b.guarded and wanted in (PREDICATE_ZERO, PREDICATE_ONE):
        test = b.op("get_pred", "i1", attr=PREDICATE)
        old = b.get(register_name(number, channel))
        value = b.select(test, value, old) if wanted == PREDICATE_ONE else b.select(test, old, value)
    if word.fields["dst_rel"]:
        set_relative(b, number, channel, value)
    else:
        b.set(register_name(number, channel), value)

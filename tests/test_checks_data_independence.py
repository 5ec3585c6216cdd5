"""What is data and what is not, on instructions made by hand: kernels whose accesses do not follow from memory."""

from __future__ import annotations

import pytest

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.data_independence import _follows, _step
from warpwright.isa.ops import Access, Lowered, Op

GLOBAL = Access("global", 4)
P0, NOT_P0, UP0 = ("pred", 0, False), ("pred", 0, True), ("upred", 0, False)
Guard = tuple[str, int, bool] | None


def load(target: int, address: int, guard: Guard = None) -> Lowered:
    """R[target] = memory[R[address]]."""
    return Lowered(
        [Op("get_reg", "i64", (), address), Op("load", "i32", (0,), GLOBAL), Op("set_reg", "void", (1,), target)], guard
    )


def move(target: int, source: int, guard: Guard = None) -> Lowered:
    return Lowered([Op("get_reg", "i32", (), source), Op("set_reg", "void", (0,), target)], guard)


def compare(source: int) -> Lowered:
    """P0 = R[source] == 0."""
    ops = [
        Op("get_reg", "i32", (), source),
        Op("const", "i32", (), 0),
        Op("icmp", "i1", (0, 1), "eq"),
        Op("set_pred", "void", (2,), 0),
    ]
    return Lowered(ops)


def jump(target: int) -> Lowered:
    return Lowered([Op("branch", "void", (), target)])


def follows(*instructions: Lowered) -> bool:
    return _follows([BasicBlock(0, 0, len(instructions), (), ())], [_step(i) for i in instructions])


def test_an_address_from_memory_is_data() -> None:
    assert follows(load(4, 2), load(5, 2))
    assert not follows(load(4, 2), load(5, 4))
    assert not follows(load(4, 2), move(6, 4), load(5, 6))


def test_what_is_written_anew_is_data_no_more() -> None:
    assert follows(load(4, 2), move(4, 3), load(5, 4))


def test_a_guard_from_memory_decides() -> None:
    assert not follows(load(4, 2), compare(4), load(5, 2, P0))
    assert follows(load(4, 2), compare(4), move(5, 3, P0))


@pytest.mark.parametrize(("reads", "expected"), [(P0, True), (NOT_P0, False), (None, False)])
def test_under_its_predicate_a_value_is_new(reads: Guard, expected: bool) -> None:
    assert follows(load(4, 2), move(4, 3, P0), load(5, 4, reads)) is expected


def test_a_predicate_that_changed_says_nothing_of_before() -> None:
    assert not follows(load(4, 2), move(4, 3, P0), compare(3), load(5, 4, P0))


def test_a_uniform_predicate_leaves_what_was_there() -> None:
    assert not follows(load(4, 2), move(4, 3, UP0), load(5, 4, UP0))


def test_a_load_under_a_predicate_is_data_under_it() -> None:
    assert not follows(load(4, 2, P0), load(5, 4, P0))
    assert follows(load(4, 2, P0), load(5, 4, NOT_P0))
    assert follows(load(4, 2, P0), move(4, 3, P0), load(5, 4))


def test_ways_that_meet() -> None:
    # Block 0 goes to 1 or 2, which meet in 3; what is data on one way is data behind both.
    steps = [_step(i) for i in (jump(2), load(4, 2), move(4, 3), load(5, 4))]
    blocks = [BasicBlock(n, n, 1, after, ()) for n, after in enumerate(((1, 2), (3,), (3,), ()))]
    assert not _follows(blocks, steps)
    assert _follows(blocks, [steps[0], steps[2], steps[2], steps[3]])

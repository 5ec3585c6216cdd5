"""Source and machine code side by side, each row coloured by its share of warp time."""

from __future__ import annotations

from html import escape

from warpwright.isa.program import Program
from warpwright.quantity_text import share_text
from warpwright.tools.report.attribution import Attribution, InstructionCost, LineCost, source_file, source_lines
from warpwright.tools.report.coloured_code import coloured
from warpwright.tools.report.live_registers import LiveRegisters, live_registers
from warpwright.tools.report.markup import scroll

MOST_INSTRUCTIONS = 1500
"""Rows of machine code; beyond, only the neighbourhood of what was issued is shown."""
HOT_LINES = 8
MOST_MARKS = 60_000
"""Marks of live ranges, a register and an instruction each; beyond, only their number is shown."""
MOST_REASONS = 3
"""Stall reasons that are shown with an instruction."""
FOREIGN_KEY = 1_000_000
"""Keys of lines in headers begin here, so that they differ from line numbers of the source."""


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _share(share: float) -> str:
    return share_text(share) if share >= 0.0005 else ""


def _heat(share: float, hottest: float) -> str:
    """Attributes of a coloured row: the square root makes small shares visible."""
    level = (share / hottest) ** 0.5 if hottest > 0 else 0.0
    return f' data-share="{share:.6f}" style="--h:{level:.3f}"' if share >= 0.0005 else ""


def _why(cost: InstructionCost, a: Attribution) -> str:
    """What an instruction waited for: its largest reasons, and the instruction that it waits for."""
    parts = [
        f"{name.replace('_', ' ')} {share_text(count / max(cost.stall_cycles, 1))}"
        for name, count in list(cost.reasons.items())[:MOST_REASONS]
        if count >= 0.005 * cost.stall_cycles
    ]
    if cost.waits_for is not None and cost.waits_for < len(a.instructions):
        other = a.instructions[cost.waits_for]
        parts.append(f"for {other.text.split(' ')[1 if other.text.startswith('@') else 0]} at {other.address:#06x}")
    return ", ".join(parts)


def hot_lines(a: Attribution, anchor: str) -> str:
    """The costliest source lines; machine instructions when there is no line information."""
    hottest = max((c.share for c in a.instructions), default=0.0)
    rows = []
    if a.lines:
        hottest = a.lines[0].share
        for found in a.lines[:HOT_LINES]:
            if found.share < 0.0005:
                break
            rows.append(_line_row(found, hottest, a))
        first = "line"
    else:
        for cost in sorted(a.instructions, key=lambda c: -c.share)[:HOT_LINES]:
            if cost.share >= 0.0005:
                rows.append(
                    f'<tr class="heat" style="--h:{cost.share / hottest:.3f}"><td class="nowrap">{cost.address:#06x}</td>'
                    f'<td class="code">{escape(cost.text)}</td><td class="num">{_share(cost.share)}</td>'
                    f'<td class="num">{cost.issues:,}</td><td class="num">{cost.stall_cycles:,}</td>'
                    f"<td>{escape(_why(cost, a))}</td></tr>"
                )
        first = "address"
    if not rows:
        return ""
    return (
        f'<div class="panel whole" id="{anchor}"><h3>Hot lines</h3>'
        '<p class="note">Issues of an instruction and waits before it, by source line.</p><div class="scroll" tabindex="0" role="region" aria-label="Hot lines">'
        '<table class="hot" aria-label="Hot lines"><thead><tr>'
        f'<th scope="col">{first}</th><th scope="col">code</th><th scope="col" class="num">warp time</th>'
        '<th scope="col" class="num">issues</th><th scope="col" class="num">stalled warp-cycles</th>'
        f'<th scope="col">{"why" if a.reasons_by_instruction else "waits most"}</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div></div>'
    )


def _line_row(found: LineCost, hottest: float, a: Attribution) -> str:
    worst = max((a.instructions[i] for i in found.instructions), key=lambda c: c.stall_cycles)
    if found.reasons:
        why = ", ".join(
            f"{name.replace('_', ' ')} {share_text(count / max(found.stall_cycles, 1))}"
            for name, count in list(found.reasons.items())[:3]
            if count >= 0.005 * found.stall_cycles
        )
    elif not found.stall_cycles:
        why = ""
    else:
        why = f"{worst.text.split(' ')[1 if worst.text.startswith('@') else 0]} at {worst.address:#06x}"
        reason = _why(worst, a)
        why += f", {reason}" if reason else ""
    return (
        f'<tr class="heat" style="--h:{found.share / hottest if hottest else 0:.3f}">'
        f'<td class="nowrap">{escape(_short(found.file))}:{found.number}</td><td class="code">{escape(found.text.strip())}</td>'
        f'<td class="num">{_share(found.share)}</td><td class="num">{found.issues:,}</td>'
        f'<td class="num" data-name="line {found.number} stalls" data-value="{found.stall_cycles}">{found.stall_cycles:,}</td>'
        f"<td>{escape(why)}</td></tr>"
    )


def _short(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def _keys(a: Attribution, program: Program) -> dict[tuple[str, int], int]:
    """A number for each line, by which the page joins both sides."""
    own = source_file(program)
    keys: dict[tuple[str, int], int] = {}
    for found in sorted(a.lines, key=lambda one: (one.file, one.number)):
        place = (found.file, found.number)
        keys[place] = found.number if found.file == own else FOREIGN_KEY + len(keys)
    return keys


def listing(a: Attribution, program: Program, anchor: str) -> str:
    """Source and machine code side by side; machine code alone when no source is at hand."""
    keys = _keys(a, program)
    source = _source(a, program)
    code = _code(a, program, keys)
    note = "" if a.reasons_by_instruction else " Reasons are counted for the launch only, not for each instruction."
    sides = f"{source}{code}" if source else code
    style = "" if source else ' style="grid-template-columns:minmax(0,1fr)"'
    join = " Click a row to mark what belongs to its line." if source else ""
    title = "Source and machine code" if source else "Machine code"
    return (
        f'<div class="panel whole" id="{anchor}"><details open><summary><h3>{title}</h3></summary>'
        f'<p class="legend"><span>share of warp time: none</span><b aria-hidden="true"></b><span>most</span><span>Waits count for the '
        f"instruction that waits.{note}{join}</span></p>{_registers_note(a, program)}"
        f'<div class="listing"{style}>{sides}</div></details></div>'
    )


def _source(a: Attribution, program: Program) -> str:
    own = source_file(program)
    if own is None:
        return ""
    texts = source_lines(program, own)
    if not texts:
        return ""
    costs = {found.number: found for found in a.lines if found.file == own}
    if not costs:
        return ""
    hottest = max((found.share for found in a.lines), default=0.0)
    # The kernel and what it calls, with a little around it; the rest of a long file would only hide it.
    first, last = max(min(costs) - 6, 1), min(max(costs) + 4, len(texts))
    rows = []
    for number in range(first, last + 1):
        found = costs.get(number)
        head = f'<tr data-line="{number}"{_heat(found.share, hottest)}>' if found else '<tr class="cold">'
        rows.append(
            f'{head}<td class="num quiet">{number}</td><td class="num">{_share(found.share) if found else ""}</td>'
            f'<td class="code">{escape(texts[number - 1].expandtabs(4)) or " "}</td></tr>'
        )
    return scroll(
        "Source",
        '<table><thead><tr><th scope="col" class="num">line</th><th scope="col" class="num">time</th>'
        f'<th scope="col">{escape(_short(own))}</th></tr></thead><tbody>{"".join(rows)}</tbody></table>',
        "source",
    )


def _registers_note(a: Attribution, program: Program) -> str:
    """The most registers that any instruction needs, and what the marks mean."""
    live = live_registers(program)
    if live is None:
        return ""
    most = max(a.instructions, key=lambda cost: live[cost.index].held, default=None)
    if most is None or not live[most.index].held:
        return ""
    marks = "" if _marked(a, live) is None else " Marks: ^ written, v read, x both, : live."
    return (
        f'<p class="note">Registers needed at once: at most {live[most.index].held}, at {most.address:#06x}; '
        f"the compiler allocated {program.registers}.{marks}</p>"
    )


def _marked(a: Attribution, live: tuple[LiveRegisters, ...]) -> range | None:
    """Registers that have a column of marks; None where they would be too many."""
    used = [max(at.live | at.writes | at.reads, default=-1) for at in (live[cost.index] for cost in a.instructions)]
    registers = range(max(used, default=-1) + 1)
    return registers if 0 < len(registers) * len(used) <= MOST_MARKS else None


def _code(a: Attribution, program: Program, keys: dict[tuple[str, int], int]) -> str:
    hottest = max((cost.share for cost in a.instructions), default=0.0)
    chosen = list(a.instructions)
    left_out = ""
    if len(chosen) > MOST_INSTRUCTIONS:
        kept = {c.index for c in sorted(chosen, key=lambda c: -c.share)[:MOST_INSTRUCTIONS] if c.issues}
        left_out = f'<p class="note">{len(chosen) - len(kept):,} of {len(chosen):,} instructions, the cheapest, are left out.</p>'
        chosen = [c for c in chosen if c.index in kept]
    live = live_registers(program)
    registers = _marked(a, live) if live is not None else None
    rows = [
        _code_row(cost, a, program, keys, (live[cost.index] if live is not None else None, registers), hottest)
        for cost in chosen
    ]
    code = "SASS" if program.control_bits else "PTX" if live is None else "machine code"
    marks = "" if live is None else '<th scope="col" class="num">live</th>'
    if registers is not None:
        marks += f'<th scope="col" class="marks">live ranges of R0 to R{registers[-1]}</th>'
    return scroll(
        "Machine code",
        '<table><thead><tr><th scope="col" class="num">at</th><th scope="col" class="num">time</th>'
        f'<th scope="col">{code}</th><th scope="col">waits for</th><th scope="col" class="num">issues</th>'
        '<th scope="col" class="num">stalled</th>'
        f"{marks}</tr></thead><tbody>{''.join(rows)}</tbody></table>{left_out}",
    )


def _code_row(
    cost: InstructionCost,
    a: Attribution,
    program: Program,
    keys: dict[tuple[str, int], int],
    live: tuple[LiveRegisters | None, range | None],
    hottest: float,
) -> str:
    here, registers = live
    line = f' data-line="{keys[cost.line]}"' if cost.line is not None else ""
    place = f' title="{escape(_short(cost.line[0]))}:{cost.line[1]}"' if cost.line is not None else ""
    cold = "" if cost.issues else ' class="cold"'
    marks = ""
    if here is not None:
        marks = f'<td class="num" data-name="live {cost.address:#x}" data-value="{here.held}">{_count(here.held)}</td>'
        if registers is not None:
            marks += f'<td class="marks">{"".join(here.mark(n) for n in registers).rstrip()}</td>'
    return (
        f'<tr{line}{cold}{_heat(cost.share, hottest)}{place}><td class="num quiet code">{cost.address:04x}</td>'
        f'<td class="num">{_share(cost.share)}</td>'
        f'<td class="code">{coloured(cost.text, program.instructions[cost.index], program)}</td>'
        f'<td class="why">{escape(_why(cost, a))}</td>'
        f'<td class="num" data-name="issues {cost.address:#x}" data-value="{cost.issues}">{_count(cost.issues)}</td>'
        f'<td class="num" data-name="stalls {cost.address:#x}" data-value="{cost.stall_cycles}">{_count(cost.stall_cycles)}</td>'
        f"{marks}</tr>"
    )

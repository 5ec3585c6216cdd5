"""What a stopped launch shows: the place and focus, and the ``info`` commands of cuda-gdb."""

from __future__ import annotations

import re
from collections.abc import Callable

from warpwright.toolchain.demangle import plain_name
from warpwright.tools.debugger.debugger import Debugger
from warpwright.tools.debugger.execution import DebuggedExecution
from warpwright.tools.debugger.expressions import evaluate, number_of
from warpwright.tools.debugger.forms import CommandError, register_row, shown, table
from warpwright.tools.debugger.kept_settings import Kept
from warpwright.tools.debugger.places import Line, Place, instruction_text, last_line, line_of, own_lines, text_of
from warpwright.tools.debugger.threads import Focus, LaneGroup, Thread, lane_groups


class Inspection:
    """Looks at a launch while it is stopped."""

    def __init__(self, debugger: Debugger, state: Kept) -> None:
        self.debugger = debugger
        self.state = state
        self._listed = 0
        """The line after those that list has shown last."""

    @property
    def execution(self) -> DebuggedExecution:
        """The launch that has stopped."""
        if self.debugger.current is None:
            raise CommandError("no kernel is running (run starts the program)")
        return self.debugger.current

    def thread(self) -> Thread:
        return self.execution.thread()

    def focus_text(self) -> str:
        """``kernel 0 saxpy, block (1,0,0), thread (3,0,0), warp 0, lane 3``."""
        execution, focus = self.execution, self.execution.focus
        thread = self.thread().thread_index
        block = ",".join(map(str, execution.block_index(focus.block)))
        name = plain_name(execution.context.program.name)
        return (
            f"kernel {execution.number} {name}, block ({block}), thread ({thread.x},{thread.y},{thread.z}), "
            f"warp {focus.warp}, lane {focus.lane}"
        )

    def place_text(self) -> str:
        """Source line and instruction of the focus thread."""
        program, index = self.execution.context.program, self.thread().index
        if index is None:
            return "the thread has exited"
        line = line_of(program, index)
        address = program.instructions[index].address
        machine = f"=> {address:#06x}  {instruction_text(program, index)}"
        return f"{line}\n{line.number}\t{text_of(program, line)}\n{machine}" if line is not None else machine

    def do_where(self, rest: str) -> str:
        return f"#0  {self.focus_text()}\n{self.place_text()}"

    # --- code -----------------------------------------------------------------------------------------
    def _instructions(self, address: int, count: int) -> str:
        kernel = self.execution.kernel
        first = kernel.index_of.get(address)
        if first is None:
            raise CommandError(f"there is no instruction at {address:#x}")
        return "\n".join(self._machine(n) for n in range(first, min(first + count, len(kernel.addresses))))

    def _machine(self, index: int) -> str:
        program = self.execution.context.program
        mark = "=>" if index == self.thread().index else "  "
        line = line_of(program, index)
        where = f"  ; {line.file.rsplit('/', 1)[-1]}:{line.number}" if line is not None else ""
        return f"{mark} {program.instructions[index].address:#06x}  {instruction_text(program, index)}{where}"

    def do_disassemble(self, rest: str) -> str:
        return "\n".join(self._machine(n) for n in range(len(self.execution.kernel.addresses)))

    def do_list(self, rest: str) -> str:
        program, index = self.execution.context.program, self.thread().index
        here = line_of(program, index) if index is not None else None
        if here is None:
            raise CommandError("there is no source: the kernel was compiled without line information (-lineinfo)")
        file, first, last = self._to_list(rest, here)
        most = last_line(program, file)
        first = max(1, min(first, most))
        last = max(first, min(last if last else first + self.state.list_lines - 1, most))
        self._listed = last + 1
        rows = (Line(file, n) for n in range(first, last + 1))
        return "\n".join(f"{'>' if row == here else ' '}{row.number}\t{text_of(program, row)}" for row in rows)

    def _to_list(self, rest: str, here: Line) -> tuple[str, int, int]:
        """File, first and last line (0: as many as usual) that ``list`` shows."""
        before = self.state.list_lines // 2
        if not rest:
            return here.file, self._listed or here.number - before, 0
        ends = re.fullmatch(r"(\d+)\s*,\s*(\d+)?", rest)
        if ends is not None:
            return here.file, int(ends[1]), int(ends[2] or 0)
        place, kernel = Place.parse(rest, here.file), self.execution.kernel
        wanted = place.instructions(kernel)
        line = Line(here.file, place.line) if place.line else line_of(kernel.program, wanted[0]) if wanted else None
        if line is None:
            raise CommandError(
                f"{rest} is not in kernel {plain_name(kernel.program.name)}: list LINE, FIRST,LAST or a kernel's name"
            )
        return line.file, line.number - before, 0

    # --- info ------------------------------------------------------------------------------------------
    def do_info(self, rest: str) -> str:
        words = rest.split()
        if words[:1] == ["cuda"]:
            words = ["cuda_" + (words[1] if len(words) > 1 else "kernels"), *words[2:]]
        names = [n[5:] for n in dir(self) if n.startswith("info_")]
        fitting = [n for n in names if words and n.startswith(words[0])]
        if not words or not fitting:
            raise CommandError(f"info {', '.join(n.replace('_', ' ') for n in names)}")
        method: Callable[[list[str]], str] = getattr(self, "info_" + fitting[0])
        return method(words[1:])

    def info_breakpoints(self, words: list[str]) -> str:
        table_ = self.debugger.breakpoints
        rows = [
            (b.number, "breakpoint", "del" if b.temporary else "keep", b.enabled, b.text, b.hits)
            for b in table_.breakpoints
        ]
        rows += [(w.number, "watchpoint", "keep", w.enabled, w.text, w.hits) for w in table_.watchpoints]
        if not rows:
            return "no breakpoints or watchpoints"
        shown_ = [
            (number, kind, disposition, "y" if on else "n", what, hits)
            for number, kind, disposition, on, what, hits in rows
        ]
        return table(("Num", "Type", "Disp", "Enb", "What", "Hits"), sorted(shown_))

    def info_display(self, words: list[str]) -> str:
        rows = [(n, "/" + form if form else "", text) for n, (form, text) in self.state.displays.items()]
        return (
            table(("Num", "Format", "Expression"), rows)
            if rows
            else "no expressions are displayed (display EXPRESSION)"
        )

    def info_frame(self, words: list[str]) -> str:
        return self.place_text()

    def info_program(self, words: list[str]) -> str:
        e = self.execution
        return f"{self.focus_text()}\nstopped after {e.launch.clock:,} warp instructions of the launch"

    def info_source(self, words: list[str]) -> str:
        program, index = self.execution.context.program, self.thread().index
        here = line_of(program, index) if index is not None else None
        if here is None:
            raise CommandError("there is no source: the kernel was compiled without line information (-lineinfo)")
        return f"{here.file}\nkernel {plain_name(program.name)} has {own_lines(program)}"

    def info_threads(self, words: list[str]) -> str:
        return "threads of the host program are not debugged; warps of the focus block:\n" + self.info_cuda_warps(words)

    def info_registers(self, words: list[str]) -> str:
        thread = self.thread()
        known = thread.registers()
        names = [w.lstrip("$") for w in words] or list(known)
        rows = []
        for name in names:
            value = known.get(name)
            if value is None:
                value = int(number_of(evaluate("$" + name, thread)))
            rows.append(register_row(name, value))
        return table(("Name", "Hex", "Integer", "Float"), rows)

    def info_args(self, words: list[str]) -> str:
        rows = self.thread().parameters().items()
        return "\n".join(f"{name} = {shown(value)}" for name, value in rows) or "the kernel has no parameters"

    def info_line(self, words: list[str]) -> str:
        return self.place_text()

    def info_locals(self, words: list[str]) -> str:
        raise CommandError(
            "machine code names no local variables: they are in registers (info registers) or parameters (info args)"
        )

    def info_cuda_kernels(self, words: list[str]) -> str:
        e = self.execution
        g = e.context.geometry
        row = (
            f"* {e.number}",
            plain_name(e.context.program.name),
            g.grid,
            g.block,
            f"{e.blocks_done:,} of {g.blocks:,}",
        )
        return table(("Kernel", "Name", "Grid", "Block", "Blocks done"), [row])

    def info_cuda_blocks(self, words: list[str]) -> str:
        e = self.execution
        rows = [
            (
                ("* " if run.block.linear_index == e.focus.block else "  ") + ",".join(map(str, run.block.index)),
                sum(not w.exited.all() for w in run.block.warps),
            )
            for run in e.resident
        ]
        more = f"\n{e.blocks_done:,} of {e.context.geometry.blocks:,} blocks have ended; blocks join when those that run wait"
        return table(("Block", "Running warps"), rows) + more

    def info_cuda_warps(self, words: list[str]) -> str:
        thread = self.thread()
        rows = []
        for warp in thread.block.warps:
            mark = "* " if warp.warp_in_block == thread.focus.warp else "  "
            groups = lane_groups(warp)
            rows += [(mark + str(warp.warp_in_block), *self._group_row(g)) for g in groups]
            if not groups:
                rows.append((mark + str(warp.warp_in_block), "exited", "", "", ""))
        return table(("Warp", "State", "Lanes", "PC", "Line"), rows)

    def _group_row(self, group: LaneGroup) -> tuple[str, str, str, str]:
        program = self.execution.context.program
        line = line_of(program, group.index)
        return group.state, f"{group.mask:#010x}", f"{program.instructions[group.index].address:#06x}", str(line or "")

    def info_cuda_lanes(self, words: list[str]) -> str:
        thread = self.thread()
        groups = lane_groups(thread.warp)
        rows = []
        for lane in range(thread.warp.lanes):
            group = next((g for g in groups if g.mask >> lane & 1), None)
            state, _, pc, line = self._group_row(group) if group is not None else ("exited", "", "", "")
            at = Thread(self.execution, Focus(thread.focus.block, thread.focus.warp, lane)).thread_index
            mark = "* " if lane == thread.lane else "  "
            rows.append((f"{mark}{lane}", state, f"({at.x},{at.y},{at.z})", pc, line))
        return table(("Lane", "State", "Thread", "PC", "Line"), rows)

    info_cuda_threads = info_cuda_lanes

    def info_cuda_devices(self, words: list[str]) -> str:
        program = self.execution.context.program
        return table(("Dev", "Architecture", "Lanes per warp"), [("* 0", program.architecture, program.lanes)])

    def info_cuda_sms(self, words: list[str]) -> str:
        raise CommandError("launches that are debugged have no SMs: blocks run one after the other (info cuda blocks)")

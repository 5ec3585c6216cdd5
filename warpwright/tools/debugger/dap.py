"""The debugger for editors: a server of the Debug Adapter Protocol.

A warp of a resident block is a thread of the protocol, with one frame.  While a launch has stopped, requests are answered by the thread
that launches; otherwise by the one that reads.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from warpwright.toolchain.demangle import plain_name
from warpwright.tools.debugger.breakpoints import Breakpoint
from warpwright.tools.debugger.commands import Commands
from warpwright.tools.debugger.debugger import Debugger
from warpwright.tools.debugger.execution import DebuggedExecution, Stop
from warpwright.tools.debugger.expressions import ExpressionError, Pointer, evaluate
from warpwright.tools.debugger.forms import CommandError, shown
from warpwright.tools.debugger.goals import Command
from warpwright.tools.debugger.kept_settings import Kept, leave
from warpwright.tools.debugger.places import Line, Place, PlaceError, instruction_text, line_of
from warpwright.tools.debugger.threads import Focus, lane_groups, watched_place

Message = dict[str, Any]
Readable = BinaryIO | RawIOBase
HOST_THREAD = 1
"""Number of the host program's thread."""
FIRST_THREAD = 2
WARPS = 64
"""Numbers of threads that a block has."""
SCOPES = ("Thread", "Parameters", "Registers")
CAPABILITIES = {
    f"supports{name}": True
    for name in (
        *("ConfigurationDoneRequest", "FunctionBreakpoints", "ConditionalBreakpoints", "StepBack", "EvaluateForHovers"),
        *("DataBreakpoints", "ReadMemoryRequest", "DisassembleRequest", "SteppingGranularity", "TerminateRequest"),
        *("HitConditionalBreakpoints", "SetVariable", "SetExpression", "CompletionsRequest"),
    )
}
REASONS = {"launch": "entry", "watchpoint": "data breakpoint", "end": "step", "start": "step"}


def read_message(stream: Readable) -> Message | None:
    """The next message; None at the end."""
    length = 0
    while True:
        line = stream.readline()
        if not line:
            return None
        line = line.strip()
        if not line:
            break
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    data = b""
    while len(data) < length and (more := stream.read(length - len(data))):
        data += more
    if len(data) < length:
        return None
    message: Message = json.loads(data)
    return message


def write_message(stream: BinaryIO, message: Message) -> None:
    """Write a message with its header."""
    data = json.dumps(message).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
    stream.flush()


def waiting(port: int) -> str:
    """What a person who starts the editor reads."""
    return f"waiting for an editor at 127.0.0.1:{port} (Debug Adapter Protocol)"


def accept(port: int, listening: Callable[[], None]) -> socket.socket:
    """Wait for an editor at a port of this machine.

    Args:
        listening: called once editors can connect.

    Raises:
        OSError: the port is in use or reserved.
    """
    with socket.create_server(("127.0.0.1", port)) as server:
        listening()
        return server.accept()[0]


class Server:
    """A front end that an editor drives.

    Args:
        keep: file with the state that outlives the program's process; without one the program cannot start again.
    """

    def __init__(self, keep: Path | None = None) -> None:
        self._keep = keep
        self.state = Kept.load(keep) if keep is not None else Kept(stops_at_launch=False)
        self.debugger = Debugger(self, self.state)
        self.commands = Commands(self.debugger)
        self._lock = threading.RLock()
        self._requests: queue.Queue[Message] = queue.Queue()
        self._stopped = False
        self._killing = False
        self._sequence = 0
        self._configured = threading.Event()
        self._of_source = self.state.by_source
        self._placed: set[int] = set()
        """Numbers of the breakpoints that a kernel so far had code for."""
        self._files: set[str] = set()
        """Source files of these kernels."""
        self._out: BinaryIO | None = None

    # --- connection ----------------------------------------------------------------------------------------
    def listen(self, port: int) -> None:
        """Wait for an editor at a port of this machine, and until it has set its breakpoints."""
        self.connect(accept(port, lambda: print(waiting(port), file=sys.stderr, flush=True)))

    def connect(self, connection: socket.socket) -> None:
        """Serve the editor at the other end of a connection; returns when it is configured."""
        # Nothing is read beyond a message: what follows a restart is the next process's.
        self.attach(connection.makefile("rb", buffering=0), connection.makefile("wb"))

    def attach(self, read: Readable, write: BinaryIO) -> None:
        """Serve an editor over two streams; returns when it is configured."""
        self._out = write
        if self.state.configured:
            self._configured.set()
        threading.Thread(target=self._read, args=(read,), daemon=True).start()
        self._configured.wait()

    def _read(self, stream: Readable) -> None:
        while (message := read_message(stream)) is not None:
            with self._lock:
                if self._stopped:
                    self._requests.put(message)
                else:
                    self._answer(message)
            if message.get("command") == "restart" and self._keep is not None:
                return
        self._kill()

    def _kill(self) -> None:
        """The editor has gone, or ends the program."""
        self._configured.set()
        self._killing = True
        self.debugger.pause()
        with self._lock:
            if self._stopped:
                self._requests.put({"command": "terminate", "seq": 0})

    def _send(self, message: Message) -> None:
        with self._lock:
            self._sequence += 1
            if self._out is not None:
                try:
                    write_message(self._out, {"seq": self._sequence, **message})
                except (OSError, ValueError):
                    self._out = None

    def event(self, name: str, **body: Any) -> None:
        """Send an event."""
        self._send({"type": "event", "event": name, "body": body})

    def _answer(self, message: Message) -> Command | None:
        """Answer a request; what the launch does next, if the request says so."""
        command = message.get("command", "")
        handler: Callable[[Message], Any] | None = getattr(self, "on_" + command, None)
        reply: Message = {"type": "response", "request_seq": message.get("seq", 0), "command": command, "success": True}
        found: Any = None
        try:
            if handler is None:
                raise CommandError(f"the request {command!r} is not supported")
            found = handler(message.get("arguments") or {})
        except (CommandError, ExpressionError, PlaceError) as error:
            reply |= {"success": False, "message": str(error)}
        next_ = found if isinstance(found, Command) else None
        if isinstance(found, dict):
            reply["body"] = found
        self._send(reply)
        if command == "initialize":
            self.event("initialized")
        if next_ is not None and next_.word == "run":
            assert self._keep is not None
            self.state.start_again(self.state.stops_at_launch)
            self.state.save(self._keep)
            leave()
        return next_

    # --- what the debugger asks ------------------------------------------------------------------------------
    def launched(self, execution: DebuggedExecution) -> None:
        """Breakpoints that are in this kernel become verified."""
        program = execution.context.program
        self._files |= {line.file for n in range(len(program.instructions)) if (line := line_of(program, n))}
        for breakpoints in self._of_source.values():
            for one in breakpoints:
                line = one.place.nearest(program)
                if line is not None:
                    self._placed.add(one.number)
                    self.event(
                        "breakpoint",
                        reason="changed",
                        breakpoint={"id": one.number, "verified": True, "line": line.number},
                    )

    def stopped(self, execution: DebuggedExecution, stop: Stop) -> Command:
        """Answers requests until one resumes."""
        if self._killing:
            return Command("kill")
        with self._lock:
            self._stopped = True
        text = stop.text or self.commands.focus_text()
        self.event(
            "stopped",
            reason=REASONS.get(stop.reason, stop.reason),
            description=text.splitlines()[0],
            text=text,
            threadId=self._number(execution.focus),
            allThreadsStopped=True,
            hitBreakpointIds=list(stop.numbers),
        )
        while True:
            command = self._answer(self._requests.get())
            if command is not None:
                with self._lock:
                    self._stopped = False
                    while not self._requests.empty():
                        self._answer(self._requests.get())
                return command

    def ended(self, execution: DebuggedExecution) -> None:
        """Nothing is sent: the program goes on."""

    def finished(self, code: int = 0) -> None:
        """The program has ended; breakpoints that no kernel had code for are named."""
        for path, breakpoints in self._of_source.items():
            for one in breakpoints:
                if path and one.number not in self._placed:
                    self.event("output", category="console", output=self._never_reached(one))
        self.event("exited", exitCode=code)
        self.event("terminated")

    def _never_reached(self, one: Breakpoint) -> str:
        """Why a breakpoint at a line stopped nothing."""
        kernels = f"the kernels that ran are from {', '.join(sorted(self._files))}" if self._files else "no kernel ran"
        return f"breakpoint {one.place.file}:{one.place.line}: no kernel had code for this line; {kernels}\n"

    # --- requests: beginning and end -------------------------------------------------------------------------
    def on_initialize(self, a: Message) -> Message:
        return {**CAPABILITIES, "supportsRestartRequest": self._keep is not None, "exceptionBreakpointFilters": []}

    def on_launch(self, a: Message) -> None:
        self.state.stops_at_launch = self.debugger.stops_at_launches = bool(a.get("stopOnEntry"))

    def on_restart(self, a: Message) -> Command:
        if self._keep is None:
            raise CommandError(
                "a program that is not a Python file cannot be restarted here: end it, and start a new session"
            )
        self.on_launch(a["arguments"]) if a.get("arguments") else None
        return Command("run")

    on_attach = on_launch

    def on_configurationDone(self, a: Message) -> None:
        self.state.configured = True
        self._configured.set()

    def on_disconnect(self, a: Message) -> Command | None:
        self._killing = True
        self._configured.set()
        self.debugger.pause()
        return Command("kill") if self._stopped else None

    on_terminate = on_disconnect

    # --- breakpoints -------------------------------------------------------------------------------------------
    def on_setBreakpoints(self, a: Message) -> Message:
        path = a["source"].get("path") or a["source"].get("name", "")
        for one in self._of_source.pop(path, []):
            self.debugger.breakpoints.delete(one.number)
        made = []
        for wanted in a.get("breakpoints", []):
            place = Place(f"{path}:{wanted['line']}", file=path, line=int(wanted["line"]))
            made.append(self._added(place, wanted))
        self._of_source[path] = made
        return {"breakpoints": [self._described(one) for one in made]}

    def _added(self, place: Place, wanted: Message) -> Breakpoint:
        """A breakpoint with its condition; the hit condition ``5`` stops at the fifth hit and those after it."""
        made = self.debugger.breakpoints.add(place, wanted.get("condition") or "")
        hits = str(wanted.get("hitCondition") or "").lstrip("=>< ")
        made.from_hit = int(hits) if hits.isdigit() else 0
        return made

    def _described(self, one: Breakpoint) -> Message:
        current = self.debugger.current
        line = one.place.nearest(current.context.program) if current is not None and not one.place.kernel else None
        if line is not None:
            return {"id": one.number, "verified": True, "line": line.number}
        return {
            "id": one.number,
            "verified": bool(one.place.kernel),
            "message": "no kernel with this line has been launched yet",
        }

    def on_setFunctionBreakpoints(self, a: Message) -> Message:
        for one in self._of_source.pop("", []):
            self.debugger.breakpoints.delete(one.number)
        wanted = a.get("breakpoints", [])
        made = [self._added(Place.parse(w["name"]), w) for w in wanted]
        self._of_source[""] = made
        return {"breakpoints": [self._described(one) for one in made]}

    def on_setExceptionBreakpoints(self, a: Message) -> Message:
        return {"breakpoints": []}

    def on_dataBreakpointInfo(self, a: Message) -> Message:
        name = a["name"]
        watched_place(name, self._execution.thread())
        return {"dataId": name, "description": name, "accessTypes": ["write"], "canPersist": False}

    def on_setDataBreakpoints(self, a: Message) -> Message:
        for one in list(self.debugger.breakpoints.watchpoints):
            self.debugger.breakpoints.delete(one.number)
        found: list[Message] = []
        for wanted in a.get("breakpoints", []):
            try:
                number = int(self.commands.do_watch(wanted["dataId"]).split()[1].rstrip(":"))
                found.append({"id": number, "verified": True})
            except (CommandError, ExpressionError) as error:
                found.append({"verified": False, "message": str(error)})
        return {"breakpoints": found}

    # --- threads and values ------------------------------------------------------------------------------------
    @property
    def _execution(self) -> DebuggedExecution:
        if not self._stopped:
            raise CommandError("the program is running")
        return self.commands.execution

    @staticmethod
    def _number(focus: Focus) -> int:
        return FIRST_THREAD + focus.block * WARPS + focus.warp

    def _focus(self, number: int) -> Focus:
        execution = self._execution
        block, warp = divmod(number - FIRST_THREAD, WARPS)
        own = execution.focus
        if (own.block, own.warp) == (block, warp):
            return own
        groups = lane_groups(execution.thread(Focus(block, warp, 0)).warp)
        mask = groups[0].mask if groups else 1
        return Focus(block, warp, (mask & -mask).bit_length() - 1)

    def on_threads(self, a: Message) -> Message:
        if not self._stopped:
            return {"threads": [{"id": HOST_THREAD, "name": "host program"}]}
        execution = self._execution
        rows = []
        for run in execution.resident:
            for warp in run.block.warps:
                if not warp.exited.all():
                    focus = Focus(run.block.linear_index, warp.warp_in_block, 0)
                    rows.append(
                        {"id": self._number(focus), "name": f"block {run.block.index}, warp {warp.warp_in_block}"}
                    )
        return {"threads": rows}

    def on_stackTrace(self, a: Message) -> Message:
        if a["threadId"] == HOST_THREAD:
            return {"stackFrames": [], "totalFrames": 0}
        execution = self._execution
        index = execution.thread(self._focus(a["threadId"])).index
        program = execution.context.program
        frame: Message = {"id": a["threadId"], "name": plain_name(program.name), "line": 0, "column": 0}
        if index is not None:
            line = line_of(program, index)
            frame["instructionPointerReference"] = hex(program.instructions[index].address)
            if line is not None:
                frame |= {"line": line.number, "column": 1, "source": _source(line)}
        return {"stackFrames": [frame], "totalFrames": 1}

    def on_scopes(self, a: Message) -> Message:
        first = a["frameId"] * len(SCOPES)
        return {
            "scopes": [
                {"name": name, "variablesReference": first + n, "expensive": False} for n, name in enumerate(SCOPES)
            ]
        }

    def on_variables(self, a: Message) -> Message:
        number, scope = divmod(a["variablesReference"], len(SCOPES))
        execution = self._execution
        thread = execution.thread(self._focus(number))
        if SCOPES[scope] == "Thread":
            names = ("blockIdx", "threadIdx", "blockDim", "gridDim", "$warp", "$lane")
            rows = {name: shown(evaluate(name, thread)) for name in names}
            if thread.index is not None:
                rows["$pc"] = f"{evaluate('$pc', thread):#x}"
        elif SCOPES[scope] == "Parameters":
            rows = {name: shown(value) for name, value in thread.parameters().items()}
        else:
            rows = {name: f"{value:#x}" for name, value in thread.registers().items()}
        return {"variables": [{"name": name, "value": text, "variablesReference": 0} for name, text in rows.items()]}

    def on_evaluate(self, a: Message) -> Message:
        execution = self._execution
        if "frameId" in a:
            execution.focus = self._focus(a["frameId"])
        text = a["expression"]
        if a.get("context") == "repl":
            try:
                found = self.commands.carry_out(text)
            except CommandError:
                found = shown(evaluate(text, execution.thread()))
            if isinstance(found, Command):
                raise CommandError("use the editor's buttons to resume")
            return {"result": found, "variablesReference": 0}
        value = evaluate(text, execution.thread())
        more = {"memoryReference": hex(value.address)} if isinstance(value, Pointer) else {}
        return {"result": shown(value), "variablesReference": 0, **more}

    def on_setVariable(self, a: Message) -> Message:
        number, scope = divmod(a["variablesReference"], len(SCOPES))
        if SCOPES[scope] != "Registers":
            raise CommandError(f"{a['name']} cannot be set: only registers and values in memory")
        self._execution.focus = self._focus(number)
        self.commands.set_variable(f"${a['name']} = {a['value']}")
        return {"value": f"{self._execution.thread().registers()[a['name']]:#x}"}

    def on_setExpression(self, a: Message) -> Message:
        if "frameId" in a:
            self._execution.focus = self._focus(a["frameId"])
        self.commands.set_variable(f"{a['expression']} = {a['value']}")
        return {"value": shown(self.commands.value_of(a["expression"]))}

    def on_completions(self, a: Message) -> Message:
        text = a["text"][: a["column"] - 1]
        fitting = [n for n in self.commands.names() if " " not in text and n.startswith(text)]
        return {"targets": [{"label": name} for name in fitting]}

    def on_readMemory(self, a: Message) -> Message:
        address = int(a["memoryReference"], 0) + int(a.get("offset", 0))
        data = self._execution.thread().bytes_at(Pointer(address, "unsigned char"), int(a["count"]))
        return {"address": hex(address), "data": base64.b64encode(data).decode()}

    def on_disassemble(self, a: Message) -> Message:
        execution = self._execution
        program = execution.context.program
        at = int(a["memoryReference"], 0) + int(a.get("offset", 0))
        first = execution.kernel.index_of.get(at, 0) + int(a.get("instructionOffset", 0))
        rows = []
        for index in range(first, first + int(a["instructionCount"])):
            if not 0 <= index < len(program.instructions):
                rows.append({"address": hex(max(0, 16 * index)), "instruction": "", "presentationHint": "invalid"})
                continue
            row: Message = {
                "address": hex(program.instructions[index].address),
                "instruction": instruction_text(program, index),
            }
            line = line_of(program, index)
            if line is not None:
                row |= {"line": line.number, "location": _source(line)}
            rows.append(row)
        return {"instructions": rows}

    # --- resuming ------------------------------------------------------------------------------------------------
    def _command(self, a: Message, word: str, reverse: bool = False) -> Command:
        execution = self._execution
        if reverse and execution.checkpoints.hindrance:
            raise CommandError(f"cannot go back: {execution.checkpoints.hindrance}")
        if a.get("threadId", 0) >= FIRST_THREAD:
            execution.focus = self._focus(a["threadId"])
        word = "stepi" if a.get("granularity") == "instruction" and word != "continue" else word
        return Command(word, reverse, execution.focus)

    def on_continue(self, a: Message) -> Command:
        return self._command(a, "continue")

    def on_next(self, a: Message) -> Command:
        return self._command(a, "next")

    def on_stepIn(self, a: Message) -> Command:
        return self._command(a, "step")

    def on_stepOut(self, a: Message) -> Command:
        return self._command(a, "finish")

    def on_stepBack(self, a: Message) -> Command:
        return self._command(a, "next", True)

    def on_reverseContinue(self, a: Message) -> Command:
        return self._command(a, "continue", True)

    def on_pause(self, a: Message) -> None:
        if not self._stopped:
            self.debugger.pause()


def _source(line: Line) -> Message:
    return {"name": os.path.basename(line.file), "path": os.path.abspath(line.file)}

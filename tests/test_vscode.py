"""The extension for VS Code: what it declares, and sessions driven as VS Code does, with the real debugger at the other end."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from warpwright.cli import app
from warpwright.version import __version__

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")
PROGRAM = '''\
import numpy as np
import warpwright as ww

SOURCE = """
extern "C" __global__ void twice(float *x)
{
    float value = x[threadIdx.x];
    x[threadIdx.x] = value * 2;
}
"""
x = np.arange(32, dtype=np.float32)
ww.GPU("a100").compile(SOURCE)["twice"][1, 32](x)
print("result", x[3], flush=True)
'''
LINE = PROGRAM.splitlines().index("    x[threadIdx.x] = value * 2;") + 1


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "editors" / "vscode"


class Session:
    """A session of the extension; requests wait for their response, events are kept in order."""

    def __init__(self, folder: Path, configuration: dict[str, Any]) -> None:
        assert NODE is not None
        command = [NODE, str(Path(__file__).with_name("vscode_session.js")), str(folder), json.dumps(configuration)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.sequence = 0
        self.events: list[dict[str, Any]] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _next(self) -> dict[str, Any]:
        line = self._lines.get(timeout=120)
        assert line is not None, "the session ended"
        message: dict[str, Any] = json.loads(line)
        if message["type"] == "event":
            self.events.append(message)
        return message

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The whole response."""
        assert self.process.stdin is not None
        self.sequence += 1
        message = {"seq": self.sequence, "type": "request", "command": command, "arguments": arguments}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while True:
            found = self._next()
            if found["type"] == "response" and found["request_seq"] == self.sequence:
                return found

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        found = self.request(command, **arguments)
        assert found["success"], found
        return found.get("body") or {}

    def event(self, name: str) -> dict[str, Any]:
        while True:
            for found in self.events:
                if found["event"] == name:
                    self.events.remove(found)
                    return found.get("body") or {}
            self._next()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def launched(folder: Path, **configuration: Any) -> Iterator[Session]:
    root = str(folder.parent.parent)
    more = {"env": {"PYTHONPATH": root}, "warpwright": [sys.executable, "-m", "warpwright"]}
    made = Session(folder, {"type": "warpwright", "request": "launch", "name": "test", **more, **configuration})
    yield made
    made.close()


@pytest.fixture
def session(folder: Path, program: Path) -> Iterator[Session]:
    yield from launched(folder, program=str(program))


def test_the_manifest_declares_the_debugger(folder: Path) -> None:
    manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    assert manifest["version"] == __version__
    assert (folder / manifest["main"]).is_file()
    (debugger,) = manifest["contributes"]["debuggers"]
    assert debugger["type"] == "warpwright"
    assert f"onDebugResolve:{debugger['type']}" in manifest["activationEvents"]
    attributes = debugger["configurationAttributes"]
    for snippet in (*debugger["initialConfigurations"], *(s["body"] for s in debugger["configurationSnippets"])):
        allowed = attributes[snippet["request"]]
        assert set(snippet) <= {"type", "request", "name", *allowed["properties"]}
        assert set(allowed["required"]) <= set(snippet)
    assert {"python", "cuda-cpp"} <= {b["language"] for b in manifest["contributes"]["breakpoints"]}


@needs_node
def test_a_session_stops_at_a_breakpoint_and_steps_back(session: Session, program: Path) -> None:
    assert session.ask("initialize", adapterID="warpwright")["supportsStepBack"]
    session.event("initialized")
    session.ask("launch", program=str(program))
    session.ask("setBreakpoints", source={"path": str(program)}, breakpoints=[{"line": LINE}])
    session.ask("setExceptionBreakpoints", filters=[])
    session.ask("configurationDone")
    stop = session.event("stopped")
    assert stop["reason"] == "breakpoint"
    thread = stop["threadId"]
    frame = session.ask("stackTrace", threadId=thread)["stackFrames"][0]
    assert (frame["name"], frame["line"], frame["source"]["path"]) == ("twice", LINE, str(program))
    assert session.ask("evaluate", expression="x[3]", frameId=frame["id"], context="watch")["result"] == "3"
    session.ask("stepBack", threadId=thread)
    assert session.event("stopped")["reason"] == "step"
    assert session.ask("stackTrace", threadId=thread)["stackFrames"][0]["line"] < LINE
    session.ask("setBreakpoints", source={"path": str(program)}, breakpoints=[])
    session.ask("continue", threadId=thread)
    assert session.event("exited")["exitCode"] == 0
    session.event("terminated")
    # What the program printed was shown before the end.
    shown = "".join(
        e["body"]["output"] for e in session.events if e["event"] == "output" and e["body"]["category"] == "stdout"
    )
    assert shown == "result 6.0\n"


@pytest.mark.ci
@needs_node
def test_a_stop_ends_the_program(session: Session) -> None:
    session.ask("initialize", adapterID="warpwright")
    session.ask("launch", stopOnEntry=True)
    session.ask("configurationDone")
    assert session.event("stopped")["reason"] == "entry"
    session.ask("disconnect", terminateDebuggee=True)
    session.event("terminated")
    assert "result" not in json.dumps(session.events)


@needs_node
@pytest.mark.ci
def test_a_breakpoint_that_no_kernel_has_code_for_is_named_at_the_end(session: Session, program: Path) -> None:
    program.write_text(PROGRAM.replace("compile(SOURCE)", 'compile(SOURCE, name="twice.cu")'), encoding="utf-8")
    session.ask("initialize", adapterID="warpwright")
    session.ask("launch", program=str(program))
    session.ask("setBreakpoints", source={"path": str(program)}, breakpoints=[{"line": LINE}])
    session.ask("configurationDone")
    assert session.event("exited")["exitCode"] == 0
    shown = "".join(e["body"]["output"] for e in session.events if e["event"] == "output")
    assert f"{program}:{LINE}: no kernel had code for this line; the kernels that ran are from twice.cu\n" in shown


@needs_node
def test_a_command_that_cannot_start_is_named(folder: Path, program: Path) -> None:
    for session in launched(folder, program=str(program), warpwright=["/no/such/warpwright"]):
        answer = session.request("initialize", adapterID="warpwright")
        assert not answer["success"]
        assert "cannot start /no/such/warpwright" in answer["message"]
        session.event("terminated")


@needs_node
def test_a_program_that_ends_before_any_launch_ends_the_session(folder: Path, tmp_path: Path) -> None:
    for session in launched(folder, program=str(tmp_path / "missing.py")):
        assert not session.request("initialize", adapterID="warpwright")["success"]
        assert session.event("exited")["exitCode"] == 2
        assert "missing.py" in "".join(e["body"]["output"] for e in session.events if e["event"] == "output")


@pytest.mark.ci
def test_a_port_in_use_is_refused(program: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = CliRunner().invoke(app, ["debug", "--dap", str(port), str(program)])
    assert refused.exit_code == 2
    assert refused.stderr == f"--dap {port}: Address already in use; choose another port\n"


@pytest.mark.ci
@needs_node
def test_attach(folder: Path, program: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = {"type": "warpwright", "request": "attach", "name": "test", "port": port}
    early = Session(folder, configuration)
    assert f"nothing waits at port {port}" in early.request("initialize")["message"]
    early.close()
    environment = {**os.environ, "PYTHONPATH": str(folder.parent.parent)}
    process = subprocess.Popen(
        [sys.executable, "-m", "warpwright", "debug", "--dap", str(port), str(program)],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "waiting for an editor" in process.stderr.readline()
        session = Session(folder, configuration)
        assert session.request("initialize")["success"]
        session.ask("attach", port=port, stopOnEntry=True)
        session.ask("configurationDone")
        session.event("stopped")
        session.ask("disconnect")
        session.event("terminated")
        session.close()
    finally:
        process.kill()
        process.wait(20)


NUMBA = """
import numpy as np
from numba import cuda

@cuda.jit(lineinfo=True)
def twice(x):
    i = cuda.grid(1)
    x[i] = x[i] * 2

d = cuda.to_device(np.arange(64, dtype=np.float32))
twice[2, 32](d)
print("result", d.copy_to_host()[3], flush=True)
"""


@needs_node
@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="the driver of unmodified programs is for Linux")
def test_a_numba_script_stops_at_its_own_line(folder: Path, tmp_path: Path) -> None:
    """An unmodified program: the session connects when it first uses the GPU."""
    pytest.importorskip("numba.cuda")
    script = tmp_path / "script.py"
    script.write_text(NUMBA, encoding="utf-8")
    line = NUMBA.splitlines().index("    x[i] = x[i] * 2") + 1
    for session in launched(folder, program=sys.executable, args=[str(script)], gpu="a100"):
        session.ask("initialize", adapterID="warpwright")
        session.ask("launch")
        session.ask("setBreakpoints", source={"path": str(script)}, breakpoints=[{"line": line}])
        session.ask("configurationDone")
        thread = session.event("stopped")["threadId"]
        frame = session.ask("stackTrace", threadId=thread)["stackFrames"][0]
        assert (frame["line"], frame["source"]["path"]) == (line, str(script))
        session.ask("setBreakpoints", source={"path": str(script)}, breakpoints=[])
        session.ask("continue", threadId=thread)
        assert session.event("exited")["exitCode"] == 0
        outputs = [e["body"] for e in session.events if e["event"] == "output"]
        # A stream without a buffer writes word by word.
        assert "".join(o["output"] for o in outputs if o["category"] == "stdout") == "result 6.0\n"

"""The debugger: breakpoints, steps, values, watchpoints, and the way back; by script, on the command line and for editors."""

from __future__ import annotations

import json
import os
import pickle
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.interpreter.gather_scatter import GlobalSpace, Space
from warpwright.tools.debugger import checkpoints
from warpwright.tools.debugger.expressions import ExpressionError, Pointer, evaluate
from warpwright.tools.debugger.scripted import DebugError

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = a * x[i];
    __syncthreads();
    if (i < n)
        y[i] = tile[threadIdx.x ^ 1] + y[i];
}

extern "C" __global__ void sums(int n, const int *x, int *out)
{
    int sum = 0;
#pragma unroll 1
    for (int k = threadIdx.x; k < n; k += 32) {
        if (x[k] & 1)
            sum += x[k];
        else
            sum -= 1;
    }
    atomicAdd(out, sum);
}

extern "C" __global__ void beyond(int *x)
{
    x[threadIdx.x * 4096] = 7;
}

extern "C" __global__ void waits(int *flag)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        while (atomicAdd(flag, 0) == 0)
            ;
}
"""


def _line(text: str) -> int:
    """The line of this file that has a piece of the kernels' text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


@pytest.fixture(scope="module")
def module() -> ww.Module:
    return ww.GPU("a100", timing="off").compile(SOURCE)


def _saxpy(module: ww.Module) -> tuple[ww.DebugSession, np.ndarray[Any, Any]]:
    x, y = np.arange(128, dtype=np.float32), np.ones(128, np.float32)
    return ww.debug(module["saxpy"][2, 64], 128, 2.0, x, y), y


def test_first_stop_is_before_the_first_instruction(module: ww.Module) -> None:
    session, y = _saxpy(module)
    with session:
        assert session.stop is not None
        assert session.stop.reason == "launch"
        assert session.address == 0
        assert session.instructions == 0
        assert session.resume() is None
    assert y[:4].tolist() == [3, 1, 7, 5]


def test_condition_chooses_the_thread(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        session.break_at(f"{Path(__file__).name}:{_line('y[i] = tile')}", "blockIdx.x == 1 && threadIdx.x == 37")
        stop = session.resume()
        assert stop is not None
        assert stop.reason == "breakpoint"
        assert stop.numbers == (1,)
        assert str(session.evaluate("threadIdx")) == "{x = 37, y = 0, z = 0}"
        assert session.evaluate("blockIdx.x * blockDim.x + threadIdx.x") == 101
        assert session.evaluate("x[101]") == 101.0
        assert session.evaluate("*(@shared float *)(4 * 36)") == 200.0
        assert session.memory(int(session.evaluate("y").address), 3).tolist() == [3, 1, 7]  # type: ignore[union-attr]
        assert session.line == (__file__, _line("y[i] = tile"))


def test_steps_and_the_way_back_agree(module: ww.Module) -> None:
    """Every state on the way forward is met again on the way back."""
    session, y = _saxpy(module)
    with session:
        seen = []
        for _ in range(12):
            seen.append((session.instructions, session.address, session.registers))
            session.step_instruction()
        for before in reversed(seen):
            stop = session.step_instruction_back()
            assert stop is not None
            assert (session.instructions, session.address, session.registers) == before
        assert session.step_instruction_back().reason == "start"  # type: ignore[union-attr]
        session.resume()
    assert y[:4].tolist() == [3, 1, 7, 5]


def test_lines_forward_and_back(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        lines = []
        for _ in range(5):
            lines.append(session.line)
            session.step()
        assert len(set(lines)) > 2
        at = session.instructions
        for line in reversed(lines):
            session.step_back()
            assert session.line == line
            assert session.instructions < at
            at = session.instructions


def test_watchpoint_names_the_write_and_is_found_backwards(module: ww.Module) -> None:
    session, y = _saxpy(module)
    with session:
        session.watch("y[70]")
        stop = session.resume()
        assert stop is not None
        assert stop.reason == "watchpoint"
        assert stop.text.startswith("y[70]: 1.0 -> 143.0, written at")
        assert stop.text.endswith(str(_line("y[i] = tile")))
        assert session.evaluate("y[70]") == 143.0
        session.finish()
        stop = session.reverse_resume()
        assert stop is not None
        assert stop.reason == "watchpoint"
        assert session.evaluate("y[70]") == 1.0, "the way back ends before the write"
        assert session.evaluate("y[70 - 64]") == 15.0, "block 0 has ended before"
        session.execute("delete")
        session.resume()
    assert y[70] == 143


def test_watch_of_shared_memory(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        session.watch("*(@shared float *) 12")
        stop = session.resume()
        assert stop is not None
        assert "0.0 -> 6.0" in stop.text
        assert str(_line("tile[threadIdx.x] = a")) in stop.text


def test_fault_stops_before_the_access(module: ww.Module) -> None:
    session = ww.debug(module["beyond"][1, 32], np.zeros(64, np.int32))
    stop = session.resume()
    assert stop is not None
    assert stop.reason == "exception"
    assert "past its end" in stop.text
    assert session.line == (__file__, _line("x[threadIdx.x * 4096] = 7"))
    assert session.step_instruction_back() is not None
    assert session.resume() is not None
    with pytest.raises(ww.MemoryFaultError, match="past its end"):
        session.resume()


def test_divergent_lanes_are_shown(module: ww.Module) -> None:
    x = np.arange(64, dtype=np.int32)
    with ww.debug(module["sums"][1, 32], 64, x, np.zeros(1, np.int32)) as session:
        session.break_at(str(_line("atomicAdd(out, sum)")))
        session.execute(f"tbreak {Path(__file__).name}:{_line('sum += x[k]')}")
        session.resume()
        warps = session.execute("info cuda warps")
        assert "active" in warps
        lanes = session.execute("info cuda lanes").splitlines()
        assert (len(lanes) == 33 and lanes[1].startswith("* 0")) or lanes[2].startswith("* 1")


@pytest.mark.ci
def test_a_launch_with_loops_comes_back_to_the_same_place(module: ww.Module) -> None:
    """Turns of warps are as long, whether the launch is stopped in the middle or not."""
    x, out = np.arange(40_000, dtype=np.int32), np.zeros(1, np.int32)
    with ww.debug(module["sums"][2, 32], len(x), x, out) as session:
        session.step_instruction(3000)
        at, registers = session.instructions, session.registers
        for _ in range(3):
            session.step_instruction(10)
        session.step_instruction_back(30)
        assert (session.instructions, session.registers) == (at, registers)
        session.resume()
    assert out[0] == 2 * (x[x % 2 == 1].sum() - len(x) // 2)


def test_pause_stops_a_spinning_launch(module: ww.Module) -> None:
    with ww.debug(module["waits"][1, 64], np.zeros(1, np.int32)) as session:
        timer = threading.Timer(0.3, session.debugger.pause)
        timer.start()
        stop = session.resume()
        assert stop is not None
        assert stop.reason == "pause"
        assert "barrier" in session.execute("info cuda warps")


def test_commands_that_cannot_be_carried_out_say_why(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        for command, words in {
            "frobnicate": "there is no command",
            "print i": "local variables",
            "print $R300": "no register",
            "print y[1000000]": "no memory is allocated",
            "cuda block 7": "no block",
            "cuda thread a": "cuda thread X",
            "print": "needs an expression",
            "cuda block 1": "not resident",
            "watch $R4": "have an address",
            "break a b c/": "not a place",
            "x/4w @shared 4096": "shared memory",
            "info locals": "no local variables",
            "step seven": "count",
            "delete 9": "no breakpoint 9",
            "print 1 +": "ends too early",
            "print (1": "missing",
            "print 1 / 0": "division by zero",
        }.items():
            with pytest.raises(DebugError, match=words):
                session.execute(command)


def test_checkpoints_on_the_way_hold_no_global_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken while warps run, as in sessions that last; a step back goes on from one of them."""
    monkeypatch.setattr(checkpoints, "INTERVAL_SECONDS", 0.0)
    copied = []
    monkeypatch.setattr(
        GlobalSpace, "_look_at", lambda self, whole: copied.append(len(whole)) or Space._look_at(self, whole)
    )
    y = np.ones(128, np.float32)
    kernel = ww.GPU("a100").compile(SOURCE)["saxpy"]
    with ww.debug(kernel[2, 64], 128, 2.0, np.arange(128, dtype=np.float32), y) as session:
        session.break_at("9", "blockIdx.x == 1 && threadIdx.x == 3")
        session.resume()
        places = [session.instructions]
        registers = [session.registers]
        for _ in range(4):
            session.step_instruction()
            places.append(session.instructions)
            registers.append(session.registers)
        held = session.debugger.current
        assert held is not None
        assert len(held.checkpoints.clocks()) > 2
        for n in reversed(range(4)):
            session.step_instruction_back()
            assert session.instructions == places[n]
            assert session.registers == registers[n]
        assert len(copied) == 1  # the launch's own
        session.execute("delete")
        session.resume()
    np.testing.assert_array_equal(y, np.arange(128, dtype=np.float32).reshape(-1, 2)[:, ::-1].reshape(-1) * 2 + 1)


def test_what_does_not_launch_cannot_be_debugged() -> None:
    with pytest.raises(TypeError, match="takes a launcher, a function or a run"):
        ww.debug(3)  # type: ignore[arg-type]


def test_a_finished_run_is_launched_again_on_copies() -> None:
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile(SOURCE)["saxpy"]
    x = gpu.array(np.arange(128, dtype=np.float32))
    y = np.ones(128, np.float32)
    run = kernel[2, 64](128, 2.0, x, y)
    after = y.copy()
    launches = len(gpu.launches)
    with ww.debug(run) as session:
        assert session.stop is not None
        assert session.stop.reason == "launch"
        session.watch("y[3]")
        session.resume()
        # The launch sees what the array holds now: the results of the first launch.
        assert session.evaluate("y[3]") == after[3] + 2 * 2
        session.resume()
    np.testing.assert_array_equal(y, after)
    np.testing.assert_array_equal(x.numpy(), np.arange(128))
    assert len(gpu.launches) == launches


def test_device_arrays_are_put_back_after_a_repeated_run() -> None:
    gpu = ww.GPU("a100", timing="off")
    x, y = gpu.array(np.arange(128, dtype=np.float32)), gpu.array(np.ones(128, np.float32))
    run = gpu.compile(SOURCE)["saxpy"][2, 64](128, 2.0, x, y)
    after = y.numpy().copy()
    with ww.debug(run) as session:
        session.finish()
        assert session.evaluate("y[3]") != after[3]
    np.testing.assert_array_equal(y.numpy(), after)


def test_runs_that_cannot_be_repeated() -> None:
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile(SOURCE)["saxpy"]
    run = kernel[2, 64](128, 2.0, np.zeros(128, np.float32), np.zeros(128, np.float32))
    with pytest.raises(ww.LaunchError, match="no longer has its argument x") as refused:
        ww.debug(run)
    assert str(refused.value).endswith("Keep the array in a variable")
    sent = pickle.loads(pickle.dumps(run.repeat))
    assert sent is None
    run.repeat = sent
    with pytest.raises(TypeError, match="cannot be repeated"):
        ww.debug(run)


class _Names:
    def name(self, name: str) -> Any:
        return {"a": 5, "$R2.64": 1 << 40, "p": Pointer(64, "int"), "f": 1.5}.get(name)

    def load(self, pointer: Pointer) -> int:
        return pointer.address


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * -3", -9),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 / 2.0", 3.5),
        ("1 << 4 | 3 & 2", 18),
        ("a == 5 && !(a > 6) || 0", 1),
        ("~0 & 0xff", 255),
        ("p[3]", 76),
        ("*(p + 1)", 68),
        ("(unsigned char) 257", 1),
        ("(int) 1.9", 1),
        ("$R2.64 >> 40", 1),
        ("*(float *) 16 == 16", 1),
    ],
)
def test_expressions(text: str, value: float) -> None:
    assert evaluate(text, _Names()) == value


@pytest.mark.parametrize("text", ["", "1 2", "a +", "(a", "a.x", "*a", "b", "a ? 1 : 2", "@odd"])
def test_wrong_expressions_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, _Names())


PROGRAM = f'''
import numpy as np
import warpwright as ww
SOURCE = """{SOURCE}"""
y = np.ones(128, np.float32)
ww.GPU("a100").compile(SOURCE)["saxpy"][2, 64](128, 2.0, np.arange(128, dtype=np.float32), y)
print("result", y[3])
'''


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(ww.__file__).parents[1])}


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "warpwright", "debug", *words]


HANDLED = "a100, fx5600, g80, g80-ultra, g92, h200, p100, v100"


@pytest.mark.parametrize(
    ("chip", "what"),
    [
        ("gtx480", "(sm_20) runs PTX that stands for machine code"),
        ("hd5870", "(evergreen) runs machine code without source lines"),
        ("hd6970", "(cayman) runs machine code without source lines"),
    ],
)
@pytest.mark.ci
def test_chips_that_the_debugger_does_not_handle_are_refused(chip: str, what: str) -> None:
    kernel = ww.GPU(chip, timing="off").compile('extern "C" __global__ void one(int *x) { *x = 1; }')["one"]
    x = np.zeros(1, np.int32)
    with pytest.raises(ww.UnsupportedError) as caught:
        ww.debug(kernel[1, 32], x)
    assert str(caught.value) == (
        f"the debugger cannot stop in kernel one: its chip {what}; choose one of {HANDLED} (--gpu, or ww.GPU)"
    )
    kernel[1, 32](x)
    assert x[0] == 1


def test_a_breakpoint_outside_of_the_kernel_names_the_kernels_lines(module: ww.Module) -> None:
    with ww.debug(module["sums"][1, 32], 1, np.ones(1, np.int32), np.zeros(1, np.int32)) as session:
        told = session.execute("break 9999")
        lines = r"lines 3\d to 4\d of test_debugger\.py"
        assert re.fullmatch(
            rf"Breakpoint 1 at 9999 \(not in kernel sums, which has {lines}; of kernels to come\)", told
        )
        assert session.execute("break saxpy") == "Breakpoint 2 at saxpy (not in kernel sums; of kernels to come)"


@pytest.mark.ci
def test_debugs_machine_code_of_g80() -> None:
    kernel = ww.GPU("g80", timing="off").compile('extern "C" __global__ void one(int *x) {\n*x = 1;\n}', name="one.cu")
    with ww.debug(kernel["one"][1, 32], np.zeros(1, np.int32)) as session:
        session.execute("break 2")
        stop = session.resume()
        assert stop is not None
        assert stop.reason == "breakpoint"
        assert "one.cu:2" in session.execute("where")


@pytest.mark.ci
def test_command_line_refuses_a_chip_without_a_traceback() -> None:
    program = Path(__file__).parents[1] / "examples" / "saxpy.py"
    ended = subprocess.run(
        _command("--gpu", "gtx480", str(program)), input="", capture_output=True, text=True, env=_environment()
    )
    said = " ".join(ended.stderr.split())
    assert ended.returncode != 0
    assert "Traceback" not in said
    assert "the debugger cannot stop in kernel saxpy: its chip (sm_20) runs PTX" in said


@pytest.mark.ci
def test_command_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    typed = [
        "break saxpy if blockIdx.x == 1",
        "continue",
        "cuda thread 3",
        "info registers R1",
        "rc",
        "list",
        "delete",
        "finish",
        "c",
    ]
    ended = subprocess.run(
        _command(str(program)),
        input="\n".join(typed) + "\n",
        capture_output=True,
        text=True,
        env=_environment(),
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    for words in (
        "Launch",
        "Breakpoint 1",
        "block (1,0,0), thread (3,0,0)",
        "nothing is before it",
        "last instruction",
        "result 5.0",
    ):
        assert words in ended.stdout, ended.stdout
    quits = subprocess.run(
        _command("--ex", "quit", str(program)), capture_output=True, text=True, env=_environment(), timeout=120
    )
    assert quits.returncode == 0
    assert "result" not in quits.stdout
    assert quits.stderr == ""
    in_a_child = subprocess.run(
        _command("--ex", "quit", sys.executable, str(program)),
        capture_output=True,
        text=True,
        env=_environment(),
        timeout=120,
    )
    assert "(warpwright) quit" in in_a_child.stdout
    assert in_a_child.stderr == ""


class _Editor:
    """A client of the Debug Adapter Protocol."""

    def __init__(self, port: int) -> None:
        for _ in range(300):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                time.sleep(0.1)
        self.stream = self.socket.makefile("rwb")
        self.sequence = 0
        self.events: list[dict[str, Any]] = []

    def receive(self) -> dict[str, Any]:
        length = 0
        while line := self.stream.readline().strip():
            length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(self.stream.read(length))
        if message["type"] == "event":
            self.events.append(message)
        return message

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        self.sequence += 1
        data = json.dumps(
            {"seq": self.sequence, "type": "request", "command": command, "arguments": arguments}
        ).encode()
        self.stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.stream.flush()
        while True:
            message = self.receive()
            if message["type"] == "response":
                assert message["success"], message
                return message.get("body") or {}

    def event(self, name: str) -> dict[str, Any]:
        while True:
            found = [e for e in self.events if e["event"] == name]
            if found:
                self.events.remove(found[0])
                return found[0].get("body") or {}
            self.receive()


def test_editor(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    line = PROGRAM.splitlines().index("        y[i] = tile[threadIdx.x ^ 1] + y[i];") + 1
    process = subprocess.Popen(
        _command("--dap", str(port), str(program)), env=_environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        editor = _Editor(port)
        assert editor.ask("initialize", adapterID="warpwright")["supportsStepBack"]
        editor.event("initialized")
        editor.ask("launch")
        set_ = editor.ask(
            "setBreakpoints",
            source={"path": str(program)},
            breakpoints=[{"line": line, "condition": "threadIdx.x == 3"}],
        )
        assert not set_["breakpoints"][0]["verified"]
        editor.ask("configurationDone")
        assert editor.event("breakpoint")["breakpoint"] == {"id": 1, "verified": True, "line": line}
        stop = editor.event("stopped")
        assert stop["reason"] == "breakpoint"
        assert stop["hitBreakpointIds"] == [1]
        thread = stop["threadId"]
        assert {"id": thread, "name": "block (0, 0, 0), warp 0"} in editor.ask("threads")["threads"]
        frame = editor.ask("stackTrace", threadId=thread)["stackFrames"][0]
        assert (frame["line"], frame["source"]["path"], frame["name"]) == (line, str(program), "saxpy")
        scopes = {s["name"]: s["variablesReference"] for s in editor.ask("scopes", frameId=frame["id"])["scopes"]}
        shown = {
            name: {v["name"]: v["value"] for v in editor.ask("variables", variablesReference=n)["variables"]}
            for name, n in scopes.items()
        }
        assert shown["Thread"]["threadIdx"] == "{x = 3, y = 0, z = 0}"
        assert shown["Thread"]["$pc"] == frame["instructionPointerReference"]
        assert shown["Parameters"]["n"] == "128"
        assert "R0" in shown["Registers"]
        pointer = editor.ask("evaluate", expression="x", frameId=frame["id"], context="watch")["memoryReference"]
        assert editor.ask("readMemory", memoryReference=pointer, offset=4, count=4)["data"] == "AACAPw=="
        assert "active" in editor.ask("evaluate", expression="info cuda warps", context="repl")["result"]
        assert (
            editor.ask("disassemble", memoryReference=frame["instructionPointerReference"], instructionCount=2)[
                "instructions"
            ][0]["line"]
            == line
        )
        editor.ask("stepBack", threadId=thread)
        assert editor.event("stopped")["reason"] == "step"
        assert editor.ask("stackTrace", threadId=thread)["stackFrames"][0]["line"] < line
        editor.ask("setBreakpoints", source={"path": str(program)}, breakpoints=[])
        editor.ask("continue", threadId=thread)
        assert editor.event("exited")["exitCode"] == 0
        assert process.communicate(timeout=60)[0].strip() == "result 5.0"
    finally:
        process.kill()

"""What a user of cuda-gdb types first: run and start, conditions, displays, arrays, assignments; an editor's restart."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.test_debugger import PROGRAM, SOURCE, _command, _Editor, _environment, _saxpy
from warpwright.tools.debugger.console import Console
from warpwright.tools.debugger.forms import CommandError
from warpwright.tools.debugger.scripted import DebugError

NAME = "kernel.cu"


def _line(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.splitlines(), 1) if text in line)


WRITE = _line("y[i] = tile")


@pytest.fixture(scope="module")
def module() -> ww.Module:
    return ww.GPU("a100", timing="off").compile(SOURCE)


def test_a_condition_is_set_changed_and_removed(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        session.execute("break saxpy")
        session.execute("condition 1 blockIdx.x == 1")
        session.resume()
        assert str(session.evaluate("blockIdx")) == "{x = 1, y = 0, z = 0}"
        assert session.execute("info b").splitlines()[1].split() == [
            "1",
            "breakpoint",
            "keep",
            "y",
            "saxpy",
            "if",
            "blockIdx.x",
            "==",
            "1",
            "1",
        ]
        assert session.execute("condition 1") == "Breakpoint 1 now always stops."
        session.resume()
        assert session.evaluate("threadIdx.x") == 32
        for wrong, words in {
            "condition": "takes a breakpoint's number",
            "condition 1 (": "ends too early",
            "condition 7 1": "no breakpoint 7",
        }.items():
            with pytest.raises(DebugError, match=words):
                session.execute(wrong)


def test_arrays_history_and_types(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        assert session.execute("print x[3]@4") == "$1 = {3, 4, 5, 6}"
        assert session.execute("print *x@3") == "$2 = {0, 1, 2}"
        assert session.execute("print n + 1") == "$3 = 129"
        assert session.execute("print $3 * 2") == "$4 = 258"
        assert session.execute("print/c 65") == "$5 = 65 'A'"
        assert session.execute("set var $k = 5") == ""
        assert session.execute("output x[$k]") == "5"
        assert [session.execute(f"whatis {e}") for e in ("x", "x[1]", "n", "threadIdx")] == [
            "type = float *",
            "type = float",
            "type = long",
            "type = uint3",
        ]
        with pytest.raises(DebugError, match="from 1 to 200 elements"):
            session.execute("print x[0]@5000")


def test_displays_show_at_every_stop(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        assert session.execute("display y[0]") == "1: y[0] = 1"
        session.execute("display/x n")
        assert session.execute("finish").splitlines()[-2:] == ["1: y[0] = 3", "2: n = 0x00000080"]
        session.execute("undisplay 1")
        assert session.execute("info display").splitlines()[1:] == ["2    /x      n"]
        assert "y[0]" not in session.execute("rsi")


def test_values_are_set_and_the_launch_goes_on_with_them(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        session.execute(f"break {NAME}:{WRITE} if threadIdx.x == 3 && blockIdx.x == 0")
        session.resume()
        session.execute("set var y[3] = 100")
        session.execute("print *(@shared float *) 8 = 0.5")
        assert session.execute("print *(@shared float *) 8") == "$2 = 0.5"
        session.execute("set var $R0 = 0x11")
        assert session.evaluate("$R0") == 0x11
        stop = session.step_instruction_back()
        assert stop is not None
        assert (stop.reason, stop.text) == ("start", "a value was set here; the launch cannot go back past that")
        session.execute("delete")
        for wrong, words in {
            "set var $RZ = 1": "cannot be set",
            "set var n = 3": "have an address",
            "set var 3": "takes PLACE = VALUE",
            "set frobnication on": "set var PLACE",
        }.items():
            with pytest.raises(DebugError, match=words):
                session.execute(wrong)


def test_a_set_value_reaches_the_result(module: ww.Module) -> None:
    session, y = _saxpy(module)
    with session:
        session.execute("set var y[3] = 100")
        session.resume()
    assert y[3] == 100 + 4


def test_until_and_advance(module: ww.Module) -> None:
    x, out = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    loop, after = _line("for (int k = threadIdx"), _line("atomicAdd(out, sum)")
    with ww.debug(module["sums"][1, 32], len(x), x, out) as session:
        session.execute(f"advance {NAME}:{_line('if (x[k] & 1)')}")
        assert session.line == (session.line[0], _line("if (x[k] & 1)")) if session.line else False
        lines = []
        while (line := session.line) is not None and line[1] != after:
            lines.append(line[1])
            session.execute("until")
        assert lines == sorted(lines), "until never goes back in a loop"
        assert loop not in lines[1:]
        with pytest.raises(DebugError, match="is not in this kernel"):
            session.execute("advance 5000")


def test_what_gdb_has_and_a_launch_has_not_is_explained(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        for command, words in {
            "rwatch x[0]": "reads cannot be watched",
            "up": "one frame",
            "info cuda sms": "have no SMs",
            "run": "restart",
            "clear 9999": "no breakpoint at",
            "set cuda break_on_launch maybe": "takes all, application or none",
            "help nothing": "no help on",
        }.items():
            with pytest.raises(DebugError, match=words):
                session.execute(command)
        assert session.execute("set pagination off") == ""
        assert "warps of the focus block" in session.execute("info threads")
        assert "kernel saxpy has lines" in session.execute("info source")
        assert "watch EXPRESSION" in session.execute("help watch")
        assert session.execute("list 3,4").splitlines()[0].split("\t")[0].strip() == "3"


def test_continue_lets_hits_go_by(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        session.execute("break saxpy")
        session.resume()
        session.execute("continue 2")
        assert (session.evaluate("blockIdx.x"), session.evaluate("threadIdx.x")) == (1, 32)


def test_a_session_restarts_with_its_breakpoints(module: ww.Module) -> None:
    session, _ = _saxpy(module)
    with session:
        session.watch("y[70]")
        session.break_at("saxpy", "blockIdx.x == 1")
        session.resume()
        stop = session.restart()
        assert stop is not None
        assert stop.reason == "launch"
        assert session.execute("info b").splitlines()[2].split()[-1] == "0", "hits are counted from the beginning"
        assert [session.resume().reason for _ in range(3)] == ["breakpoint", "breakpoint", "watchpoint"]  # type: ignore[union-attr]


def _typed(lines: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(*words), input=lines, capture_output=True, text=True, env=_environment(), timeout=240
    )


@pytest.mark.ci
def test_run_starts_the_program_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "import sys\nprint(sys.argv[1:])\n")
    typed = """\
break saxpy if blockIdx.x == 1
commands
silent
print blockIdx
end
run one two
info breakpoints
continue
delete
continue
info registers
start
kill
run
quit
"""
    ended = _typed(typed, str(program), "zero")
    assert ended.returncode == 0, ended.stderr
    out = ended.stdout
    assert out.count("Launch\n") == 2, "at the beginning and after start"
    assert out.count("$1 = {x = 1, y = 0, z = 0}") == 1
    assert "1    breakpoint  keep  y    saxpy if blockIdx.x == 1  1" in out
    assert out.count("['one', 'two']") == 2, "arguments stay until others are given"
    assert "no kernel is running (run starts the program)" in out
    assert out.count("[the program has ended; run restarts it]") == 3
    assert ended.stderr == ""


@pytest.mark.ci
def test_run_starts_another_command_again(tmp_path: Path) -> None:
    """The program is a process that the command line started."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = _typed("tbreak 9\nrun\nset var y[3] = 50\ncontinue\nrun\nquit\n", sys.executable, str(program))
    assert ended.returncode == 0, ended.stderr
    assert "result 5.0" in ended.stdout
    assert ended.stdout.count("[the program has ended; run restarts it]") == 2


@pytest.mark.ci
def test_exit_code_of_the_program_is_the_debuggers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "raise SystemExit(5)\n")
    ended = _typed("continue\n", str(program))
    assert "[the program has ended with exit code 5; run restarts it]" in ended.stdout
    assert ended.returncode == 5


@pytest.mark.ci
def test_an_editor_restarts_the_program(tmp_path: Path) -> None:
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
        able = editor.ask("initialize", adapterID="warpwright")
        assert able["supportsRestartRequest"]
        assert able["supportsSetVariable"]
        editor.event("initialized")
        editor.ask("launch")
        source = {"path": str(program)}
        editor.ask("setBreakpoints", source=source, breakpoints=[{"line": line, "hitCondition": "2"}])
        editor.ask("configurationDone")
        first = editor.event("stopped")
        frame = editor.ask("stackTrace", threadId=first["threadId"])["stackFrames"][0]
        registers = editor.ask("scopes", frameId=frame["id"])["scopes"][2]["variablesReference"]
        assert editor.ask("setVariable", variablesReference=registers, name="R4", value="17")["value"] == "0x11"
        assert editor.ask("setExpression", frameId=frame["id"], expression="y[3]", value="9")["value"] == "9"
        assert {"label": "condition"} in editor.ask("completions", text="cond", column=5)["targets"]
        editor.ask("restart")
        again = editor.event("stopped")
        assert (again["reason"], again["threadId"]) == (first["reason"], first["threadId"])
        frame = editor.ask("stackTrace", threadId=again["threadId"])["stackFrames"][0]
        assert editor.ask("evaluate", expression="y[3]", frameId=frame["id"])["result"] == "5", (
            "memory is new: 1 + 2 * 2"
        )
        editor.ask("setBreakpoints", source=source, breakpoints=[])
        editor.ask("continue", threadId=again["threadId"])
        assert editor.event("exited")["exitCode"] == 0
        assert process.communicate(timeout=60)[0].strip() == "result 5.0"
    finally:
        process.kill()


def test_every_name_that_tab_completes_is_a_command() -> None:
    """With no launch, a command is carried out or refused for another reason than its name."""
    commands = Console().commands
    for name in commands.names():
        if name not in ("shell", "commands"):
            try:
                said = commands.carry_out(name)
            except CommandError as error:
                said = str(error)
            assert "there is no command" not in str(said)

"""The debugger in a process that ``warpwright debug`` started: a program that is not a Python file."""

from __future__ import annotations

import json
import os

from warpwright.session import session

VARIABLE = "WARPWRIGHT_DEBUG"


def setting(commands: list[str], batch: bool, port: int | None) -> str:
    """The value of the variable that makes a process a debugged one."""
    return json.dumps({"commands": commands, "batch": batch, "port": port})


def obey() -> None:
    """Debug the launches of this process, which are executed without time."""
    wanted = json.loads(os.environ[VARIABLE])
    if wanted["port"] is not None:
        from warpwright.tools.debugger.dap import Server

        server = Server()
        server.listen(wanted["port"])
        session.debugger = server.debugger
        return
    from warpwright.tools.debugger.console import Console

    session.debugger = Console(wanted["commands"], wanted["batch"]).debugger

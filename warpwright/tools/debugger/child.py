"""The debugger in a process that ``warpwright debug`` started: a program that is not a Python file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import TracebackType

from warpwright.errors import KilledError
from warpwright.session import session
from warpwright.tools.debugger.kept_settings import Kept, leave

VARIABLE = "WARPWRIGHT_DEBUG"


def setting(keep: Path, batch: bool, port: int | None) -> str:
    """The value of the variable that makes a process a debugged one."""
    return json.dumps({"keep": str(keep), "batch": batch, "port": port})


def _without_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error that ends the program, unless that was the debugger's command."""
    if not issubclass(kind, KilledError):
        sys.__excepthook__(kind, error, trace)


def obey() -> None:
    """Debug the launches of this process, which are executed without time."""
    sys.excepthook = _without_traceback
    wanted = json.loads(os.environ[VARIABLE])
    keep = Path(wanted["keep"])
    if Kept.load(keep).again:
        # Another process of the program has been told that the program starts again.
        leave()
    if wanted["port"] is not None:
        from warpwright.tools.debugger.dap import Server

        server = Server()
        server.listen(wanted["port"])
        session.debugger = server.debugger
        return
    from warpwright.tools.debugger.console import Console

    session.debugger = Console(batch=wanted["batch"], keep=keep).debugger

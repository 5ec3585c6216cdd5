"""The command line: collects the commands, each of which is a module of :mod:`warpwright.commands`.

Modules that are slow to import are imported by the command that needs them.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from warpwright.commands.campaign import campaign
from warpwright.commands.compare import compare
from warpwright.commands.debug import debug
from warpwright.commands.examples import shown
from warpwright.commands.list_chips import chips
from warpwright.commands.list_systems import system
from warpwright.commands.mig import mig
from warpwright.commands.output import INTERRUPTED, MISUSED
from warpwright.commands.program_arguments import PASS_ON, CompareCommand, ProgramCommand
from warpwright.commands.replay import replay
from warpwright.commands.report import report
from warpwright.commands.resume import resume
from warpwright.commands.run_program import run
from warpwright.commands.study import study
from warpwright.commands.sweep import sweep
from warpwright.environment import SettingError

HELP = "A GPU that anyone can run anywhere: CUDA kernels executed and timed, cycle by cycle, on a chosen chip."

app = typer.Typer(
    name="warpwright",
    help=HELP,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(context_settings=PASS_ON, cls=ProgramCommand, **shown("run"))(run)
app.command(**shown("replay"))(replay)
app.command(context_settings=PASS_ON, cls=ProgramCommand, **shown("debug"))(debug)
app.command(context_settings=PASS_ON, **shown("report"))(report)
app.command(context_settings=PASS_ON, cls=CompareCommand, **shown("compare"))(compare)
app.command(**shown("sweep"))(sweep)
app.command(**shown("campaign"))(campaign)
app.add_typer(mig)
app.command(**shown("resume"))(resume)
app.command(**shown("study"))(study)
app.command(**shown("chips"))(chips)
app.add_typer(system, name="system")


@app.command()
def version() -> None:
    """Print the version."""
    from warpwright.version import __version__

    typer.echo(f"warpwright {__version__}")


def _version_option(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback(help=HELP)
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version_option, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point; Ctrl-C and invalid variables of the environment end it without a traceback, with exit codes 130 and 2."""
    try:
        app(standalone_mode=True)
    except SettingError as error:
        print(error, file=sys.stderr)
        sys.exit(MISUSED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()

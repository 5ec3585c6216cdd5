"""One line about each command for ``warpwright --help``, and examples at the end of the command's own ``--help``."""

from __future__ import annotations

from typing import Any

SUMMARIES = {
    "run": "Run a program on a simulated GPU and print its launches.",
    "replay": "Render a recorded frame again, without its program.",
    "debug": "Stop kernels at source lines; step forwards and backwards.",
    "report": "Run a program and write a page that explains its cycles.",
    "compare": "Run a program on several chips and compare its launches.",
    "sweep": "Run all combinations of programs, chips and numbers.",
    "campaign": "Run a program many times with one flipped bit each.",
    "resume": "Resume a launch from a checkpoint.",
    "study": "Repeat a paper's measurements and compare the figures.",
    "chips": "List the chips, or every number of one with its source.",
}
"""Short enough for a terminal of 80 columns."""

EXAMPLES = {
    "run": (
        "run --gpu a100 examples/saxpy.py",
        "run --check all python -m pytest tests/gpu",
        "run --timing sampled --report page.html --csv launches.csv ./vector_add 1000000",
    ),
    "replay": ("replay scene.record --image scene.png",),
    "debug": (
        "debug --gpu a100 examples/saxpy.py",
        "debug --ex 'break 6' --ex continue --ex 'info registers' --batch examples/saxpy.py",
    ),
    "report": (
        "report --gpu a100 --output matmul.html examples/matmul.py",
        "report --gpu a100 --baseline before.json examples/matmul.py",
    ),
    "compare": (
        "compare v100 a100 h200 -- examples/matmul.py",
        "compare a100 mine.toml --report chips.html -- ./vector_add",
    ),
    "sweep": ("sweep cache.toml --workers 4", "sweep cache.toml --scheduler tcp://HOST:8786"),
    "campaign": ("campaign examples/saxpy.py --injections 500 --structures l2,registers --output flips",),
    "resume": ("resume launch.checkpoint --output arrays.npz",),
    "study": ("study sync-table5", "study sync-figure8 --report page.html"),
    "chips": ("chips", "chips a100", "chips mine.toml"),
}
"""The words after ``warpwright`` of each example, by command."""


def shown(command: str) -> dict[str, Any]:
    """What the help shows of a command, as arguments of ``app.command``."""
    return {"short_help": SUMMARIES[command], "epilog": examples(command)}


def examples(command: str) -> str:
    """The examples of a command, one per line, which the help's layout keeps."""
    return "\n".join(["\b", "Examples:", *(f"  warpwright {words}" for words in EXAMPLES[command])])

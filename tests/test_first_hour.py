"""What new users met in their first hour, sentence by sentence: the test that holds each, and those tests that are of no other module.

An author of kernels, a keeper of CI and an architect tried the package. ``HELD_BY`` has a row for each of their sentences.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from warpwright.cli import app
from warpwright.commands.examples import EXAMPLES
from warpwright.tools.checks.findings import Finding
from warpwright.tools.report.comparison import Comparison, Pair
from warpwright.version import __version__

HELD_BY = (
    # The advice is right on our own example.
    ("the limiter is what a re-timing shows to save most", "report_ranking", "reliefs_are_in_order_of_what_they_save"),
    ("known kernels have their known limit", "report_ranking", "the_limit_is_the_known_bound"),
    ("the headline gives the two best with their numbers", "report_ranking", "sentences"),
    (
        "the example's advice is that of its page",
        "doc_blocks",
        "the_advice_that_a_page_quotes_is_what_its_command_gives",
    ),
    (
        "the headline names idle SMs and what perfcheck knows",
        "report_ranking",
        "the_headline_names_sms_without_blocks_and_wasteful_accesses",
    ),
    ("launch size and tail are limits", "report_ranking", "a_last_wave_that_leaves_the_chip_empty"),
    # CI does not go silent.
    ("off a terminal: a line every few seconds", "time_limits", "a_log_has_a_line_every_few_seconds"),
    ("blocks done, rate and time left", "time_limits", "progress_has_blocks_rate_and_time_left"),
    ("--timeout for programs", "time_limits", "the_command_stops_a_program_with_exit_code_124"),
    ("a limit in the pytest plug-in", "time_limits", "pytest_fails_a_test_at_its_limit"),
    ("a time-out says at which lines the warps are", "time_limits", "a_time_limit_says_at_which_lines_the_warps_were"),
    ("an interruption says it as well", "first_hour", "an_interruption_says_at_which_lines_the_warps_were"),
    # Findings.
    ("causes first, one entry for one line", "findings_shown", "one_entry_for_each_defect_and_causes_first"),
    ("--check and cycles: checked, then timed", "findings_shown", "run_checks_and_then_times"),
    (
        "assertions about cycles hold under the checks; pytest shows the user's frames alone",
        "findings_shown",
        "pytest_shows_the_finding_and_the_users_frames_and_times_checked_launches",
    ),
    (
        "lines of a kernel in a Python string are the .py file's",
        "findings_shown",
        "lines_of_a_kernel_in_a_python_string_are_the_files",
    ),
    # Snippets.
    ("every block runs when it is pasted", "doc_blocks", "a_block_runs_when_it_is_pasted"),
    ("excerpts are in the code", "doc_blocks", "an_excerpt_is_in_the_code"),
    (
        "README's figures are those of its command",
        "doc_blocks",
        "the_table_that_readme_quotes_is_what_its_command_prints",
    ),
    ("README needs no file that is not there", "first_hour", "readme_needs_no_file_that_is_not_there"),
    # Results as data.
    ("run.to_dict()", "results_as_data", "a_row_has_plain_values"),
    ("one row a launch, metrics by Nsight Compute's names", "results_as_data", "files_hold_the_rows"),
    ("--json, --csv and --parquet", "results_as_data", "the_command_writes_files"),
    ("_repr_html_ of Run, GPU and Chip", "results_as_data", "notebooks_show_tables_with_names_escaped"),
    ("_repr_html_ of a comparison and of findings", "first_hour", "notebooks_show_comparisons_and_findings"),
    ("array indexing and slices to the host", "results_as_data", "a_device_array_is_indexed_as_numpys"),
    ("--version", "first_hour", "the_version_is_an_option_too"),
    ("-h, with examples", "first_hour", "help_ends_with_examples"),
    ("the examples are commands", "shown_objects", "the_examples_of_the_help_are_valid_commands"),
    ("completion for shells", "first_hour", "shells_complete_commands_and_options"),
)
"""Sentence, module, and the test without ``test_``."""


@pytest.mark.parametrize(("sentence", "module", "name"), HELD_BY, ids=[row[0] for row in HELD_BY])
def test_a_sentence_has_its_test(sentence: str, module: str, name: str) -> None:
    tree = ast.parse((Path(__file__).parent / f"test_{module}.py").read_text(encoding="utf-8"))
    assert f"test_{name}" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, sentence


def call(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_version_is_an_option_too() -> None:
    assert call("--version") == call("version") == f"warpwright {__version__}\n"


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_ends_with_examples(command: str) -> None:
    shown = call(command, "-h")
    assert shown == call(command, "--help")
    lines = shown[shown.index("Examples:\n") :].splitlines()[1:]
    assert [line.strip() for line in lines] == [f"warpwright {words}" for words in EXAMPLES[command]]


def test_every_command_that_takes_arguments_has_examples() -> None:
    group = get_command(app)
    named = {name for name, one in group.commands.items() if one.params and not hasattr(one, "commands")}  # type: ignore[attr-defined]
    assert named == set(EXAMPLES)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("warpwright co", {"compare"}),
        ("warpwright run --ch", {"--check", "--check-level", "--checkpoint", "--checkpoint-every"}),
    ],
)
def test_shells_complete_commands_and_options(words: str, offered: set[str]) -> None:
    environment = {
        **os.environ,
        "_WARPWRIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    program = "import sys; sys.argv = ['warpwright']; from warpwright.cli import app; app(prog_name='warpwright')"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == offered, done.stderr


def test_notebooks_show_comparisons_and_findings() -> None:
    row = {"kernel": "sum<float>", "seconds": 4e-6}
    pairs = (Pair(row, {**row, "seconds": 2e-6}, 0), Pair(None, row, 1), Pair(row, None, None))
    shown = Comparison("before.json", "now", pairs)._repr_html_()
    assert shown.count("<tr>") == 4
    for text in ("before.json and now", "sum&lt;float&gt;", ">4.00 µs<", ">2.00 µs<", ">2.00<", ">–<"):
        assert text in shown
    assert (
        Finding("memcheck", "error", "read of a<b>", (), (), 1)._repr_html_()
        == "<pre>========= read of a&lt;b&gt;</pre>"
    )


def test_readme_needs_no_file_that_is_not_there(repository: Path) -> None:
    """The paths of its links, commands and programs are in a checkout; placeholders are in capitals or belong to the user."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    linked = {target for target in re.findall(r"\]\(([^)#\s]+)[)#]", text) if "://" not in target}
    named = set(re.findall(r"(?<![\w/])(?:examples|docs|bench|tests|chips)/[\w./-]+\w", text))
    assert len(linked) > 10
    assert [path for path in sorted(linked | named) if not (repository / path).exists()] == []


ENDLESS = """
import os, signal, threading
import numpy as np
import warpwright as ww

SOURCE = '''
extern "C" __global__ void counts(volatile int *flag, int *out)
{
    int n = 0;
    while (*flag == 0) n++;  // here
    *out = n;
}
'''
kernel = ww.GPU("v100", timing="off").compile(SOURCE)["counts"]
kernel[1, 32](np.ones(1, np.int32), np.zeros(1, np.int32))
threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
kernel[1, 32](np.zeros(1, np.int32), np.zeros(1, np.int32))
"""


@pytest.mark.ci
@pytest.mark.usefixtures("interruptible")
def test_an_interruption_says_at_which_lines_the_warps_were(tmp_path: Path) -> None:
    program = tmp_path / "endless.py"
    program.write_text(ENDLESS)
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "v100", "--timing", "off", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 130, done.stdout + done.stderr
    line = ENDLESS[: ENDLESS.index("// here")].count("\n") + 1
    assert f"warp 0: lanes 0-31 run at {program}:{line}: " in done.stderr

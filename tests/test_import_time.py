"""Importing the public names: nothing is imported before, and Python's garbage collector rests meanwhile."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
import sys
runs = []
import warpwright
assert "warpwright.api" not in sys.modules and "numpy" not in sys.modules
gc.callbacks.append(lambda phase, info: runs.append(phase))
{before}
try:
    warpwright.{name}
finally:
    print(len(runs), gc.isenabled())
"""


def imported(name: str, before: str = "") -> str:
    """Number of the collector's runs during the import of a public name, and whether it is on afterwards."""
    program = PROGRAM.format(name=name, before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_the_collector_rests_while_a_public_name_is_imported() -> None:
    assert imported("GPU") == "0 True"


def test_a_collector_that_the_program_has_turned_off_stays_off() -> None:
    assert imported("GPU", "gc.disable()") == "0 False"


def test_the_collector_is_on_again_after_an_import_that_fails() -> None:
    assert imported("GPU", "sys.modules['warpwright.chips'] = None").endswith(" True")

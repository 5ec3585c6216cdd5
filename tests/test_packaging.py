"""What is published: the version is the same everywhere, and a wheel has every file that the package reads."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from warpwright.version import __version__


def test_citation_and_changelog_have_this_version(repository: Path) -> None:
    cited = re.search(r"^version: (\S+)$", (repository / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == __version__
    newest = re.search(r"^## (\S+)", (repository / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


@pytest.mark.slow
def test_a_wheel_has_all_files_of_the_package(repository: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(repository),
    ]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "warpwright"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert set(tracked.stdout.split()) <= packed

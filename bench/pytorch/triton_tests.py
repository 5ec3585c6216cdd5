"""Run a fixed random sample of the cases of Triton's ``test_core.py``, on a simulated device or on the machine's own.

    python -m bench.pytorch.triton_tests FILE [--gpu h200|card] [--cases 500] [--workers 1]
        [--limit SECONDS] [--json FILE] [--resume] [--again] [--passed-by FILE]

FILE is ``python/test/unit/language/test_core.py`` of Triton's sources of about the installed release (or another file of pytest's), with ``conftest.py`` above it.
The sample is a shuffle with a fixed seed, so a short one is the beginning of every longer one.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

from bench.pytorch.case_processes import ANSWER, CARD, Sample, chosen, option_parser, passed

SEED = 20261127
_CHILD = (
    ANSWER
    + r"""
import json, os, sys, time
import pytest

class Cases:
    # One session that runs the items that its input names, or lists them all.
    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.answer = ("fail", str(report.longrepr)[-900:])
        elif report.skipped and self.answer[0] == "pass":
            self.answer = ("skip", str(report.longrepr)[-200:])

    def pytest_runtestloop(self, session):
        items = {item.nodeid: item for item in session.items}
        if os.environ.get("TRITON_TESTS_LIST"):
            print("@@" + json.dumps(sorted(items)), flush=True)
            return True
        for line in sys.stdin:
            began, self.answer = time.process_time(), ("pass", "")
            item = items[" ".join(json.loads(line))]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            answer(*self.answer, began)
        return True

options = ["-c", os.devnull, "--rootdir", ".", "--confcutdir", "/", "-s", "-p", "no:cacheprovider", "-p", "no:terminal"]
sys.exit(pytest.main([*options, os.environ["TRITON_TESTS_FILE"]], plugins=[Cases()]))
"""
)


def cases(python: str, gpu: str) -> list[list[str]]:
    """Every case, in the sample's order."""
    simulated = [] if gpu == CARD else [python, "-m", "warpwright", "run", "--gpu", gpu, "--timing", "off"]
    environment = {**os.environ, "TRITON_TESTS_LIST": "1"}
    command = [*simulated, python, "-c", _CHILD]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    line = next(line for line in answer.stdout.splitlines() if line.startswith("@@"))
    found = [[name] for name in json.loads(line[2:])]
    random.Random(SEED).shuffle(found)
    return found


def main() -> None:
    parser = option_parser(__doc__, 500)
    parser.add_argument("file", type=Path, help="test_core.py of Triton's sources")
    options = parser.parse_args()
    for name in ("json", "passed_by"):
        if path := getattr(options, name):
            setattr(options, name, path.resolve())
    os.environ["TRITON_TESTS_FILE"] = options.file.name
    os.chdir(options.file.parent)
    everything = passed(options.passed_by) if options.passed_by else cases(options.python, options.gpu)
    print(len(everything), "cases in all")
    Sample(_CHILD, chosen(everything, options), options).run()


if __name__ == "__main__":
    main()

"""Run a fixed random sample of the CUDA cases of PyTorch's own test files, on a simulated device or on the machine's own.

    python -m bench.pytorch.own_tests FOLDER [--files test_torch,test_ops,…] [--gpu h200|card] [--cases 5000] [--workers 1]
        [--limit SECONDS] [--json FILE] [--resume] [--again] [--passed-by FILE]

FOLDER is ``test`` of PyTorch's sources; they need not be of the installed release, because only what a card passes counts: names that the release's
``torch.testing._internal`` has renamed since are given their old names.  Of ``test_ops`` the cases of float32, float16 and bfloat16 count.
``--files inductor.test_torchinductor --cases 300`` is the sample of ``torch.compile``.
The sample is a shuffle with a fixed seed, so a short one is the beginning of every longer one.
"""

from __future__ import annotations

import json
import os
import random
import subprocess

from bench.pytorch.case_processes import ANSWER, CARD, Sample, chosen, option_parser, passed

SEED = 20261127
FILES = (
    *("test_torch", "test_ops", "test_nn", "test_autograd", "test_linalg", "test_cuda"),
    *("test_binary_ufuncs", "test_reductions"),
)
_IMPORTS = r"""
import importlib.util, json, os, sys, time, unittest
from pathlib import Path
sys.path.insert(0, os.getcwd())
import torch
from torch.testing._internal import common_cuda, common_mkldnn, common_nn, common_utils

def old_name(module, name, value):
    if not hasattr(module, name):
        setattr(module, name, value())

old_name(common_cuda, "tf32_is_not_fp32", lambda: lambda: torch.cuda.is_available() and torch.cuda.get_device_properties(0).major >= 8)
old_name(common_mkldnn, "bf32_on_and_off", lambda: common_mkldnn.reduced_f32_on_and_off)
old_name(common_nn, "new_module_tests", lambda: common_nn.get_new_module_tests())

def imported(file):
    # Test classes of older releases name their own class by self.__class__, which never ends once a base class has a setUp too.
    if file not in sys.modules:
        spec = importlib.util.find_spec(file)
        source = Path(spec.origin).read_text().replace("super(self.__class__, self)", "super()")
        module = sys.modules[file] = importlib.util.module_from_spec(spec)
        exec(compile(source, spec.origin, "exec"), module.__dict__)
        package, _, name = file.rpartition(".")
        if package:
            setattr(importlib.import_module(package), name, module)
    return sys.modules[file]

def single(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from single(one)
        else:
            yield one

def listed(file):
    return sorted(t.id() for t in single(unittest.defaultTestLoader.loadTestsFromModule(imported(file))))
"""
_CHILD = (
    _IMPORTS
    + ANSWER
    + r"""
class Outcome(unittest.TestResult):
    answer = ("pass", "")

    def addError(self, test, error):
        self.answer = ("fail", f"{error[0].__name__}: {error[1]}"[:900])

    addFailure = addError

    def addSkip(self, test, reason):
        self.answer = ("skip", reason[:200])

    def addExpectedFailure(self, test, error):
        self.answer = ("skip", "expected to fail")

    def addUnexpectedSuccess(self, test):
        self.answer = ("fail", "unexpected success")

    def addSubTest(self, test, part, error):
        if error:
            self.addError(test, error)

for line in sys.stdin:
    file, name = json.loads(line)
    began = time.process_time()
    try:
        outcome = Outcome()
        imported(file)
        unittest.defaultTestLoader.loadTestsFromName(name).run(outcome)
        result, reason = outcome.answer
    except BaseException as error:
        result, reason = "fail", f"{error.__class__.__name__}: {error}"[:900]
    answer(result, reason, began)
"""
)
_LISTING = (
    _IMPORTS
    + r"""
found = []
for file in sys.argv[1].split(","):
    try:
        found += [[file, name] for name in listed(file)]
    except Exception as error:
        print(f"{file} cannot be imported: {error}", file=sys.stderr)
print("@@" + json.dumps(found))
"""
)


def _counts(file: str, name: str) -> bool:
    if "cuda" not in name.lower():
        return False
    return file != "test_ops" or name.endswith(("_float32", "_float16", "_bfloat16"))


def cases(python: str, gpu: str, files: str) -> list[list[str]]:
    """Every case, in the sample's order; the working folder is that of the tests."""
    simulated = [] if gpu == CARD else [python, "-m", "warpwright", "run", "--gpu", gpu, "--timing", "off"]
    answer = subprocess.run([*simulated, python, "-c", _LISTING, files], check=True, stdout=subprocess.PIPE, text=True)
    line = next(line for line in answer.stdout.splitlines() if line.startswith("@@"))
    found: list[list[str]] = [case for case in json.loads(line[2:]) if _counts(*case)]
    random.Random(SEED).shuffle(found)
    return found


def main() -> None:
    parser = option_parser(__doc__, 5000)
    parser.add_argument("folder", help="test of PyTorch's sources")
    parser.add_argument("--files", default=",".join(FILES))
    options = parser.parse_args()
    for name in ("json", "passed_by"):
        if path := getattr(options, name):
            setattr(options, name, path.resolve())
    os.chdir(options.folder)
    os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cuda")
    known = options.passed_by
    everything = passed(known) if known else cases(options.python, options.gpu, options.files)
    print(len(everything), "cases in all")
    Sample(_CHILD, chosen(everything, options), options).run()


if __name__ == "__main__":
    main()

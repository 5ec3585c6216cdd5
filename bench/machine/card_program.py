"""Command lines of this folder's modules: a CUDA program that is built and run on a card with nvcc, or a cubin whose kernels a card or the model runs.

What they find is stored with the card's name.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.device import Device, Model, open_device


def main(
    module: Path,
    description: str | None,
    measure: Callable[[Callable[[], Any]], dict[str, Any]],
    *,
    options: Sequence[str] = (),
) -> None:
    """The command line of a module that has such a program.

    Args:
        module: the module's file; the program is in the same folder and has the same name.
        measure: receives a function that runs the program and returns its JSON output; returns the data to store.
        options: further options of nvcc.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arch", default="sm_90")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / module.stem
        command = ["nvcc", "-O2", f"-arch={asked.arch}", *options, "-o", program, module.with_suffix(".cu")]
        subprocess.run(command, check=True)
        found = measure(lambda: json.loads(subprocess.run([program], check=True, capture_output=True).stdout))
    card = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True, capture_output=True
    )
    about = {"command": f"python -m bench.machine.{module.stem} --out FILE", "device": card.stdout.decode().strip()}
    asked.out.write_text(json.dumps({**about, **found}, indent=1) + "\n")


def cubin_parser(description: str | None) -> argparse.ArgumentParser:
    """The options of a module with kernels: ``--build``, ``--arch``, ``--cubin``, ``--out``, ``--model``."""
    parser = _parser(description, "cubin", "make the cubin and end")
    parser.add_argument("--model", help="measure the model of this chip")
    return parser


def cubins_parser(description: str | None) -> argparse.ArgumentParser:
    """The options of a module with several cubins: ``--build``, ``--arch``, ``--cubins``, ``--out``."""
    return _parser(description, "cubins", "make the cubins in this folder and end")


def _parser(description: str | None, product: str, build: str) -> argparse.ArgumentParser:
    """Options to build, to measure what was built, and to store what was found.

    Args:
        product: name of the option that takes what ``--build`` has made.
        build: what ``--build`` does.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help=build)
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument(f"--{product}", type=Path)
    parser.add_argument("--out", type=Path)
    return parser


def builds(module: Path, options: argparse.Namespace) -> bool:
    """Whether only a cubin is asked for, of the kernels beside the module's file; if so, makes it."""
    if options.build is None:
        return False
    from warpwright.toolchain import compile_source

    options.build.write_bytes(compile_source(module.with_suffix(".cu"), options.arch).cubin)
    return True


def measure_cubin(
    module: Path,
    description: str | None,
    measure: Callable[[Device, bytes], Any],
    *,
    caches: str = "cold",
    **about: Any,
) -> None:
    """The command line of a module with kernels: ``--build FILE`` makes their cubin, ``--cubin FILE`` measures on a card, or with ``--model`` on a chip's model.

    Args:
        module: the module's file; the kernels are in the same folder, in a file of the same name.
        measure: receives the device and the cubin; returns the rows.
        caches: what launches on the model find in the caches: ``cold`` or ``kept``.
        about: what else is stored.
    """
    options = cubin_parser(description).parse_args()
    if builds(module, options):
        return
    device: Device = Model(options.model, caches=caches) if options.model else open_device("card")
    found = {**device.describe(), **about, "rows": measure(device, options.cubin.read_bytes())}
    print(json.dumps(found["rows"]))
    if options.out:
        options.out.write_text(json.dumps(found) + "\n")

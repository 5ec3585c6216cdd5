"""Run the kernel corpus on a real card: check every result, record every cycle count.

On any machine with the package installed::

    python -m bench.corpus_card prepare --gpu h200 --to build/card      # cubins for the card
On the machine with the card (needs NumPy, NVIDIA's driver and, for ``record``, ``ncu``)::

    python -m bench.corpus_card check  --from build/card                # results against the references
    python -m bench.corpus_card record --from build/card --out corpus.json

``record`` runs each large case under Nsight Compute (``--clock-control none``; caches flushed before
each kernel, ncu's default), so a measured kernel starts cold, as the model's does.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.kernels import cases
from tests.kernels.case import Case

METRICS = (
    *("gpc__cycles_elapsed.max", "sm__cycles_active.avg", "sm__cycles_active.max", "smsp__inst_executed.sum"),
    *("smsp__thread_inst_executed.sum", "smsp__cycles_active.avg", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors.sum", "lts__t_sectors_lookup_hit.sum"),
    *("lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"),
    *("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "gpu__time_duration.sum"),
)
"""Nsight Compute's names; the model reports the same."""


class Card:
    """The few driver calls that a launch needs, on device 0 (NVIDIA's libcuda through ctypes)."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver.

        Raises:
            RuntimeError: with the driver's name of the error.
        """
        code = getattr(self.cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")

    def upload(self, array: np.ndarray) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(array.nbytes, 16)))
        self.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        return pointer

    def download(self, pointer: ctypes.c_uint64, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(like)
        self.call("cuMemcpyDtoH_v2", out.ctypes.data_as(ctypes.c_void_p), pointer, ctypes.c_size_t(out.nbytes))
        return out

    def launch(self, case: Case, cubin: bytes) -> dict[int, np.ndarray]:
        """Run one case; the contents of its array arguments afterwards, by index."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, case.kernel.encode())
        if case.shared_bytes > 48 * 1024:
            self.call("cuFuncSetAttribute", function, 8, case.shared_bytes)
        pointers: dict[int, ctypes.c_uint64] = {}
        values: list[Any] = []
        for index, argument in enumerate(case.args):
            if isinstance(argument, np.ndarray) and argument.ndim:
                pointers[index] = self.upload(np.ascontiguousarray(argument))
                values.append(pointers[index])
            else:
                raw = argument if isinstance(argument, bytes) else np.asarray(argument).tobytes()
                values.append(ctypes.create_string_buffer(raw, len(raw)))
        for name, data in (getattr(case, "device_globals", None) or {}).items():
            address, size = ctypes.c_uint64(), ctypes.c_size_t()
            self.call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, name.encode())
            block = np.ascontiguousarray(data)
            self.call("cuMemcpyHtoD_v2", address, block.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(block.nbytes))
        table = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self.call("cuLaunchKernel", function, *case.grid, *case.block, case.shared_bytes, None, table, None)
        self.call("cuCtxSynchronize")
        after = {index: self.download(pointer, np.asarray(case.args[index])) for index, pointer in pointers.items()}
        for pointer in pointers.values():
            self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)
        return after


def cubin_path(folder: Path, case: Case) -> Path:
    options = "_".join(option.strip("-=").replace("=", "-") for option in case.options)
    return folder / f"{case.source.stem}{'_' + options if options else ''}.cubin"


def prepare(folder: Path, arch: int) -> None:
    """Compile the corpus for a card's architecture into ``folder``."""
    from warpwright.toolchain import compile_source

    folder.mkdir(parents=True, exist_ok=True)
    for case in cases("large"):
        path = cubin_path(folder, case)
        if not path.exists():
            path.write_bytes(compile_source(case.source, arch, options=case.options).cubin)


def run(folder: Path, size: str, names: list[str]) -> int:
    """Launch every case and compare; prints failures and a summary, returns the number of failures."""
    card, failures, done = Card(), 0, 0
    for case in cases(size):
        if names and case.name not in names:
            continue
        done += 1
        try:
            case.verify(card.launch(case, cubin_path(folder, case).read_bytes()))
        except (AssertionError, RuntimeError) as problem:
            failures += 1
            print(f"{size} {case.name}: {str(problem).strip()[:600]}", flush=True)
    print(f"{size}: {done - failures} passed, {failures} failed", flush=True)
    return failures


def record(folder: Path, out: Path, names: list[str]) -> None:
    """Measure every large case under ncu, one process for all, and write the data file."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--metrics", ",".join(METRICS), sys.executable, "-m", "bench.corpus_card", "launch", *names]
    command += ["--from", str(folder)]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    wanted = [case for case in cases("large") if not names or case.name in names]
    measured = [row for row in rows if row["ID"].strip()]
    kernels: dict[str, dict[str, Any]] = {}
    for case, row in zip(wanted, measured, strict=False):
        if case.kernel not in row["Kernel Name"]:
            raise SystemExit(f"ncu reported {row['Kernel Name']} where {case.kernel} was launched")
        kernels[case.name] = {
            key: float(row[key].replace(",", "")) for key in METRICS if row.get(key, "").replace(",", "").strip()
        }
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem", "--format=csv,noheader"]
    card = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    out.write_text(
        json.dumps({"card": card, "command": "python -m bench.corpus_card record", "kernels": kernels}, indent=1) + "\n"
    )
    print(f"{len(kernels)} of {len(wanted)} kernels measured → {out}")
    if len(kernels) != len(wanted):
        print(text[-1500:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "check", "launch", "record"])
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/card"))
    parser.add_argument("--out", type=Path, default=Path("corpus.json"))
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        from warpwright.chips import load_chip

        prepare(arguments.folder, load_chip(arguments.gpu).arch)
    elif arguments.what == "record":
        record(arguments.folder, arguments.out, arguments.names)
    elif arguments.what == "launch":
        run(arguments.folder, "large", arguments.names)
    else:
        failures = run(arguments.folder, "small", arguments.names) + run(arguments.folder, "large", arguments.names)
        raise SystemExit(min(failures, 1))


if __name__ == "__main__":
    main()

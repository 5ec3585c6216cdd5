"""Which devices a process sees for some values of ``CUDA_VISIBLE_DEVICES``: each value in a process of its own, which asks the driver for its devices' UUIDs.

``python -m bench.machine.visible_devices --out FILE`` on a machine with a card; with the model, ``warpwright run --gpu h200 python -m bench.machine.visible_devices --out FILE``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

VISIBLE = "CUDA_VISIBLE_DEVICES"
INDICES = (
    "0", "1", "0,1", "1,0", "0,0", "0,1,0", "00", "+0", "-0", "0x0", "0.5", "1e0", "-1", "-1,0", "0,-1", "0,-1,0", "0,-2", "2147483648", "4294967296", "4294967295", "-4294967296", "18446744073709551616", "9999999999999999999999", "0,4294967296",
)  # fmt: skip
SPACES = (
    "",
    " ",
    "\t",
    " 0",
    "0 ",
    "\t0",
    "0\t",
    "\n0",
    "0\n",
    "0, 0",
    "0 ,0",
    "0 0",
    "0 ,1",
    "0, 1",
    " ,0",
    "+ 0",
    "- 1",
)
SEPARATORS = (",", ",0", "0,", "0,,", "0,,0", "0,,1", "0;0", "0;1", "0:0", "0/0", "0-0", "0|1")
WORDS = (
    "foo",
    "foo,0",
    "0,foo",
    "0foo",
    "0foo,0",
    "0,0foo",
    "0,1foo",
    "all",
    "none",
    "void",
    "NoDevFiles",
    "0,NoDevFiles",
    '"0"',
    "'0'",
    "[0]",
    "#0",
)
UUIDS = (
    *("{uuid}", "{uuid:.39}", "{uuid:.20}", "{uuid:.13}", "{uuid:.12}", "{uuid:.8}", "{uuid:.6}", "{uuid:.5}", "GPU-", "GPU", "G", "gpu-", "GPU-{upper}", "gpu-{digits}", "gpu-{upper}", "Gpu-{digits}"),
    *("{digits}", "{digits:.8}", "GPU-{plain}", "GPU-{plain:.12}", "GPU_{digits}", "{uuid}0", "{uuid}x", "{uuid}-", "{uuid} ", " {uuid}", "\t{uuid}", "{uuid:.8}x", "{uuid:.8} ", "GPU-{wrong}", "GPU- {digits}"),
    *("{uuid},{uuid}", "{uuid:.12},{uuid}", "{uuid},{uuid:.12}", "{uuid}, {uuid}", "{uuid},", ",{uuid}", "{uuid},,", "{uuid},GPU-{wrong}", "GPU-{wrong},{uuid}", "{uuid},GPU-{wrong},{uuid}", "{uuid},GPU-"),
    *("{uuid},foo", "foo,{uuid}"),
)  # fmt: skip
MIXED = (
    "0,{uuid}",
    "{uuid},0",
    "{uuid},1",
    "{uuid},-1",
    "-1,{uuid}",
    "1,{uuid}",
    "0,{uuid:.8}",
    "{uuid:.8},0",
    "0,GPU-{wrong}",
    "GPU-{wrong},0",
)
MIG = (
    "MIG-", "MIG", "mig-", "MIG-{digits}", "MIG-{wrong}", "MIG-{uuid}", "MIG-{uuid}/0/0", "MIG-{uuid}/1/0", "MIG-{uuid}/", "MIG-0", "MIG-{wrong},0", "MIG-{wrong},{uuid}", "MIG-{uuid}/0/0,0", "0,MIG-{wrong}", "{uuid},MIG-{wrong}", "0,MIG-{uuid}/0/0", "{uuid},MIG-{uuid}/0/0", "MIG-{uuid}/0/0,MIG-{uuid}/0/0", "0:0", "0.0", "0:0:0",
)  # fmt: skip
VALUES = tuple(dict.fromkeys((*INDICES, *SPACES, *SEPARATORS, *WORDS, *UUIDS, *MIXED, *MIG)))
"""Formats of values; ``names_of`` defines the names in braces."""

CHILD = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
code, count, uuids = cuda.cuInit(0), ctypes.c_int(), []
counted = cuda.cuDeviceGetCount(ctypes.byref(count))
for n in range(0 if code or counted else count.value):
    device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    assert cuda.cuDeviceGet(ctypes.byref(device), n) == 0 and cuda.cuDeviceGetUuid(uuid, device) == 0
    uuids.append(bytes(uuid).hex())
print(json.dumps([code, uuids]))
"""
"""Prints what ``cuInit`` returns and the devices' UUIDs."""


def cards() -> tuple[str, list[str]]:
    """The first card with its driver, and all cards' UUIDs (``GPU-…``), in NVML's order."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    count, text, driver, uuids, names = ctypes.c_uint(), (ctypes.c_char * 96)(), (ctypes.c_char * 96)(), [], []
    asked = [
        nvml.nvmlInit_v2(),
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)),
        nvml.nvmlSystemGetDriverVersion(driver, 96),
    ]
    for n in range(count.value):
        handle = ctypes.c_void_p()
        asked += [nvml.nvmlDeviceGetHandleByIndex_v2(n, ctypes.byref(handle)), nvml.nvmlDeviceGetUUID(handle, text, 96)]
        uuids.append(text.value.decode())
        asked += [nvml.nvmlDeviceGetName(handle, text, 96)]
        names.append(text.value.decode())
    if any(asked):
        raise RuntimeError(f"NVML returned {asked}")
    return f"{names[0]}, driver {driver.value.decode()}", uuids


def names_of(uuid: str) -> dict[str, str]:
    """What the values' formats name, for a card's UUID (``GPU-…``)."""
    digits = uuid.removeprefix("GPU-")
    wrong = digits.translate(str.maketrans("0123456789abcdef", "fedcba9876543210"))
    return {"uuid": uuid, "digits": digits, "upper": digits.upper(), "plain": digits.replace("-", ""), "wrong": wrong}


def seen(value: str | None, uuids: Sequence[str], environment: Mapping[str, str]) -> list[Any]:
    """``cuInit``'s code and the indices of the cards that a process sees.

    Args:
        value: of the variable, with names in braces; None leaves it out.
        uuids: of all cards.
        environment: of the process, without the variable.
    """
    variable = {} if value is None else {VISIBLE: value.format(**names_of(uuids[0]))}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env={**environment, **variable}, capture_output=True, text=True, check=True
    )
    code, found = json.loads(done.stdout)
    plain = [names_of(uuid)["plain"] for uuid in uuids]
    return [code, [plain.index(one) for one in found]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    environment = {name: text for name, text in os.environ.items() if name != VISIBLE}
    device, uuids = cards()
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda value: [value, *seen(value, uuids, environment)], (None, *VALUES)))
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    head = {"command": "python -m bench.machine.visible_devices --out FILE", "device": device, "cards": len(uuids)}
    fields = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
    asked.out.write_text(
        f'{{\n{fields} "columns": ["value", "code of cuInit", "cards seen"],\n "rows": [\n{lines}\n ]\n}}\n'
    )


if __name__ == "__main__":
    main()

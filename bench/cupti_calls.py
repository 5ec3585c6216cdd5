"""Write the numbers by which CUPTI names calls of the runtime and the driver, from its public headers.

    python -m bench.cupti_calls HEADER_FOLDER > warpwright/libraries/data/cupti_calls.txt

Each row has a name without its version, and the number of the latest version.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HEADERS = ("cupti_runtime_cbid.h", "cupti_driver_cbid.h")


def rows(folder: Path) -> dict[str, int]:
    """Numbers by name; variants for per-thread default streams are left out."""
    found: dict[str, int] = {}
    for header in HEADERS:
        text = (folder / header).read_text(encoding="utf-8")
        for name, number in re.findall(r"TRACE_CBID_(cu\w+)\s*=\s*(\d+)", text):
            plain = re.sub(r"_v\d{4,5}$", "", name)
            if not re.search(r"_pts[dz]\b|_pt[sd][zs]$", plain):
                found[plain] = max(int(number), found.get(plain, 0))
    return found


if __name__ == "__main__":
    for name, number in sorted(rows(Path(sys.argv[1])).items()):
        print(name, number)

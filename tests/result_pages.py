"""One page of each kind that shows results, for tests of how pages look, read and write numbers."""

from __future__ import annotations

from pathlib import Path

import warpwright as ww
from tests.test_report_page import launch
from warpwright.studies.page import study_page
from warpwright.studies.study import Cell, Plot, Result, Study, Table
from warpwright.sweeps.page import write_page
from warpwright.sweeps.point_server import Outcome
from warpwright.sweeps.result import Sweep
from warpwright.sweeps.specification import points_of, specification_of
from warpwright.sweeps.store import Store
from warpwright.tools.chip_differences import match_launches
from warpwright.tools.report import write_report
from warpwright.tools.report.chips_page import write_chips_page


def report(folder: Path) -> Path:
    """A report of launches on one chip."""
    gpu = ww.GPU("h200")
    launch(gpu)
    return write_report(folder / "report.html", gpu.launches, title="demo.py")


def chips(folder: Path) -> Path:
    """The page of ``warpwright compare``."""
    runs = {}
    for chip in ("p100", "v100"):
        gpu = ww.GPU(chip)
        launch(gpu)
        runs[chip] = gpu.launches
    write_chips_page(folder / "chips.html", match_launches(runs), {"g80": "it lacks <doubles>"}, "demo.py")
    return folder / "chips.html"


def study(folder: Path) -> Path:
    """A study, with a table, a map and a plot."""
    cells = [Cell(f"{row} warps", f"{column} blocks", row + column, 5.0, 0.1) for row in (1, 2) for column in (2, 4)]
    plot = Plot("Latency", "warps", "cycles", {"model": [(1.0, 4.0), (2.0, 8.0)], "paper": [(1.0, 5.0), (2.0, 7.0)]})
    found = Result([Table("Barriers", "µs", cells), Table("A map", "µs", cells, heat_map=True)], ["A remark."], [plot])
    page = folder / "study.html"
    page.write_text(study_page(Study("sync-x", "A paper, Table 1", "what it measures", lambda _: Result()), found))
    return page


def sweep(folder: Path) -> Path:
    """A sweep over chips, an override and a size."""
    (folder / "step.py").write_text("")
    asked = specification_of(
        {
            "programs": ["step.py {i}"],
            "chips": ["v100", "a100"],
            "overrides": {"l1_kib": [64, 128]},
            "arguments": {"i": [1, 2]},
        }
    )
    points = points_of(asked, folder)
    with Store(folder / "out") as store:
        for number, point in enumerate(points):
            row = {
                "kernel": "k",
                "launch": 0,
                "cycles": 1000 + number,
                "seconds": 1e-6 * (number + 1),
                "warp_instructions": 9,
            }
            store.add(point, Outcome(point.key, "done", rows=[row]))
    done = Sweep(folder / "out", tuple(points), len(points), {point.key: "done" for point in points}, 1.0, 0.9)
    return write_page(done, asked.page)


MAKERS = {"report": report, "chips": chips, "study": study, "sweep": sweep}
"""What writes a page of a kind into a folder, by kind."""

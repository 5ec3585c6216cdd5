"""Options that commands share, and those of ``warpwright run``, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

GpuOption = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        "-g",
        help="Chip (name or TOML file) of every GPU of the program, which replaces the one it requests. Several, separated by commas, "
        "are the devices of an unmodified program.",
    ),
]
SystemOption = Annotated[
    str | None,
    typer.Option(
        "--system",
        help="Machine (name or TOML file; see warpwright system list) whose GPUs and links are the devices of the program.",
    ),
]
TimingOption = Annotated[
    str | None,
    typer.Option(help="full (times every instruction), sampled (times a part of large grids) or off (results only)."),
]
CachesOption = Annotated[
    str | None,
    typer.Option(
        help="cold (each launch begins with empty caches, as under Nsight Compute) or kept (it finds what earlier launches and copies left: the default for unmodified programs)."
    ),
]
MemoryFaultsOption = Annotated[
    str | None,
    typer.Option(
        help="allocation (default: an access outside its allocation fails) or page (as on a card, it fails only if it leaves the mapped pages of 2 MiB; otherwise it gives a warning)."
    ),
]
CheckOption = Annotated[
    str | None,
    typer.Option(
        "--check",
        help="Checks, separated by commas: memcheck, racecheck, synccheck, initcheck (all of these: all), leakcheck, perfcheck, schedcheck.",
    ),
]
LevelOption = Annotated[
    str | None,
    typer.Option("--check-level", help="Lowest level of findings to report: info, warning (default) or error."),
]
ClockOption = Annotated[
    str,
    typer.Option(
        "--host-clock",
        help="Clock that the program reads on the host: host (the real one) or simulated (advances only while the program waits for the GPU, launches or sleeps).",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        help="Host time after which the program is stopped; reports the source lines of its warps; exit code 124.",
    ),
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Also write the launches as JSON: an array of one object per launch.")
]
CsvOption = Annotated[Path | None, typer.Option("--csv", help="Also write the launches as CSV, one row per launch.")]
ParquetOption = Annotated[
    Path | None,
    typer.Option(
        "--parquet", help="Also write the launches as Parquet (needs pyarrow: pip install 'warpwright[data]')."
    ),
]
ReportOption = Annotated[Path | None, typer.Option(help="Also write an HTML page that explains the launches.")]
RecordOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Record the command stream of the program's graphics (g80).")
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Save launches part-way, for warpwright resume (Python programs, timing full)."),
]
EveryOption = Annotated[
    int | None,
    typer.Option("--checkpoint-every", min=1, help="Simulated cycles between two checkpoints; 1,000,000 by default."),
]
LibraryModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="nvidia: multiplies the time of each launch from the drop-in libraries by the ratio that was measured for its class between NVIDIA's library and Warpwright's kernel (h200).",
    ),
]
ErrorCodeOption = Annotated[
    int,
    typer.Option(
        "--error-exitcode",
        min=0,
        max=255,
        metavar="CODE",
        help="Exit code if a launch failed or --check found an error, but the program itself exits with 0; 1 by default, 0 for that of the program.",
    ),
]
InjectOption = Annotated[
    str | None,
    typer.Option(
        metavar="ERRORS",
        help="Flip bits: dram@ADDRESS:BIT, l2@…, registers@R5:BIT,block=…, shared@…, rate@…, particles@…; several separated by semicolons.",
    ),
]

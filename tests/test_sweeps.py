"""Sweeps: what is refused, which points there are, and that no point is lost or counted twice whoever is killed."""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.quantity_text import figures
from warpwright.sweeps.page import pareto_front
from warpwright.sweeps.point_server import Outcome, PointServer, WorkerLost
from warpwright.sweeps.specification import Point, SweepError, points_of, specification_of
from warpwright.sweeps.store import Store
from warpwright.sweeps.workers import LocalWorkers

sweep_module = importlib.import_module("warpwright.sweeps.sweep")

KERNEL = """
extern "C" __global__ void saxpy(int n, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += 2 * x[i];
}
"""
SAXPY = f"""
import sys
import numpy as np
import warpwright as ww

n = int(sys.argv[1])
gpu = ww.GPU("h200")
kernel = gpu.compile({KERNEL!r})["saxpy"]
x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
kernel[(n + 255) // 256, 256](n, x, y)
assert (y == 2).all()
"""
STEP = """
import sys, time
number = int(sys.argv[1])
time.sleep(0.005)
if number % 50 == 7:
    raise ValueError(f"<step {number}>")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "saxpy.py").write_text(SAXPY)
    (tmp_path / "step.py").write_text(STEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _steps(count: int, **more: Any) -> dict[str, Any]:
    return {"programs": ["step.py {i}"], "chips": ["v100"], "arguments": {"i": list(range(count))}, **more}


def _statuses(folder: Path) -> list[tuple[int, str]]:
    """Argument and status of every row of the results."""
    found = duckdb.sql(
        f"SELECT \"argument.i\", status FROM read_parquet('{folder}/results/*.parquet', union_by_name = true) ORDER BY 1"
    )
    return [(int(i), status) for i, status in found.fetchall()]


def _expected(count: int) -> list[tuple[int, str]]:
    return [(i, "failed" if i % 50 == 7 else "done") for i in range(count)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chips": ["v101"]}, "the specification: chips: no chip is called 'v101'; did you mean 'v100'"),
        ({"overrides": {"l1_kb": [64]}}, "the specification: [overrides]: chip 'v100' has no field 'l1_kb'"),
        ({"overrides": {"sm_count": [0]}}, "the specification: [overrides]: field 'sm_count'"),
        ({"overrides": {"sm_count": []}}, "the specification: [overrides] sm_count has no values"),
        ({"arguments": {"i": [1, 1]}}, "i has a duplicate value"),
        ({"arguments": {}}, "[arguments] has no i"),
        ({"arguments": {"i": [1], "size": [2]}}, "no program uses the argument size"),
        ({"programs": ["missing.py {i}"]}, "there is no file"),
        ({"programs": ["no-such-command {i}"]}, "there is no program no-such-command"),
        ({"programs": []}, "programs"),
        ({"programs": []}, "programs must have at least one entry"),
        ({"chip": ["v100"]}, "there is no key 'chip'; did you mean 'chips'? keys: programs, chips, "),
        ({"pages": {}}, "there is no key 'pages'; did you mean 'page' or 'arguments'? keys: programs, "),
        ({"page": {"bass": {}}}, "there is no key 'bass' in [page]; did you mean 'baseline'? keys: baseline, cost"),
        ({"sample": {"seed": 1}}, "the key 'count' in [sample] is missing"),
        ({"timeout_seconds": -1}, "timeout_seconds must be greater than 0, not -1"),
        ({"timeout_seconds": "x"}, "timeout_seconds must be a number, not 'x'"),
        ({"timing": "quick"}, "timing must be 'full', 'sampled' or 'off', not 'quick'"),
        ({"page": {"baseline": {"l1_kib": 1}}}, "[page]: the sweep has no axis l1_kib"),
    ],
)
def test_a_wrong_specification_is_refused_before_anything_runs(
    folder: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(SweepError) as refused:
        ww.sweep({**_steps(2), **change}, folder / "out", progress=False)
    assert message in str(refused.value)
    assert not list((folder / "out").glob("results/*"))


def test_a_wrong_field_is_reported_with_its_file(folder: Path) -> None:
    (folder / "cache.toml").write_text('programs = ["step.py 1"]\nchips = ["v100"]\n[overrides]\nl1_kb = [64]\n')
    with pytest.raises(SweepError, match=r"^cache\.toml: \[overrides\]: chip 'v100' has no field 'l1_kb'"):
        ww.sweep("cache.toml", progress=False)


def test_points_are_all_combinations(folder: Path) -> None:
    asked = specification_of(
        {
            "programs": ["saxpy.py {n}", "step.py 1"],
            "chips": ["v100", "h200"],
            "overrides": {"l1_kib": [64, 128], "sm_count": [20, 40, 80]},
            "arguments": {"n": [256, 1024]},
        }
    )
    points = points_of(asked, folder)
    assert len(points) == 2 * 2 * 3 * (2 + 1)
    assert len({point.key for point in points}) == len(points)
    assert all(Point.from_json(point.to_json()) == point for point in points)
    assert {point.words for point in points} == {("saxpy.py", "256"), ("saxpy.py", "1024"), ("step.py", "1")}
    sampled = specification_of({**asked.model_dump(), "sample": {"count": 7, "seed": 3}})
    assert len(points_of(sampled, folder)) == 7
    assert points_of(sampled, folder) == points_of(sampled, folder)
    before = {point.key for point in points}
    (folder / "step.py").write_text("pass\n")
    changed = [point for point in points_of(asked, folder) if point.key not in before]
    assert {point.program for point in changed} == {"step.py 1"}


@pytest.mark.ci
def test_launches_of_every_chip_are_rows(folder: Path) -> None:
    asked = {
        "programs": ["saxpy.py {n}"],
        "chips": ["v100"],
        "overrides": {"dram_gb_per_s": [450.0, 900.0]},
        "arguments": {"n": [1 << 16]},
        "page": {"baseline": {"dram_gb_per_s": 900.0}},
    }
    done = ww.sweep(asked, folder / "out", workers=1, progress=False)
    assert done.ran_count == 2
    assert done.failed_count == 0
    slow, fast = sorted(done.table().to_pylist(), key=lambda row: row["override.dram_gb_per_s"])
    gpu = ww.GPU("v100", dram_gb_per_s=450.0)
    kernel = gpu.compile(KERNEL)["saxpy"]
    x, y = gpu.zeros(1 << 16), gpu.zeros(1 << 16)
    own = kernel[1 << 8, 256](1 << 16, x, y)
    assert slow["chip"] == fast["chip"] == "v100"
    assert slow["warp_instructions"] == own.instructions
    assert slow["cycles"] > fast["cycles"]
    page = (folder / "out" / "index.html").read_text()
    assert figures(slow["cycles"] / fast["cycles"]) in page
    assert {row["point_peak_mib"] > 50 for row in (slow, fast)} == {True}
    points = sum(row["point_cpu_seconds"] for row in (slow, fast))
    assert done.cpu_efficiency is not None
    assert 0 < points < points / done.cpu_efficiency < points + 60
    again = ww.sweep(asked, folder / "out", workers=1, progress=False)
    assert again.ran_count == 0
    assert again.table().num_rows == 2


@pytest.mark.ci
def test_failures_are_results_and_can_be_run_again(folder: Path) -> None:
    done = ww.sweep(_steps(60), folder / "out", workers=2, progress=False)
    assert _statuses(folder / "out") == _expected(60)
    assert done.failed_count == 2
    page = (folder / "out" / "index.html").read_text()
    assert "ValueError: &lt;step 57&gt;" in page
    again = ww.sweep(_steps(60), folder / "out", workers=2, retry_failed=True, progress=False)
    assert again.ran_count == 2
    assert _statuses(folder / "out") == _expected(60)


@pytest.mark.ci
def test_limits_end_a_point_and_all_that_it_started(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import subprocess, sys\nopen('pid', 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\n"
        "exec('while True: pass' if sys.argv[1] == 'time' else 'x = bytearray(1 << 30); x[::4096] = bytes(1 << 18); input()\\n' * 2)\n"
    )
    found = {}
    for what, limits in (("time", {"timeout_seconds": 2.0}), ("memory", {"memory_mib": 900})):
        asked = {"programs": ["slow.py {what}"], "chips": ["v100"], "arguments": {"what": [what]}, **limits}
        (row,) = ww.sweep(asked, folder / what, workers=1, progress=False).table().to_pylist()
        found[what] = row["status"], row["message"]
    child = Path(f"/proc/{(folder / 'pid').read_text()}/stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.ci
def test_a_lost_server_is_replaced_and_its_point_run_again(folder: Path) -> None:
    points = points_of(specification_of(_steps(60)), folder)
    workers, seen = LocalWorkers(3), []
    for number, (point, outcome) in enumerate(workers.outcomes(points)):
        seen.append((point.arguments["i"], outcome.status))
        if number in (5, 20, 35):
            server = workers.servers[number % 3]
            assert server is not None
            os.kill(server.pid, signal.SIGKILL)
    assert sorted(seen) == _expected(60)


def test_a_server_that_ends_says_so(folder: Path) -> None:
    server = PointServer()
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        server.run(points_of(specification_of(_steps(1)), folder)[0])
    server.close()


@pytest.mark.ci
def test_a_points_process_imports_nothing_of_the_package(folder: Path) -> None:
    """It is forked from a server that has imported all that a point needs."""
    (folder / "looks.py").write_text("import sys, pathlib\npathlib.Path('seen').write_text(' '.join(sys.modules))\n")
    server = PointServer()
    asked = {"programs": ["looks.py"], "chips": ["v100"]}
    assert server.run(points_of(specification_of(asked), folder)[0]).status == "done"
    server.close()
    code = "import sys, importlib, warpwright.sweeps.point_server as p; [*map(importlib.import_module, p.PRELOADED)]"
    code += "; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    more = {name for name in (folder / "seen").read_text().split() if name.startswith("warpwright")} - {*loaded}
    assert not more


@settings(deadline=None, max_examples=30)  # it writes files
@given(cut=st.integers(0, 4000), journal_count=st.integers(1, 12), part_written=st.booleans())
def test_a_store_killed_at_any_byte_loses_no_finished_point(
    tmp_path_factory: pytest.TempPathFactory, cut: int, journal_count: int, part_written: bool
) -> None:
    folder = tmp_path_factory.mktemp("store")
    (folder / "step.py").write_text(STEP)
    points = points_of(specification_of(_steps(journal_count + 2)), folder)
    first = Store(folder / "out")
    first.__enter__()
    for point in points[:2]:
        first.add(point, Outcome(point.key, "done"))
    first.flush()
    for point in points[2:]:
        first.add(point, Outcome(point.key, "done"))
    # Killed: the lock goes with the process, the journal ends anywhere after what was acknowledged.
    journal = folder / "out" / "journal-000001.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    torn = lines[-1][: cut % (len(lines[-1]) + 1)]
    journal.write_text("".join(lines[:-1]) + torn)
    if part_written:
        first._write_part()
    first._lock.close()
    with Store(folder / "out") as second:
        found = second.finished()
    whole = part_written or torn.endswith("\n")
    assert set(found) == {point.key for point in points[: None if whole else -1]}
    rows = [
        row
        for path in (folder / "out" / "results").glob("*.parquet")
        for row in pyarrow.parquet.read_table(path).to_pylist()
    ]
    assert len(rows) == len(found)


def test_two_sweeps_do_not_share_a_folder(folder: Path) -> None:
    with Store(folder / "out"), pytest.raises(SweepError, match="another sweep is writing"):
        ww.sweep(_steps(1), folder / "out", progress=False)


@pytest.mark.ci
def test_a_killed_sweep_goes_on_where_it_was(folder: Path) -> None:
    """Two workers wait at points 30 and 31 until the sweep has been killed, however fast or loaded the machine is."""
    (folder / "step.py").write_text(STEP + WAIT)
    (folder / "steps.toml").write_text(
        f'programs = ["step.py {{i}}"]\nchips = ["v100"]\narguments.i = {list(range(60))}\n'
    )
    command = [sys.executable, "-m", "warpwright", "sweep", "steps.toml", "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _until(lambda: {"waits-30", "waits-31"} <= {path.name for path in folder.glob("waits-*")})
        # A point has ended before its worker begins the next one; its row follows.
        _until(lambda: _kept(folder / "steps.sweep") == 30)
    finally:
        process.kill()
        process.wait()
    (folder / "go").touch()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "60 points: 30 run" in again.stdout
    assert "30 finished before, 2 without a result" in again.stdout
    assert "60 of 60 points, 2 failed" in again.stderr
    assert _statuses(folder / "steps.sweep") == _expected(60)


WAIT = """
from pathlib import Path
if number in (30, 31):
    Path(f"waits-{number}").touch()
    while not Path("go").exists():
        time.sleep(0.05)
"""


def _kept(folder: Path) -> int:
    """Points on disk: those of the journal, and of the parts that older journals have become."""
    try:
        lines = sum(path.read_text().count("\n") for path in folder.glob("journal-*.jsonl"))
        parts = [pyarrow.parquet.read_table(path).num_rows for path in folder.glob("results/part-*.parquet")]
    except FileNotFoundError:
        return -1
    return lines + sum(parts)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end, "did not come to pass in 300 s"
        time.sleep(0.02)


def test_a_sweep_tells_that_it_works_before_the_first_point_has_ended() -> None:
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "LINE_SECONDS", 0.05)
        with sweep_module._shown(3, {}, True, text):
            time.sleep(0.5)
    lines = text.getvalue().splitlines()
    assert len(lines) >= 2
    assert lines[0] == (
        "warpwright: 0 of 3 points, 0 s for the first ones (workers start, and a new chip's model is compiled)"
    )


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1))
def test_nothing_beats_the_pareto_front(points: list[tuple[int, int]]) -> None:
    floats = [(float(x), float(y)) for x, y in points]

    def beaten(a: tuple[float, float]) -> bool:
        return any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in floats)

    front = pareto_front(floats)
    assert {floats[i] for i in front} == {p for p in floats if not beaten(p)}


@pytest.mark.ci
def test_a_dask_cluster_runs_the_points(folder: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address=None, processes=False
    ) as cluster:
        done = ww.sweep(_steps(10), folder / "out", scheduler=cluster.scheduler_address, progress=False)
    assert done.ran_count == 10
    assert _statuses(folder / "out") == _expected(10)


@pytest.mark.ci
def test_no_scheduler_is_an_error_with_its_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")

    def refused(*_: object, **__: object) -> None:
        raise OSError("timed out")

    monkeypatch.setattr(distributed, "Client", refused)
    with pytest.raises(SweepError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        ww.sweep(_steps(1), folder / "out", scheduler="tcp://127.0.0.1:9", progress=False)


def _servers() -> list[int]:
    """Processes of this machine's workers that this process has started."""
    children = Path("/proc/self/task").glob("*/children")
    pids = [int(pid) for path in children for pid in path.read_text().split()]
    return [pid for pid in pids if b"point_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@contextmanager
def _two_killed(folder: Path, workers: Callable[[], list[int]]) -> Iterator[list[int]]:
    """Kill a worker process when each of two random points has begun; yields the processes that were killed."""
    chosen, ended, killed = random.Random(1), threading.Event(), list[int]()

    def kill() -> None:
        for number in sorted(chosen.sample(range(100, 1500), 2)):
            (folder / f"kill-{number}").touch()
            while not (folder / f"begun-{number}").exists():
                if ended.wait(0.05):
                    return
            killed.append(chosen.choice([pid for pid in workers() if pid not in killed]))
            os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        ended.set()
        killer.join()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["local", "dask"])
def test_two_thousand_points_with_workers_killed_at_random(folder: Path, where: str) -> None:
    """4 worker processes, two killed at random times and one point too large for its worker: nothing lost, nothing twice."""
    distributed = pytest.importorskip("distributed")
    (folder / "step.py").write_text(
        SAXPY.replace("n = int(sys.argv[1])", "number = int(sys.argv[1])\nn = 1024 * (number % 7 + 1)")
        + "from pathlib import Path\n"
        + "if Path(f'kill-{number}').exists():\n    Path(f'begun-{number}').touch()\n"
        + "if number % 50 == 7:\n    raise ValueError(number)\n"
        + "if number == 1234:\n    import time\n    x = bytearray(1 << 30)\n    x[::4096] = bytes(1 << 18)\n    time.sleep(5)\n"
    )
    asked = _steps(2000, memory_mib=900, timing="off")
    if where == "local":
        with _two_killed(folder, _servers) as killed:
            done = ww.sweep(asked, folder / "out", workers=4, progress=False)
    else:
        with (
            distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as cluster,
            _two_killed(folder, lambda: [worker.pid for worker in cluster.workers.values()]) as killed,
        ):
            done = ww.sweep(asked, folder / "out", scheduler=cluster.scheduler_address, progress=False)
    assert len(killed) == 2
    expected = [(i, "out of memory" if i == 1234 else status) for i, status in _expected(2000)]
    assert _statuses(folder / "out") == expected
    figures = {"cpu_efficiency": done.cpu_efficiency, "efficiency": done.efficiency, "seconds": done.wall_seconds}
    print(json.dumps(figures))
    assert done.cpu_efficiency is not None
    # Dask's own loops take time as long as the sweep lasts, which other programs prolong.
    assert done.cpu_efficiency >= 0.85 or where == "dask"

"""``python -m bench.micro --device card|model [names]``: run microbenchmarks, print a table, keep JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import open_device
from bench.micro import (
    arrivals,
    atomic,
    chip,
    compute,
    crews,
    divergence,
    handoff,
    hopper,
    hot_lines,
    joins,
    kept,
    memory,
    mixture,
    onset,
    passes,
    paths,
    rivals,
    scattered,
    sequences,
    spins,
    spread,
    start,
    strong,
    sub_cores,
    sync,
    turns,
    waits,
    walks,
    writes,
)  # fmt: skip
from bench.micro.context import Context, Row

SUITES: dict[str, Callable[[Context], list[Row]]] = {
    "clock": chip.clock, "alu": compute.alu, "tensor": compute.tensor, "control": compute.control,
    "icache": compute.icache, "constant": compute.constant, "lanes_constant": compute.lanes_constant,
    "misses_constant": compute.misses_constant, "parameters": compute.parameters, "structures_once": writes.structures_once,
    "branches": compute.branches, "leaves_once": divergence.leaves_once, "lets_go_once": divergence.lets_go_once, "divisions": compute.divisions,
    "cold_code": compute.cold, "shared": memory.shared, "latency": memory.latency, "lanes": memory.lanes,
    "fetch": compute.fetch, "bank": compute.bank,
    "steps": memory.steps, "access": memory.access, "queue": memory.queue, "atomics": memory.atomics,
    "fences": memory.fences, "placement": chip.placement, "l2_map": chip.l2_map, "l2_band": chip.l2_band,
    "bandwidth": chip.bandwidth, "dispatch": chip.dispatch, "empty": chip.empty, "tlb": memory.tlb,
    "contended": atomic.contended, "ordered": atomic.ordered, "hot_words": atomic.hot_words, "mixture": mixture.mixture,
    "paths": paths.paths, "cold": paths.cold, "touch": paths.touch, "flight": paths.flight, "sets": paths.sets, "capacity": paths.capacity,
    "banks": paths.banks, "strided": writes.strided, "kept": kept.kept, "kept_in_flight": kept.kept_in_flight, "kept_once": kept.kept_once, "kept_behind": kept.kept_behind, "kept_crowd_once": kept.kept_crowd_once, "kept_elimination_once": kept.kept_elimination_once, "local": writes.local, "mixed": writes.mixed,
    "atom_steps": writes.atom_steps, "uneven": writes.uneven, "touch_after": paths.touch_after, "fills": writes.fills,
    "fills_once": writes.fills_once, "rejoin_once": writes.rejoin_once, "streams_once": writes.streams_once,
    "order": divergence.order, "part": divergence.part, "spin": divergence.spin, "release": divergence.release, "handoff": handoff.handoff,
    "scattered": scattered.scattered, "scattered_pages": scattered.scattered_pages, "columns": scattered.columns,
    "scattered_atomics": scattered.scattered_atomics, "atomic_kinds": scattered.atomic_kinds, "footprints": scattered.footprints, "turns": scattered.turns, "scattered_once": scattered.scattered_once,
    "clusters": hopper.clusters, "remote": hopper.remote, "remote_places": hopper.remote_places, "remote_crowd": hopper.remote_crowd, "remote_random": hopper.remote_random, "remote_channels": hopper.remote_channels, "cluster_waves": hopper.cluster_waves, "mbarriers": hopper.mbarriers, "bulk_copies": hopper.bulk_copies,
    "start_once": start.start_once, "bursts": start.bursts, "ends_once": start.ends_once, "halves_once": start.halves_once, "pairs_once": start.pairs_once, "pages_once": start.pages_once, "small_bars": start.small_bars, "exits": start.exits, "walks_by_sm": start.walks_by_sm,
    "slices": spread.slices, "fill_once": spread.fill_once, "placement_once": spread.placement_once, "loaded": spread.loaded,
    "strong": strong.strong, "crowd": strong.crowd, "meetings": strong.meetings, "gathers": strong.gathers,
    "additions": spins.additions, "cas_once": spins.cas_once,
    "joins_once": joins.joins_once, "store_times": joins.store_times, "store_waves": joins.store_waves, "copies_once": joins.copies_once, "planned_copies_once": joins.planned_copies_once,
    "onset": onset.onset, "crossing": onset.crossing, "paced_once": writes.paced_once,
    "row_gap": arrivals.row_gap, "lines_at_once": arrivals.lines_at_once, "first_steps_once": arrivals.first_steps_once,
    "first_lines_once": sub_cores.first_lines_once, "code_turns": sub_cores.code_turns, "code_by_sm": sub_cores.code_by_sm, "race": sub_cores.race,
    "looks": rivals.looks, "rivals": rivals.rivals, "stale": rivals.stale, "crossfire": rivals.crossfire, "yields": rivals.yields, "hot_lines": hot_lines.hot_lines, "hot_lines_once": hot_lines.hot_lines_once, "hot_sides": hot_lines.hot_sides,
    "waits": waits.waits, "mbarrier_flow": waits.mbarrier_flow, "remote_adds": waits.remote_adds, "cluster_starts": waits.cluster_starts, "uniform_constants": waits.uniform_constants,
    "issue_pairs": sequences.issue_pairs, "warp_pairs": sequences.warp_pairs, "issue_steps": sequences.issue_steps, "issue_mixes": sequences.issue_mixes, "tensor_gaps": sequences.tensor_gaps,
    "sub_core_passes": passes.sub_core_passes, "wide_words": passes.wide_words, "matches": passes.matches, "single_walks": passes.single_walks,
    "loads_beside": passes.loads_beside, "load_bursts": passes.load_bursts, "loads_in_turn": passes.loads_in_turn, "product_steps": passes.product_steps,
    "block_bars": sync.block_bars, "warp_chains": sync.warp_chains, "atomic_chains": sync.atomic_chains, "bars_between": sync.bars_between, "bars_among": sync.bars_among, "scopes": sync.scopes, "beside": sync.beside, "looks_among": sync.looks_among, "bars_masked": sync.bars_masked, "fence_sides": sync.fence_sides, "bar_slopes": sync.bar_slopes, "crowded_looks": sync.crowded_looks, "wakes": sync.wakes, "grid_bars": sync.grid_bars, "sync_cases": sync.sync_cases,
    "row_walks": walks.row_walks, "store_walks": walks.store_walks, "copy_walks": walks.copy_walks, "miss_rate": walks.miss_rate, "few_sms": walks.few_sms, "steps_once": walks.steps_once, "straight_once": walks.straight_once,
    "stream_turns": turns.stream_turns, "cold_walks": turns.cold_walks, "narrow_stores": turns.narrow_stores, "tag_banks": turns.tag_banks, "together_once": turns.together_once, "crowd_once": turns.crowd_once, "store_beside": turns.store_beside, "walks_in_time": turns.walks_in_time,
    "fence_crews": crews.fence_crews, "bulk_crews": crews.bulk_crews, "redux": crews.redux, "tries": crews.tries,
    "empty_once": chip.empty_once, "profile_once": chip.profile_once, "counted_once": divergence.counted_once,
}  # fmt: skip
ON_MODEL = (
    "alu",
    "tensor",
    "control",
    "icache",
    "constant",
    "shared",
    "fetch",
    "bank",
    "lanes",
    "latency",
    "access",
    "queue",
    "fences",
    "order",
    "spin",
    "release",
    "handoff",
    "counted_once",
)


def main() -> int:
    """Parse, run each named benchmark by itself (an error is recorded and the next one runs), write after each."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"benchmarks, all when none is named: {', '.join(SUITES)}")
    parser.add_argument("--device", choices=("card", "model"), default="model")
    parser.add_argument("--gpu", default="h200", help="the model's chip")
    parser.add_argument("--arch", default="90")
    parser.add_argument("--cubins", type=Path, help="folder of cubins built before; built into a cache when left out")
    parser.add_argument("--out", type=Path, help="JSON file to write or add to; big arrays go beside it as .npz")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SUITES]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}: choose from {', '.join(SUITES)}")
    if options.cubins is None:
        from bench.micro.build import build

        options.cubins = build(options.arch)
    names = options.names or (
        list(ON_MODEL) if options.device == "model" else [n for n in SUITES if not n.endswith("_once")]
    )
    device = open_device(options.device, options.gpu)
    ctx = Context(device, options.cubins, options.arch)
    results: dict[str, list[Row]] = {}
    errors: dict[str, str] = {}
    runs: list[dict[str, object]] = []
    if options.out and options.out.exists():
        before = json.loads(options.out.read_text())
        results, errors, runs = before["results"], before["errors"], before["runs"]
    facts = device.describe()
    for name in names:
        began = time.perf_counter()
        errors.pop(name, None)
        try:
            rows = SUITES[name](ctx)
        except Exception as error:  # the card's time is dear: the other benchmarks still run, the error is recorded
            errors[name] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
            rows = []
        seconds = time.perf_counter() - began
        results[name] = rows
        runs.append(
            {
                "benchmark": name,
                "command": " ".join(["python -m bench.micro", *map(_word, sys.argv[1:])]),
                "date": time.strftime("%Y-%m-%d"),
                "seconds": round(seconds, 2),
                **facts,
            }
        )
        show(name, rows, seconds)
        if options.out:
            options.out.write_text(dump({"results": results, "errors": errors, "runs": runs}))
            if ctx.arrays:
                save: Callable[..., None] = np.savez_compressed
                save(options.out.with_suffix(".npz"), **ctx.arrays)
    return 1 if errors else 0


def _word(argument: str) -> str:
    """An argument as a record shows it: of a path, the name alone, because its folder is another one on each machine."""
    return Path(argument).name if "/" in argument else argument


def dump(record: dict[str, Any]) -> str:
    """JSON with one row a line, so that a new measurement reads well in a diff."""
    parts = []
    for name, rows in record["results"].items():
        lines = ",\n".join("  " + json.dumps(item) for item in rows)
        parts.append(f" {json.dumps(name)}: [\n{lines}\n ]")
    head = {key: value for key, value in record.items() if key != "results"}
    return json.dumps(head, indent=1)[:-2] + ',\n "results": {\n' + ",\n".join(parts) + "\n }\n}\n"


def show(name: str, rows: list[Row], seconds: float) -> None:
    """Print rows as `benchmark metric configuration value unit`."""
    print(f"== {name}: {len(rows)} rows in {seconds:.1f} s", flush=True)
    hidden = {"name", "metric", "value", "unit", "warp0", "last", "smids", "groups", "first_wave", "smi"}
    for item in rows:
        where = " ".join(f"{k}={v}" for k, v in item.items() if k not in hidden)
        print(f"{item['name']:24} {item['metric']:34} {where:44} {item['value']:>12} {item['unit']}")


if __name__ == "__main__":
    raise SystemExit(main())

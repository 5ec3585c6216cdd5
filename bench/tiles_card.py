"""Measures on a real card what ``bench.tiles`` measures on the model: programs with shared memory, and the same programs remapped to L1.

On the machine with the compiler (the model chooses the number of parts of the remapped arrays and records its own cycles)::

    python -m bench.tiles_card prepare --gpu h200 --to build/tiles
On the machine with the card (needs NumPy, SciPy and ncu)::

    python -m bench.tiles_card record --from build/tiles --out tiles.json
Both beside each other::

    python -m bench.tiles_card show
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from bench import validation
from bench.corpus_card import CYCLES, card_line, launch_case, under_ncu, value
from bench.device import Card

WAYS = ("shared", "in_l1")
METRICS = (
    *(CYCLES, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
    *("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", "lts__t_sectors_op_write.sum"),
)
FIGURE_MEAN = 0.07
"""Figure 4 of Choquette et al. (Volta, IEEE Micro 2018): what programs lose on V100 in the mean."""
STORED = Path(__file__).parent / "data" / "h200" / "tiles.json"


def prepare(gpu: str, folder: Path, names: list[str]) -> None:
    """Both cubins of each program, and the model's figures for them."""
    import warpwright as ww
    from bench.tiles import pairs
    from warpwright.toolchain import compile_source

    folder.mkdir(parents=True, exist_ok=True)
    chip = ww.GPU(gpu, timing="full")
    model: dict[str, dict[str, dict[str, float]]] = {}
    for both in pairs(chip, names):
        model[both.name] = {}
        for way, source, run, parts in zip(
            WAYS, both.sources, (both.shared, both.cached), (1, both.parts), strict=True
        ):
            options = [*both.case.options, f"-DTILES_PARTS={parts}"]
            compiled = compile_source(source, chip.chip.arch, options=options)
            (folder / f"{both.name}.{way}.cubin").write_bytes(compiled.cubin)
            model[both.name][way] = {metric: float(run.metrics[metric]) for metric in METRICS}
        print(both.name, flush=True)
    (folder / "model.json").write_text(json.dumps({"gpu": gpu, "programs": model}, indent=1) + "\n")


def prepared(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """The model's counters by program and way."""
    programs: dict[str, dict[str, dict[str, float]]] = json.loads((folder / "model.json").read_text())["programs"]
    return programs


def launch(folder: Path) -> None:
    """Launch every program both ways and verify its results: what runs under ncu."""
    card = Card()
    for name in prepared(folder):
        case = validation.case(name)
        for way in WAYS:
            case.verify(launch_case(card, case, (folder / f"{name}.{way}.cubin").read_bytes()))


def record(folder: Path, out: Path) -> None:
    """Measure every program both ways under ncu and write the data file, including the model's counters."""
    model = prepared(folder)
    rows, text = under_ncu(["bench.tiles_card", "launch", "--from", str(folder)], METRICS)
    if len(rows) != 2 * len(model):
        raise SystemExit(f"ncu measured {len(rows)} of {2 * len(model)} launches: {text[-1500:]}")
    card = {
        name: {way: {m: float(value(rows[2 * i + j], m)) for m in METRICS} for j, way in enumerate(WAYS)}
        for i, name in enumerate(model)
    }
    command = "python -m bench.tiles_card record --from build/tiles"
    out.write_text(
        json.dumps({"card": card_line(), "command": command, "programs": card, "model": model}, indent=1) + "\n"
    )


def slowdown(ways: dict[str, dict[str, float]]) -> float:
    return ways["in_l1"][CYCLES] / ways["shared"][CYCLES]


def found(ways: dict[str, dict[str, float]]) -> float:
    """Share of the sectors read that L1 held, of the remapped program."""
    return ways["in_l1"][METRICS[2]] / max(ways["in_l1"][METRICS[1]], 1)


def subset(card: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """The most programs for which a card agrees with the figure: those that lose least, as long as their mean is not above the figure's."""
    names = sorted(card, key=lambda name: slowdown(card[name]))
    means = np.cumsum([slowdown(card[name]) - 1 for name in names]) / np.arange(1, len(names) + 1)
    return names[: int(np.count_nonzero(means <= FIGURE_MEAN))]


def show(path: Path) -> None:
    """The slowdowns of card and model, in the order of the card's."""
    data = json.loads(path.read_text())
    card, model = data["programs"], data["model"]
    print(f"{'':20s} {'card':>7s} {'model':>7s}   found in L1: card, model")
    for name in sorted(card, key=lambda name: slowdown(card[name])):
        theirs, ours = card[name], model[name]
        print(
            f"{name:20s} {100 * (slowdown(theirs) - 1):+6.0f}% {100 * (slowdown(ours) - 1):+6.0f}%"
            f"   {100 * found(theirs):3.0f}% {100 * found(ours):3.0f}%"
        )
    for which, programs in (("card", card), ("model", model)):
        all_of_them = np.array([slowdown(ways) for ways in programs.values()])
        print(
            f"{which}: mean {100 * (all_of_them.mean() - 1):+.0f}%,"
            f" geometric mean {100 * (np.exp(np.log(all_of_them).mean()) - 1):+.0f}%,"
            f" median {100 * (np.median(all_of_them) - 1):+.0f}%"
        )
    chosen = subset(card)
    theirs, ours = (np.mean([slowdown(programs[name]) - 1 for name in chosen]) for programs in (card, model))
    print(
        f"the {len(chosen)} programs that lose least, for which the card agrees with the figure ({100 * FIGURE_MEAN:.0f}%): card {100 * theirs:+.1f}%,"
        f" model {100 * ours:+.1f}%; on other chips: python -m bench.tiles {' '.join(chosen)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "launch", "record", "show"])
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/tiles"))
    parser.add_argument("--out", type=Path, default=Path("tiles.json"))
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.what == "prepare":
        prepare(given.gpu, given.folder, given.names)
    elif given.what == "launch":
        launch(given.folder)
    elif given.what == "record":
        record(given.folder, given.out)
    else:
        show(STORED if given.out == Path("tiles.json") else given.out)


if __name__ == "__main__":
    main()

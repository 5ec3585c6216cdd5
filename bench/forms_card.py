"""The forms of every PTX instruction on a real card: the same machine code, the same values, whole arrays compared.

On any machine with the package installed::

    python -m bench.forms_card prepare --to build/forms            # cubins, and digests of what the compiled engine gives
On the machine with the card (needs NumPy and NVIDIA's driver)::

    python -m bench.forms_card run --from build/forms --out build/forms_h200

``run`` writes ``digests.npz`` (a CRC-32 of every result slot and of the scratch memory, by form) and ``differ.npz``,
the whole results of forms that differ from the prepared digests.  ``python -m bench.forms_card check`` compares the
digests of the repository with what the engine gives now.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.forms import all_forms
from tests.forms.form import COUNT, SLOT_BYTES, Form, slots
from tests.forms.values import inputs

ARCH = 90
SECONDS = 20
"""A form that runs for longer is taken for one that hangs."""
DATA = Path(__file__).parent / "data" / "h200" / "forms.npz"


def digests(form: Form, data: np.ndarray) -> list[int]:
    """CRC-32 of each result slot, and of the scratch memory after them."""
    size = COUNT * SLOT_BYTES
    parts = [data[n * size : (n + 1) * size] for n in range(slots(form))]
    return [zlib.crc32(p.tobytes()) for p in (*parts, data[slots(form) * size :])]


def keys(forms: Sequence[Form]) -> list[str]:
    """A unique name for each form, because several rows may generate the same instruction."""
    seen: Counter[str] = Counter()
    found = []
    for form in forms:
        name = f"{form.section}: {form.name}"
        seen[name] += 1
        found.append(f"{name} #{seen[name]}")
    return found


def prepare(folder: Path, sections: Sequence[str], with_digests: bool) -> None:
    """Cubins, and the digests of the compiled engine (none for a form that it does not run, or none at all)."""
    from tests.forms.run import EXPECTED, batches, one_line, open_module, run

    folder.mkdir(parents=True, exist_ok=True)
    forms = [f for f in all_forms(ARCH) if not sections or f.section in sections]
    names = dict(zip(map(id, forms), keys(forms), strict=True))
    modules: list[dict[str, Any]] = []
    cubins = []
    for number, batch in enumerate(batches(ARCH, forms)):
        cubins.append(batch.cubin)
        expected: list[Any] = []
        try:
            module = open_module(batch, "compiled", "h200")[1] if with_digests else None
        except EXPECTED as error:
            print(number, one_line(error), file=sys.stderr)
            module = None
        for n, form in enumerate(batch.forms):
            try:
                expected.append(None if module is None else digests(form, run(module, form, n)))
            except EXPECTED:
                expected.append(None)
        if not with_digests:
            expected = []
        modules.append({"forms": [names[id(f)] for f in batch.forms], "expected": expected})
        print(number, len(batch.forms), file=sys.stderr, flush=True)
    (folder / "forms.json").write_text(json.dumps(modules))
    packed = lzma.compress(b"".join(len(c).to_bytes(4, "little") + c for c in cubins), preset=6)
    (folder / "cubins.xz").write_bytes(packed)
    print(f"{sum(len(m['forms']) for m in modules)} forms in {len(modules)} modules, {len(packed) / 1e6:.1f} MB")


def unpacked(folder: Path) -> list[bytes]:
    data = lzma.decompress((folder / "cubins.xz").read_bytes())
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def launch(folder: Path, first: int, out: Path) -> None:
    """Run modules starting from a given one, without the forms named in the file ``skip``; the file ``at`` holds the current position."""
    from bench.device import Card
    from tests.forms.values import scratch_memory

    card, modules, cubins = Card(), json.loads((folder / "forms.json").read_text()), unpacked(folder)
    forms = all_forms(ARCH)
    by_name = dict(zip(keys(forms), forms, strict=True))
    scratch_start = scratch_memory()
    most = max(slots(f) for f in forms) * COUNT * SLOT_BYTES
    into, output, scratch = card.alloc(64 * COUNT * SLOT_BYTES), card.alloc(most), card.alloc(scratch_start.nbytes)
    skip = set((out / "skip").read_text().split("\n"))
    for m in range(first, len(modules)):
        known, whole = {}, {}
        loaded = card.load(cubins[m])
        for n, name in enumerate(modules[m]["forms"]):
            if name in skip:
                continue
            (out / "at").write_text(f"{m} {n}")
            form = by_name[name]
            table, fixed = inputs(form)
            into.write(table)
            output.zero()
            scratch.write(scratch_start)
            blocks = COUNT // form.row.threads if form.row.threads < COUNT // 2 else 2
            loaded.enqueue(f"f{n}", blocks, form.row.threads, [into, output, scratch, *(np.uint64(v) for v in fixed)])
            data = np.concatenate(
                [output.read(np.uint8, slots(form) * COUNT * SLOT_BYTES), scratch.read(np.uint8, scratch_start.nbytes)]
            )
            known[name] = digests(form, data)
            expected = modules[m]["expected"]
            if expected and known[name] != expected[n] and not form.row.unordered:
                changed = not np.array_equal(data[-scratch_start.nbytes :], scratch_start)
                whole[name] = data if changed else data[: -scratch_start.nbytes]
        np.savez(out / f"whole_{m}.npz", **whole)
        (out / f"known_{m}.json").write_text(json.dumps(known))
    (out / "at").write_text("done")


def run_card(folder: Path, out: Path) -> None:
    """Run everything, a fresh process after each failure."""
    out.mkdir(parents=True, exist_ok=True)
    parts = out / "parts"
    parts.mkdir(exist_ok=True)
    first, failures = 0, {}
    modules = json.loads((folder / "forms.json").read_text())
    while True:
        (parts / "at").write_text(f"{first} 0")
        (parts / "skip").write_text("\n".join(failures))
        command = [sys.executable, "-m", "bench.forms_card", "launch", "--from", str(folder), "--out", str(parts)]
        child = subprocess.Popen([*command, "--first", str(first)], stderr=subprocess.PIPE, text=True)
        reached, since = "", time.monotonic()
        while child.poll() is None:
            time.sleep(0.05)
            now = (parts / "at").read_text()
            if now != reached:
                reached, since = now, time.monotonic()
            if time.monotonic() - since > SECONDS:
                child.kill()
        reached = (parts / "at").read_text()
        if reached == "done":
            break
        m, n = map(int, reached.split())
        lines = (child.stderr.read() if child.stderr else "").strip().splitlines() or ["hangs"]
        failures[modules[m]["forms"][n]] = lines[-1]
        print(modules[m]["forms"][n], lines[-1], flush=True)
        first = m  # the module's earlier forms run again: their results were not written yet
    known: dict[str, list[int]] = {}
    whole: dict[str, np.ndarray] = {}
    for path in sorted(parts.glob("known_*.json")):
        known.update(json.loads(path.read_text()))
    for path in sorted(parts.glob("whole_*.npz")):
        with np.load(path) as data:
            whole.update(data)
    save(out / "digests.npz", known)
    names = list(whole)
    sizes = np.array([len(whole[n]) for n in names])
    with lzma.open(out / "differ.xz", "wb", preset=1) as file:
        file.write(json.dumps({"names": names, "sizes": sizes.tolist(), "failures": failures}).encode() + b"\n")
        for name in names:
            file.write(whole[name].tobytes())
    print(f"{len(known)} forms ran, {len(whole)} differ from the prepared digests, {len(failures)} failed")


def save(path: Path, known: dict[str, list[int]]) -> None:
    """Digests by name as three arrays."""
    names = sorted(known)
    flat = np.array([d for name in names for d in known[name]], np.uint32)
    np.savez_compressed(
        path, names="\n".join(names), counts=np.array([len(known[n]) for n in names], np.uint8), digests=flat
    )


def load(path: Path = DATA) -> dict[str, list[int]]:
    with np.load(path) as data:
        names, counts, flat = str(data["names"]).split("\n"), data["counts"], data["digests"]
    ends = np.cumsum(counts)
    return {name: flat[end - count : end].tolist() for name, count, end in zip(names, counts, ends, strict=True)}


def check(sections: Sequence[str], only: str) -> int:
    """Compare the card's digests with the compiled engine's results of now; returns the number of forms that differ."""
    import fnmatch

    from tests.forms.run import EXPECTED, batches, one_line, open_module, run

    card = load()
    forms = all_forms(ARCH)
    names = dict(zip(map(id, forms), keys(forms), strict=True))
    chosen = [
        f for f in forms if (not sections or f.section in sections) and (not only or fnmatch.fnmatch(f.name, only))
    ]
    counts: Counter[str] = Counter()
    for batch in batches(ARCH, chosen):
        _, module = open_module(batch, "compiled", "h200")
        for n, form in enumerate(batch.forms):
            name = names[id(form)]
            counts["forms"] += 1
            if form.row.unordered or name not in card:
                counts["unordered" if form.row.unordered else "not on the card"] += 1
                continue
            try:
                mine = digests(form, run(module, form, n))
            except EXPECTED as error:
                counts["do not run"] += 1
                print(f"{name}: {one_line(error)}")
                continue
            if mine == card[name]:
                counts["same bits"] += 1
            else:
                counts["differ"] += 1
                wrong = [k for k, (x, y) in enumerate(zip(mine, card[name], strict=False)) if x != y]
                print(f"{name}: slots {wrong} of {len(mine)}")
    print(", ".join(f"{v} {k}" for k, v in counts.items()))
    return counts["differ"] + counts["do not run"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "launch", "run", "check"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/forms"))
    parser.add_argument("--out", type=Path, default=Path("build/forms_h200"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--section", nargs="*", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--cubins-only", action="store_true", help="prepare: no digests of the engine")
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        prepare(arguments.folder, arguments.section, not arguments.cubins_only)
    elif arguments.what == "launch":
        launch(arguments.folder, arguments.first, arguments.out)
    elif arguments.what == "run":
        run_card(arguments.folder, arguments.out)
    else:
        sys.exit(bool(check(arguments.section, arguments.only)))


if __name__ == "__main__":
    main()

"""Every form of every PTX instruction, through machine code in both engines and through the PTX front end.

    python -m bench.forms                                 # sm_60, sm_70, sm_80 and sm_90: the table of counts
    python -m bench.forms --arch 90 --section convert --only 'cvt.rn.*'
    python -m bench.forms --arch 75 86 89 --engines       # compile and decode alone
    python -m bench.forms --keep build/forms_kept         # may be stopped: what agreed is not run again
    python -m bench.forms --arch 70 --section video --every 8     # a sample
    python -m bench.forms --store                         # the counts go to bench/data/forms.json
    python -m bench.forms --stored                        # the table of those counts

Each form is a kernel of its own (``tests/forms``) on the same edge and random values everywhere.  Where NVIDIA's
disassembler is at hand (see ``tests/sass_oracle.py``), the text of every distinct machine word is compared with it; on sm_90
results are an H200's too (``bench/forms_card.py``).
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from bench import forms_card
from tests import maxwell_oracle
from tests.forms import SECTIONS, all_forms
from tests.forms.form import Form
from tests.forms.run import CHIPS, ENGINES, RELATIVES, build, compare, grouped, module_text
from tests.sass_oracle import disassemble_words, find_nvdisasm
from warpwright.isa.machine_code import FIRST_WIDE
from warpwright.isa.maxwell import decode as narrow
from warpwright.isa.sass import UnknownEncoding, decode, format_instruction
from warpwright.isa.sass.decode import ROWS, find_row, words_of
from warpwright.isa.sass.fields import Row
from warpwright.toolchain.cubin import read_cubin

ROOT = Path(__file__).parent.parent
STORED = ROOT / "bench" / "data" / "forms.json"
COLUMNS = ("of", "forms", "refused", "words", "decoded", "run", "agree", "unordered", "misassembled")


class Decoding:
    """Distinct machine words of one architecture, and those that do not print as NVIDIA prints them."""

    def __init__(self, arch: int) -> None:
        self.arch = arch
        self.tool = find_nvdisasm()
        self.seen: set[int] = set()
        self.wrong: list[str] = []
        self.reached: set[Row] = set()
        """Rows of the decoder's tables that a word belongs to."""

    def words_of(self, cubin: bytes) -> list[int]:
        """The distinct words of a cubin."""
        words = [w for code in read_cubin(cubin, "forms").code.values() for w in self.words(code)]
        return list(dict.fromkeys(words))

    def add(self, words: Sequence[int], section: str, counts: Counter[str]) -> None:
        """Decode the words that were not there before."""
        fresh = [w for w in words if w not in self.seen]
        self.seen.update(fresh)
        counts["words"] += len(fresh)
        with tempfile.TemporaryDirectory() as folder:
            wrong = (self.compare if self.arch >= FIRST_WIDE else self.compare_narrow)(fresh, Path(folder))
        counts["decoded"] += len(fresh) - len(wrong)
        self.wrong += [f"{section}: {line}" for line in wrong]

    def words(self, code: bytes) -> list[int]:
        """The instructions of a section."""
        if self.arch >= FIRST_WIDE:
            return words_of(code)
        return [int.from_bytes(code[at : at + 8], "little") for at in range(0, len(code), 8) if at % 32]

    def compare(self, words: Sequence[int], folder: Path) -> list[str]:
        """A line for each 128-bit word that is not printed as NVIDIA prints it."""
        texts = disassemble_words(self.tool, self.arch, words, folder) if self.tool and words else None
        wrong = []
        for n, word in enumerate(words):
            if row := find_row(word, self.arch):
                self.reached.add(row[0])
            try:
                printed = format_instruction(decode(word, self.arch, 16 * n))
            except UnknownEncoding as error:
                printed = str(error)
            wanted = texts[n] if texts else printed
            if printed != wanted or printed.startswith("sm_"):
                wrong.append(f"{word:#034x}: {wanted!r}, not {printed!r}")
        return wrong

    def compare_narrow(self, words: Sequence[int], folder: Path) -> list[str]:
        """The same for 64-bit words."""
        self.reached |= {row[0] for word in words if (row := narrow.find_row(word, self.arch))}
        if self.tool:
            return maxwell_oracle.compare(self.tool, self.arch, words, folder)
        return [f"{w:016x}: unknown" for w in words if maxwell_oracle.printed(w, self.arch, 8) is None]

    def rows(self) -> Sequence[Row]:
        """The decoder's tables for the architecture."""
        if self.arch >= FIRST_WIDE:
            return [r for r in ROWS if r.first <= self.arch <= r.last]
        return [r for r in narrow.ROWS if r.first <= self.arch]


def chosen(arch: int, sections: Sequence[str], only: str, every: int) -> list[Form]:
    """The forms of an architecture in some sections whose names fit a pattern, or each n-th of them."""
    found: list[Form] = []
    for section in sections or SECTIONS:
        mine = [f for f in all_forms(arch) if f.section == section and (not only or fnmatch.fnmatch(f.name, only))]
        found += mine[::every]
    return found


@dataclass
class Part:
    """Results for the forms of one module: counts by kind, and one line per wrong form."""

    refused: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    """The distinct machine words, as hexadecimal numbers."""
    agree: int = 0
    unordered: int = 0
    misassembled: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)


class Kept:
    """Parts on disk, a line each, so that a long run may be stopped and what was wrong alone runs again."""

    def __init__(self, folder: Path | None, alone: bool, arch: int) -> None:
        self.alone = alone
        """Whether nothing but what is kept counts."""
        self.path = folder / f"sm_{arch}.jsonl" if folder else None
        self.parts: dict[str, Part] = {}
        if self.path and self.path.exists():
            lines = [json.loads(line) for line in self.path.read_text().splitlines()]
            self.parts = {line["key"]: Part(**line["part"]) for line in lines}

    def get(self, key: str) -> Part | None:
        part = self.parts.get(key)
        return None if part is None or part.wrong else part

    def put(self, key: str, part: Part) -> None:
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"key": key, "part": asdict(part)}) + "\n")


def key_of(form: Form, known: dict[str, str]) -> str:
    """A name that is not there yet: several rows may write one instruction."""
    same = sum(name.split(" #")[0] == form.name for name in known)
    return f"{form.name} #{same + 1}" if same else form.name


@cache
def of_card(arch: int) -> dict[Form, list[int]]:
    """Digests of an H200's results, for its architecture."""
    known = forms_card.load() if arch == forms_card.ARCH else {}
    forms = all_forms(arch) if known else []
    return {form: known[key] for form, key in zip(forms, forms_card.keys(forms), strict=True) if key in known}


def run_part(arch: int, target: str, forms: Sequence[Form], decoding: Decoding, engines: Sequence[str]) -> Part:
    """Compile and run the forms of one module."""
    batch = build(arch, target, forms)
    part = Part({f.name: why for f, why in batch.refused.items()})
    if batch.cubin:
        part.words = [f"{w:x}" for w in decoding.words_of(batch.cubin)]
    for outcome in compare(batch, engines) if engines and batch.forms else ():
        if outcome.form.row.unordered and not outcome.errors:
            part.unordered += 1
        elif outcome.agrees:
            card = of_card(arch).get(outcome.form)
            if card is None or card == forms_card.digests(outcome.form, next(iter(outcome.results.values()))):
                part.agree += 1
            else:
                part.wrong[key_of(outcome.form, part.wrong)] = "an H200 has other bits"
        elif why := outcome.misassembled:
            part.misassembled[key_of(outcome.form, part.misassembled)] = why
        else:
            part.wrong[key_of(outcome.form, part.wrong)] = outcome.difference()
    return part


def measure(
    arch: int, forms: Sequence[Form], engines: Sequence[str], folder: Path | None, alone: bool
) -> tuple[dict[str, Counter[str]], list[str], list[str]]:
    """Counts by section, a line for each thing that is wrong, and one for each form that the assembler changes."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    decoding, kept, begun, done = Decoding(arch), Kept(folder, alone, arch), time.monotonic(), 0
    wrong: list[str] = []
    named: list[str] = []
    for section in SECTIONS:
        mine = [f for f in forms if f.section == section]
        row = counts[section] if mine else Counter()
        row["of"] = sum(f.section == section for f in all_forms(arch))
        for target, chosen in grouped(mine):
            text = f"{module_text(arch, target, chosen)} {' '.join(engines)}"
            key = f"{section} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
            part = kept.get(key)
            if part is None and kept.alone:
                continue
            if part is None:
                part = run_part(arch, target, chosen, decoding, engines)
                kept.put(key, part)
            decoding.add([int(w, 16) for w in part.words], section, row)
            row.update(forms=len(chosen), refused=len(part.refused), agree=part.agree, unordered=part.unordered)
            row["misassembled"] += len(part.misassembled)
            row["run"] += len(chosen) - len(part.refused) if engines else 0
            wrong += [f"{section}: {name}: refused: {why}" for name, why in part.refused.items()]
            wrong += [f"{section}: {name}: {why}" for name, why in part.wrong.items()]
            named += [f"{section}: {name}: {why}" for name, why in part.misassembled.items()]
            done += len(chosen)
            report = f"sm_{arch} {section}: {done:,} of {len(forms):,} forms, {time.monotonic() - begun:.0f} s"
            print(f"{report}; " + ", ".join(f"{row[c]} {c}" for c in COLUMNS), file=sys.stderr, flush=True)
    rows = decoding.rows()
    missing = sorted({r.opcode for r in rows} - {r.opcode for r in decoding.reached})
    reached = sum(r in decoding.reached for r in rows)
    print(f"sm_{arch}: {reached} of {len(rows)} rows of the decoder's tables reached; no row of {' '.join(missing)}")
    return counts, [*decoding.wrong, *wrong], named


def table(counts: dict[int, dict[str, Counter[str]]]) -> str:
    """The table of counts."""
    lines = [f"| architecture | section | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for arch, sections in counts.items():
        total: Counter[str] = Counter()
        for section, row in sections.items():
            total.update(row)
            lines.append(f"| sm_{arch} | {section} | " + " | ".join(f"{row[c]:,}" for c in COLUMNS) + " |")
        lines.append(f"| sm_{arch} | all | " + " | ".join(f"{total[c]:,}" for c in COLUMNS) + " |")
    return "\n".join(lines)


def store(arch: int, counts: dict[str, Counter[str]], wrong: Sequence[str], named: Sequence[str]) -> None:
    """Keep the counts of an architecture's sections, what is wrong and what is misassembled in the repository's data."""
    known = json.loads(STORED.read_text()) if STORED.exists() else {}
    kept = known.setdefault(str(arch), {"counts": {}, "wrong": [], "misassembled": []})
    kept["counts"] |= {section: {c: row[c] for c in COLUMNS} for section, row in counts.items()}
    kept["counts"] = {section: kept["counts"][section] for section in SECTIONS if section in kept["counts"]}
    for what, lines in (("wrong", wrong), ("misassembled", named)):
        kept[what] = sorted([*(w for w in kept[what] if w.split(":")[0] not in counts), *lines])
    STORED.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def print_stored() -> None:
    known = json.loads(STORED.read_text())
    print(table({int(a): {s: Counter(row) for s, row in kept["counts"].items()} for a, kept in known.items()}))
    print(
        *(f"sm_{arch} {line}" for arch, kept in known.items() for line in (*kept["wrong"], *kept["misassembled"])),
        sep="\n",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, nargs="+", default=sorted(CHIPS), choices=sorted({**CHIPS, **RELATIVES}))
    parser.add_argument("--section", nargs="*", default=[], choices=[*SECTIONS])
    parser.add_argument("--only", default="", help="forms whose names fit this pattern (* and ?)")
    parser.add_argument("--every", type=int, default=1, help="a sample: each n-th form of a section")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--show", type=int, default=40, help="how many of the wrong ones are printed")
    parser.add_argument("--keep", type=Path, help="folder of what agreed already")
    parser.add_argument("--kept", action="store_true", help="count what --keep has already, and run nothing")
    parser.add_argument("--store", action="store_true", help=f"write the counts to {STORED.relative_to(ROOT)}")
    parser.add_argument("--stored", action="store_true", help="print the table of the stored counts alone")
    arguments = parser.parse_args()
    if arguments.stored:
        print_stored()
        return
    gc.set_threshold(100_000)  # hardly anything here is garbage in a cycle: collecting took a seventh of the time
    counts, failures = {}, []
    for arch in arguments.arch:
        forms = chosen(arch, arguments.section, arguments.only, arguments.every)
        counts[arch], wrong, named = measure(arch, forms, arguments.engines, arguments.keep, arguments.kept)
        if arguments.store:
            store(arch, counts[arch], wrong, named)
        print(*named, sep="\n")
        failures += [f"sm_{arch} {line}" for line in wrong]
    print(table(counts))
    print(*failures[: arguments.show], sep="\n")
    if len(failures) > arguments.show:
        print(f"… and {len(failures) - arguments.show} more")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

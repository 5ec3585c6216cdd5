"""Every form of every PTX instruction, through machine code in both engines and through the PTX front end.

    python -m bench.forms                                 # sm_60, sm_70, sm_80 and sm_90: the table of counts
    python -m bench.forms --arch 90 --section convert --only 'cvt.rn.*'
    python -m bench.forms --arch 75 86 89 --engines       # compile and decode alone

Each form is a kernel of its own (``tests/forms``) on the same edge and random values everywhere.  Where NVIDIA's
disassembler is at hand (see ``tests/sass_oracle.py``), the text of every distinct machine word is compared with it.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests import maxwell_oracle
from tests.forms import SECTIONS, all_forms
from tests.forms.form import Form
from tests.forms.run import CHIPS, ENGINES, Outcome, batches, compare
from tests.sass_oracle import disassemble_words, find_nvdisasm
from warpwright.isa.machine import FIRST_WIDE
from warpwright.isa.maxwell import decode as narrow
from warpwright.isa.sass import UnknownEncoding, decode, format_instruction
from warpwright.isa.sass.decode import ROWS, find_row, words_of
from warpwright.isa.sass.fields import Row
from warpwright.toolchain.cubin import read_cubin

COLUMNS = ("forms", "refused", "words", "decoded", "run", "agree", "unordered")


class Decoding:
    """Distinct machine words of one architecture, and those that do not print as NVIDIA prints them."""

    def __init__(self, arch: int) -> None:
        self.arch = arch
        self.tool = find_nvdisasm()
        self.seen: set[int] = set()
        self.wrong: list[str] = []
        self.reached: set[Row] = set()
        """Rows of the decoder's tables that a word belongs to."""

    def add(self, cubin: bytes, section: str, counts: Counter[str]) -> None:
        """Decode the words of a cubin that were not there before."""
        fresh = []
        for code in read_cubin(cubin, "forms").code.values():
            fresh += [w for w in dict.fromkeys(self.words(code)) if w not in self.seen]
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
        self.reached |= {row[0] for word in words if (row := narrow.find_row(word))}
        if self.tool:
            return maxwell_oracle.compare(self.tool, words, folder)
        return [f"{w:016x}: unknown" for w in words if maxwell_oracle.printed(w, 8) is None]

    def rows(self) -> Sequence[Row]:
        """The decoder's tables for the architecture."""
        return [r for r in ROWS if r.first <= self.arch <= r.last] if self.arch >= FIRST_WIDE else narrow.ROWS


def chosen(arch: int, sections: Sequence[str], only: str) -> list[Form]:
    """The forms of an architecture in some sections whose names fit a pattern."""
    return [
        f
        for f in all_forms(arch)
        if (not sections or f.section in sections) and (not only or fnmatch.fnmatch(f.name, only))
    ]


def measure(
    arch: int, forms: Sequence[Form], engines: Sequence[str], verbose: int
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Counts by section, and a line for each thing that is wrong."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    decoding, wrong = Decoding(arch), []
    for section in SECTIONS:
        mine = [f for f in forms if f.section == section]
        if not mine:
            continue
        row = counts[section]
        row["forms"] = len(mine)
        for batch in batches(arch, mine):
            row["refused"] += len(batch.refused)
            wrong += [f"{section}: {f.name}: refused: {why}" for f, why in batch.refused.items()]
            if batch.cubin:
                decoding.add(batch.cubin, section, row)
            for outcome in compare(batch, engines) if engines and batch.forms else ():
                row["run"] += 1
                note(outcome, row, wrong)
        print(f"sm_{arch} {section}: " + ", ".join(f"{row[c]} {c}" for c in COLUMNS), file=sys.stderr, flush=True)
    rows = decoding.rows()
    missing = sorted({r.opcode for r in rows} - {r.opcode for r in decoding.reached})
    reached = sum(r in decoding.reached for r in rows)
    print(f"sm_{arch}: {reached} of {len(rows)} rows of the decoder's tables reached; no row of {' '.join(missing)}")
    return counts, [*decoding.wrong, *wrong]


def note(outcome: Outcome, row: Counter[str], wrong: list[str]) -> None:
    if outcome.form.row.unordered and not outcome.errors:
        row["unordered"] += 1
    elif outcome.agrees:
        row["agree"] += 1
    else:
        wrong.append(f"{outcome.form.section}: {outcome.form.name}: {outcome.difference()}")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, nargs="+", default=sorted(CHIPS))
    parser.add_argument("--section", nargs="*", default=[], choices=[*SECTIONS])
    parser.add_argument("--only", default="", help="forms whose names fit this pattern (* and ?)")
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--show", type=int, default=40, help="how many of the wrong ones are printed")
    arguments = parser.parse_args()
    counts, failures = {}, []
    for arch in arguments.arch:
        engines = arguments.engines if arch in CHIPS else []
        counts[arch], wrong = measure(arch, chosen(arch, arguments.section, arguments.only), engines, arguments.show)
        failures += [f"sm_{arch} {line}" for line in wrong]
    print(table(counts))
    print(*failures[: arguments.show], sep="\n")
    if len(failures) > arguments.show:
        print(f"… and {len(failures) - arguments.show} more")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

"""Tables of L1, shared memory, L2 and DRAM: accesses, sectors, hit rates and bytes by kind, from the counters of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from warpwright.chips import Chip
from warpwright.quantity_text import amount_text, figures, share_text, size_text
from warpwright.tools.report.attribution import wavefront_bytes
from warpwright.tools.report.markup import datum, panel, rows_table, scroll

L1 = "l1tex__t"
NOTE = '"note"'


@dataclass(frozen=True, slots=True)
class L1Row:
    """One kind of access to L1."""

    name: str
    requests: float
    """Warp-instructions."""
    sectors: float
    """Of the chip's sector size."""
    hits: float | None
    """Sectors found; None for what is not looked up."""


@dataclass(frozen=True, slots=True)
class L2Row:
    """One kind of access to L2, or one origin of accesses."""

    group: str
    """operation | from."""
    name: str
    sectors: float


def l1_rows(metrics: Mapping[str, float]) -> tuple[L1Row, ...]:
    """Kinds of accesses that were made."""

    def found() -> Iterator[L1Row]:
        for name, word in (("global", "global"), ("local", "local")):
            for direction, op in (("loads", "ld"), ("stores", "st")):
                key = f"pipe_lsu_mem_{word}_op_{op}"
                requests = metrics.get(f"{L1}_requests_{key}.sum", 0.0)
                sectors = metrics.get(f"{L1}_sectors_{key}.sum")
                if requests and sectors is not None:
                    yield L1Row(
                        f"{name} {direction}", requests, sectors, metrics.get(f"{L1}_sectors_{key}_lookup_hit.sum")
                    )

    return tuple(found())


def l2_rows(metrics: Mapping[str, float]) -> tuple[L2Row, ...]:
    """Sectors looked up in L2 by operation, and by where they came from."""
    words = (
        ("operation", "reads", "lts__t_sectors_op_read.sum"),
        ("operation", "writes", "lts__t_sectors_op_write.sum"),
        ("operation", "atomics", "lts__t_sectors_op_atom.sum"),
        ("operation", "fences", "lts__t_sectors_op_membar.sum"),
        ("from", "SMs, reads", "lts__t_sectors_srcunit_tex_op_read.sum"),
        ("from", "SMs, writes", "lts__t_sectors_srcunit_tex_op_write.sum"),
        ("from", "code and constants", "lts__t_sectors_srcunit_gcc_op_read.sum"),
        ("from", "the other partition, reads", "lts__t_sectors_srcunit_ltcfabric_op_read.sum"),
    )
    return tuple(L2Row(group, name, metrics[key]) for group, name, key in words if metrics.get(key))


def caches_panel(metrics: Mapping[str, float], chip: Chip, seconds: float, anchor: str) -> str:
    """Tables of L1, shared memory, L2 and DRAM."""
    sector = chip.l1.sector_bytes
    tables = (
        ("L1", f"Requests are warp-instructions; a sector has {sector} bytes.", _l1(metrics, sector)),
        (
            "Shared memory",
            "A bank conflict is a wavefront beyond the minimum that the accesses need.",
            _shared(metrics, wavefront_bytes(chip)),
        ),
        ("L2", _l2_note(metrics, sector), _l2(metrics, sector)),
        ("DRAM", "", _dram(metrics, seconds)),
    )
    content = "".join(
        f"<div><h4>{name}</h4>{f'<p class={NOTE}>{escape(note)}</p>' if note else ''}{scroll(name, table)}</div>"
        for name, note, table in tables
    )
    return panel("Caches and memory", content, anchor, "whole tables")


def _count(name: str, value: float) -> str:
    return datum(name, value, f"{value:,.0f}")


def _nothing(columns: int, what: str) -> list[str]:
    return [f'<tr><td colspan="{columns}">{escape(what)}</td></tr>']


def _l1(metrics: Mapping[str, float], sector_bytes: int) -> str:
    rows = []
    for row in l1_rows(metrics):
        rate = "" if row.hits is None or not row.sectors else share_text(row.hits / row.sectors)
        rows.append(
            f"<tr><td>{row.name}</td>{_count(f'L1 {row.name}: requests', row.requests)}"
            f"{_count(f'L1 {row.name}: sectors', row.sectors)}"
            f'<td class="num">{figures(row.sectors / row.requests)}</td>'
            f'<td class="num">{size_text(row.sectors * sector_bytes)}</td><td class="num">{rate}</td></tr>'
        )
    return rows_table(
        "",
        ("access", "requests", "sectors", "sectors per request", "data", "hit rate"),
        rows or _nothing(6, "The kernel has no loads or stores of global or local memory."),
    )


def _shared(metrics: Mapping[str, float], pass_bytes: int) -> str:
    wavefronts = metrics.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 0.0)
    rows = []
    if wavefronts:
        conflicts = metrics.get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", 0.0)
        loads, stores = (metrics.get(f"smsp__inst_executed_op_shared_{op}.sum", 0.0) for op in ("ld", "st"))
        rows.append(
            f"<tr><td>shared memory</td>{_count('shared: loads', loads)}{_count('shared: stores', stores)}"
            f"{_count('shared: wavefronts', wavefronts)}{_count('shared: bank conflicts', conflicts)}"
            f'<td class="num">{size_text(wavefronts * pass_bytes)}</td></tr>'
        )
    return rows_table(
        "",
        ("access", "loads", "stores", "wavefronts", "bank conflicts", "data, at most"),
        rows or _nothing(6, "Not used."),
    )


def _l2_note(metrics: Mapping[str, float], sector_bytes: int) -> str:
    hits = metrics.get("lts__t_sector_hit_rate.pct")
    found = f" {share_text(hits / 100)} of them hit." if hits is not None and metrics.get("lts__t_sectors.sum") else ""
    return f"Sectors of {sector_bytes} bytes that were looked up, by operation and by origin.{found}"


def _l2(metrics: Mapping[str, float], sector_bytes: int) -> str:
    total = metrics.get("lts__t_sectors.sum", 0.0)
    rows = []
    for row in l2_rows(metrics):
        moved = "" if row.name == "fences" else size_text(row.sectors * sector_bytes)
        rows.append(
            f"<tr><td>{row.name if row.group == 'operation' else f'from {row.name}'}</td>"
            f"{_count(f'L2 {row.name}: sectors', row.sectors)}"
            f'<td class="num">{moved}</td>'
            f'<td class="num">{share_text(row.sectors / total) if total else ""}</td></tr>'
        )
    return rows_table(
        "",
        ("access", "sectors", "data", "share"),
        rows or _nothing(4, "No accesses."),
    )


def _dram(metrics: Mapping[str, float], seconds: float) -> str:
    rows = []
    for name, key in (("reads", "dram__bytes_read.sum"), ("writes", "dram__bytes_write.sum")):
        moved = metrics.get(key, 0.0)
        if moved:
            rate = amount_text(moved / seconds, "B/s") if seconds > 0 else ""
            rows.append(
                f'<tr><td>{name}</td>{datum(f"DRAM {name}: bytes", moved, size_text(moved))}<td class="num">{rate}</td></tr>'
            )
    return rows_table("", ("access", "data", "mean rate"), rows or _nothing(3, "No accesses."))

"""How groups of SMs share the path to L2: which SMs form a group, and how fast one SM, a group, a GPC and the whole chip load and store.

``python -m bench.machine.group_shares --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card.

An H200 serves groups of SMs in turn when L2 is saturated (``bench.machine.sm_shares``).  A launch in which one TPC is idle shows its group: the group's other SMs
are faster.  SMs of a cluster belong to the same GPC.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

MIB = 1 << 20
THREADS = 1024
MARKS = 8
SIZE_MIB = 8
KERNELS = {"whole": 16, "half": 16, "span": 32, "scatter": 32, "read": 32, "gather": 64, "same": 32}
"""Sectors that a warp's turn accesses."""
TURNS = 64
REPEATS = 3
FASTER = 0.9
"""While a TPC is idle, the other SMs of its group take less than this share of their usual time."""


class Shares:
    """Launches of the kernels on one device."""

    def __init__(self, device: Device, cubin: bytes) -> None:
        self.device, self.module = device, device.load(cubin)
        self.sm_count = int(device.describe()["sm_count"])
        self.data = device.alloc(SIZE_MIB * MIB)
        self.out = device.upload(np.zeros(self.sm_count * (MARKS + 3), np.uint64))
        self.arrived = device.upload(np.zeros(32, np.uint32))
        self.turns = device.upload(np.zeros(self.sm_count, np.uint32))
        self.begun = 0

    def launch(self, kernel: str, sms: list[int]) -> np.ndarray:
        """Cycles from its beginning until each of ``sms`` has done each eighth of its turns, and until its warps have ended: (sms, MARKS + 1)."""
        turns = np.zeros(self.sm_count, np.uint32)
        turns[sms] = TURNS
        self.turns.write(turns)
        self.begun += self.sm_count
        arguments = [self.out, self.arrived, self.data, self.turns, np.uint32(SIZE_MIB * MIB - 1)]
        self.module.launch(kernel, self.sm_count, THREADS, [*arguments, np.uint32(self.begun)])
        rows = self.out.read(np.uint64, self.sm_count * (MARKS + 3)).reshape(self.sm_count, -1).astype(np.int64)
        by_sm = np.zeros((self.sm_count, MARKS + 1))
        by_sm[rows[:, 0]] = rows[:, 2:] - rows[:, 1:2]
        return by_sm[sms]

    def median(self, kernel: str, sms: list[int]) -> np.ndarray:
        """Of ``REPEATS`` launches, the one whose mean end is the median."""
        found = [self.launch(kernel, sms) for _ in range(REPEATS)]
        return sorted(found, key=lambda one: float(one[:, -1].mean()))[REPEATS // 2]

    def gpcs(self) -> list[list[int]]:
        """The SMs of each GPC, in ascending order."""
        owner = list(range(self.sm_count))
        for cluster in (2, 4, 5, 6, 7, 8, 16):
            blocks = self.sm_count // cluster * cluster
            if cluster == 16:
                blocks = 16 * 7
            self.module.launch("places", blocks, THREADS, [self.out], cluster=cluster)
            for sms in self.out.read(np.uint64, blocks).astype(np.int64).reshape(-1, cluster):
                joined = {owner[sm] for sm in sms}
                owner = [min(joined) if one in joined else one for one in owner]
        return [[sm for sm in range(self.sm_count) if owner[sm] == one] for one in sorted(set(owner))]

    def groups(self) -> tuple[list[list[int]], list[dict[str, Any]]]:
        """The SMs of each group, and the time of every SM for loads of random words while each TPC in turn is idle."""
        everyone = list(range(self.sm_count))
        base = self.median("gather", everyone)[:, -1]
        owner, rows = everyone[:], []
        for tpc in range(self.sm_count // 2):
            sms = [sm for sm in everyone if sm // 2 != tpc]
            ends = np.ones(self.sm_count)
            ends[sms] = self.median("gather", sms)[:, -1]
            rows.append({"kernel": "gather", "idle_tpc": tpc, "ends": [int(end) for end in ends]})
            joined = {owner[sm] for sm in everyone if sm // 2 == tpc or ends[sm] < FASTER * base[sm]}
            owner = [min(joined) if one in joined else one for one in owner]
        return [[sm for sm in everyone if owner[sm] == one] for one in sorted(set(owner))], rows


def measure(device: Device, cubin: bytes) -> list[dict[str, Any]]:
    """Rows: the GPCs, the groups, and for each kernel and choice of SMs, the sectors per cycle and the cycles by SM."""
    shares = Shares(device, cubin)
    everyone = list(range(shares.sm_count))
    gpcs = shares.gpcs()
    groups, rows = shares.groups()
    rows = [{"gpcs": gpcs, "groups": groups}, *rows]
    print(rows[0], flush=True)
    gpc_of = {sm: number for number, sms in enumerate(gpcs) for sm in sms}
    chosen: list[tuple[str, list[int]]] = [("all", everyone)]
    for size in sorted({len(group) for group in groups}):
        for number, group in enumerate([group for group in groups if len(group) == size][:3]):
            spread = group[::2] + group[1::2]
            chosen += [(f"{count} SMs of group {number} of {size}", spread[:count]) for count in range(1, size + 1)]
    for most in (1, 2, 3, 4):
        of_each = [sm for group in groups for sm in (group[::2] + group[1::2])[:most]]
        chosen.append((f"{most} SMs of each group", sorted(of_each)))
    for size in sorted({len(gpc) for gpc in gpcs}):
        for number, gpc in enumerate([gpc for gpc in gpcs if len(gpc) == size][:2]):
            chosen += [(f"GPC {number} of {size}", gpc), (f"first SMs of GPC {number} of {size}", gpc[::2])]
    chosen += [(f"first {count} GPCs", sorted(sm for gpc in gpcs[:count] for sm in gpc)) for count in (2, 4, 6)]
    largest = max(len(group) for group in groups)
    chosen.append(
        ("groups of the largest size", sorted(sm for group in groups if len(group) == largest for sm in group))
    )
    chosen.append(("16 SMs of each GPC", sorted(sm for gpc in gpcs for sm in gpc[:16])))
    for kernel, sectors in KERNELS.items():
        for name, sms in chosen:
            marks = shares.median(kernel, sms)
            whole = sectors * THREADS // 32 * TURNS
            row: dict[str, Any] = {
                "kernel": kernel,
                "choice": name,
                "sms": sms,
                "gpcs": sorted({gpc_of[sm] for sm in sms}),
            }
            row["sectors_per_cycle"] = round(whole * len(sms) / marks[:, -1].max(), 2)
            row["half"] = [int(mark) for mark in marks[:, MARKS // 2 - 1]]
            row["ends"] = [int(mark) for mark in marks[:, -1]]
            rows.append(row)
            print(kernel, name, row["sectors_per_cycle"], int(np.median(marks[:, -1])), flush=True)
    for buffer in (shares.data, shares.out, shares.arrived, shares.turns):
        buffer.free()
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, threads=THREADS, turns=TURNS, size_mib=SIZE_MIB)

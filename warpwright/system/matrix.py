"""The matrix of a machine's topology, in the form of ``nvidia-smi topo -m``."""

from __future__ import annotations

from warpwright.system.machine import HOST, PCIE, SMP, Machine, gpu_node
from warpwright.system.routes import route

LEGEND = {
    "X": "self",
    "SYS": "PCI Express and the link between two processors",
    "PHB": "PCI Express and one processor's host bridge",
    "PXB": "several PCI Express switches, and no processor",
    "PIX": "one PCI Express switch",
    "NV#": "so many NVLinks together, direct or over switches",
}


def connection(machine: Machine, first: int, last: int) -> str:
    """One cell: how two GPUs are connected."""
    if first == last:
        return "X"
    found = route(machine, first, last)
    return found.topology if found is not None else "SYS"


def host_of(machine: Machine, ordinal: int) -> str:
    """The processor nearest to a GPU, over PCI Express or NVLinks of its own."""
    seen, new = {gpu_node(ordinal)}, [gpu_node(ordinal)]
    while new:
        hosts = [node for node in new if machine.switches.get(node) == HOST]
        if hosts:
            return hosts[0]
        steps = [
            cable.other(node)
            for node in new
            if node in machine.switches or node == gpu_node(ordinal)
            for cable in machine.cables_of[node]
            if cable.link.protocol in (PCIE, SMP) or machine.switches.get(cable.other(node)) == HOST
        ]
        new = [node for node in dict.fromkeys(steps) if node not in seen]
        seen.update(new)
    return ""


def topology_matrix(machine: Machine) -> str:
    """Rows and columns of GPUs, and each GPU's processor; the words are explained below."""
    count = len(machine.gpus)
    names = [f"GPU{i}" for i in range(count)]
    rows = [["", *names, "processor"]]
    for i, name in enumerate(names):
        rows.append([name, *(connection(machine, i, j) for j in range(count)), host_of(machine, i)])
    lines = ["\t".join(row) for row in rows]
    used = {"NV#" if word.startswith("NV") else word for row in rows[1:] for word in row[1:-1]}
    lines += ["", *(f"{word:4} = {text}" for word, text in LEGEND.items() if word in used)]
    return "\n".join(lines)

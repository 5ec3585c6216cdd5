"""2:4 sparsity in use: the whitepaper's recipe on networks that train here, with accuracy dense and sparse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.sparsity import SparseMatrix, compress, matmul
from warpwright.studies.a100_tensor_cores import PAPER
from warpwright.studies.sparse_training import TASKS, Floats, Task
from warpwright.studies.study import Cell, Result, Step, Table, study

DENSE_RATE, TUNING_RATE = 2e-3, 1e-3
POINTS = {"top-1 %": 1.0, "bits a character": 0.1}
"""What 2:4 may lose: the table's networks lose 0.1 points at most."""


@dataclass(slots=True)
class TensorCores:
    """Products on a simulated GPU's tensor cores in f16, with sparse weights where a layer has been pruned."""

    gpu: GPU
    sparse: bool
    compressed: dict[str, SparseMatrix] = field(default_factory=dict)

    def __call__(self, name: str, weights: Floats, x: Floats) -> npt.NDArray[Any]:
        if not self.sparse:
            return matmul(self.gpu, weights, x)[0]
        if name not in self.compressed:
            self.compressed[name] = compress(weights)
        return matmul(self.gpu, self.compressed[name], x)[0]


def dense_and_sparse(task: Task, gpu: GPU, rng: np.random.Generator, step: Step) -> tuple[float, float]:
    """Scores of the trained network, and of the same network pruned and trained again with the recipe of Appendix B."""
    step(f"{task.name}: training")
    task.fit(rng, DENSE_RATE)
    dense = task.score(TensorCores(gpu, sparse=False))
    for layer in task.layers:
        layer.prune()
    step(f"{task.name}: training what 2:4 leaves")
    task.fit(rng, TUNING_RATE)
    return dense, task.score(TensorCores(gpu, sparse=True))


@study("sparsity-table11", f"{PAPER}, Table 11")
def table_11(step: Step) -> Result:
    """Accuracy of networks in FP16, dense and with 2:4 sparse weights after training again."""
    gpu = GPU("a100", timing="off")
    by_metric: dict[str, list[Cell]] = {}
    for number, make in enumerate(TASKS):
        rng = np.random.default_rng(number)
        task = make(rng)
        dense, sparse = dense_and_sparse(task, gpu, rng, step)
        cells = by_metric.setdefault(task.metric, [])
        cells.append(Cell(task.name, "2:4", sparse, dense, POINTS[task.metric], absolute=True))
    tables = [
        Table(
            "Accuracy with 2:4 sparse weights beside the dense network's",
            metric,
            cells,
            note="paper: the dense network here",
        )
        for metric, cells in by_metric.items()
    ]
    return Result(
        tables,
        [
            "The table's networks and their data (ImageNet, COCO, WMT'14, enwik8, SQuAD) cannot be had here; these networks are smaller and their data are"
            " scikit-learn's digits and the text of Python's help. The paper's claim is that 2:4 networks are as accurate as dense ones, so that each"
            " network is compared with its own dense form.",
        ],
    )

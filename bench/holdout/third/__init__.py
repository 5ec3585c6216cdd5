"""The third hold-out set: kernels that people hold back of their own, written and measured after the first two had been looked into.

Serving (split decoding, experts, codes, adapters), databases and codecs, pictures and volumes, particles and trees, batches of small
systems, forms of sparse matrices, queues of work, rounds of the whole chip, clusters, bulk copies; and machine code of other compilers:
PTX of Triton and of Numba (``compiled.py`` makes it).
"""

from __future__ import annotations

from bench.holdout.case import Case, Collection
from bench.holdout.third import cases_compiled, cases_data, cases_models, cases_science

__all__ = ["Case", "case", "names"]

THIRD = Collection(cases_models, cases_data, cases_science, cases_compiled)
names, case = THIRD.names, THIRD.case

"""The cycle model: one file per unit of the machine, with its state in one flat buffer (``state/``).

``simulate.simulate`` is the entry; ``interface.py`` documents its arguments and results.
May import chips, isa, engine and native; nothing above.
"""

from pathlib import Path

_here = Path(__file__).parent
SOURCES = (_here, *(_here.parent / name for name in ("chips/sections.py", "engine/abi.py", "isa/bulk.py")))
"""Files that determine the model's machine code, in addition to ``native``: its own, and those whose constants it uses."""

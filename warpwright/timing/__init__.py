"""The cycle model: one file for each unit of the machine, its state in one flat buffer (``state.py``).

``simulate.simulate`` is the entry; ``interface.py`` says what it takes and what it gives.
May import chips, isa and engine; nothing above.
"""

"""V100 and A100 beside cards that others measured: their published figures, the programs, the model's figures.

``rows.py`` reads the figures (``bench/data/published``) and splits them into a half to learn from and a half to check;
``programs.py`` builds and runs whole programs from checkouts of their repositories, ``streams.py`` single
kernels of them; ``inputs.py`` writes input files of the published shapes.
"""

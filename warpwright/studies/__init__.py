"""Studies: what a paper measured, measured again on the simulated machines, cell by cell beside the paper's figures.

``study.py`` has what a study is and ``page.py`` its page; every other file is one or more studies. A new study is a function with
:func:`~warpwright.studies.study.study` above it in a file that ``catalogue.py`` lists.
"""

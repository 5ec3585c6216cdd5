"""Studies: a paper's measurements repeated on the simulated machines and compared cell by cell with its figures.

``study.py`` defines a study and ``page.py`` its page; every other file contains one or more studies. A new study is a function with
:func:`~warpwright.studies.study.study` above it in a file that ``catalogue.py`` lists.
"""

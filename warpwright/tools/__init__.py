"""Tools for runs: tables of launches, comparisons of chips, progress on the terminal.

Stands above timing, beside driver, studies and the command line; nothing below imports it.
"""

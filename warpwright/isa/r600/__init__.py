"""Front end of the machine code of Cypress and Cayman (AMD's Evergreen and Northern Islands families).

A program is a list of control-flow words.  Some of them run a *clause* that is at another address: ALU words in bundles, or
fetches.  ``fields`` and ``layouts`` have the bits of each kind of word, ``tables_*`` the operations, ``decode`` makes a
:class:`~warpwright.isa.r600.decoded_program.Listing` of a program and ``text`` prints it.
"""

"""Front end of the machine code of Cypress and Cayman (AMD's Evergreen and Northern Islands families).

A program is a list of control-flow words.  Some of them execute a *clause* at another address: ALU words in bundles, or
fetches.  ``fields`` and ``layouts`` define the bits of each kind of word, ``tables_*`` the operations; ``decode`` turns
a program into a :class:`~warpwright.isa.r600.decoded_program.Listing` and ``text`` prints it.
"""

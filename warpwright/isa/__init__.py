"""Instruction sets: each front end turns machine code or text into a Program.  Imports nothing above isa."""

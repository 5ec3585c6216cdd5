"""Commands of the command line that have a file of their own; ``cli`` enters them.  Whatever is slow to import is imported by the command."""

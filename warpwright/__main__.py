"""``python -m warpwright``: the command line."""

from warpwright.cli import main

main()

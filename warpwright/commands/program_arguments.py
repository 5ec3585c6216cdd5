"""Separates a command's own options from the words of the program that it runs."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


class ProgramCommand(TyperCommand):
    """Options after a Python file may be Warpwright's; everything after another program belongs to that program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [p for p in self.params if p.param_type_name == "option"]
        takes_value = {name for p in options if not getattr(p, "is_flag", False) for name in p.opts}
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            at += 2 if args[at] in takes_value else 1
        if at < len(args) and args[at] != "--" and not args[at].endswith(".py"):
            args = [*args[:at], "--", *args[at:]]
        return super().parse_args(ctx, args)


class CompareCommand(TyperCommand):
    """Keeps the ``--`` between the chips and the program, whose options belong to it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args = [*args[:at], "--", "--", *args[at + 1 :]]
        return super().parse_args(ctx, args)

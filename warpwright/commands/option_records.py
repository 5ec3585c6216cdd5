"""Commands with many options: the options are the fields of a dataclass, whose types say their names and help to typer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, get_type_hints

Command = Callable[..., None]


def with_options(record: type[Any]) -> Callable[[Command], Command]:
    """Give a command the fields of a dataclass as options; the function receives them as one record, its last argument.

    Args:
        record: a dataclass whose fields are ``Annotated`` with a ``typer.Option``.
    """

    def decorate(command: Command) -> Command:
        shown = inspect.signature(command)
        hints = get_type_hints(command, include_extras=True)
        *own, last = shown.parameters.values()
        others = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=get_type_hints(record, include_extras=True)[field.name],
            )
            for field in fields(record)
        ]

        @wraps(command)
        def called(**given: Any) -> None:
            options = record(**{other.name: given.pop(other.name) for other in others})
            command(**given, **{last.name: options})

        every = [*(one.replace(annotation=hints[one.name]) for one in own), *others]
        called.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in every}
        return called

    return decorate

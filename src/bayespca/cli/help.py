"""Help of the subcommands, called verbs: panels, flags without a type, and examples."""

from __future__ import annotations

from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Options in the panels of the help.
reading_option = partial(typer.Option, rich_help_panel="Reading data")
model_option = partial(typer.Option, rich_help_panel="The model")
output = partial(typer.Option, rich_help_panel="Output")

UsageError: Any = typer.BadParameter.__base__
SEVERAL = (
    ". One file is read: quote a pattern that means several files, as in 'part-*.csv', so that the "
    "shell leaves it as it is. Tables of the same samples are for bayespca views."
)


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    """Parameters whose help does not show `<bool>` for flags, which take no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.display_type_rich = lambda ctx: None
    return params


class Verbs(TyperGroup):
    """The command with all its verbs."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))


class Verb(TyperCommand):
    """One verb, with examples of calls."""

    examples: tuple[str, ...] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            if "unexpected extra argument" in error.message:
                error.message += SEVERAL
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        typer.echo(" Examples:\n")
        for example in self.examples:
            typer.echo(f"   bayespca {self.name} {example}")
        typer.echo()


def verb(*examples: str) -> type[Verb]:
    """The class of a verb with these examples, each without the name of the verb."""
    return type("Verb", (Verb,), {"examples": examples})

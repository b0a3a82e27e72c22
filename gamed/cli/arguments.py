"""What command lines are made of: words that a store takes, the player meant, JSON for scripts."""

from typing import Any

import click

WHO = "NAME-or-ID"


class Text(click.ParamType[str]):
    """Bytes that are no UTF-8 come from a shell as lone surrogates, which no store takes."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            str(value).encode()
        except UnicodeEncodeError:
            self.fail("this is not UTF-8.", param, ctx)
        return str(value)


TEXT = Text()
who_argument = click.argument("who", metavar=WHO, type=TEXT)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")

"""The commands of `gamed`, those too that are loaded only when they are asked for."""

from collections.abc import Iterator

import click


def members(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Each command of the group by its name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield name, command

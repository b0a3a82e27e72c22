"""The porch: files, environment and options in, a service or a command's answer out."""

from gamed.loading import loading


def main(*, development: bool = False) -> None:
    """The console script `gamed`; `development` when started as `python -m gamed`."""
    with loading():
        from gamed.cli.commands import gamed

    gamed(prog_name="python -m gamed" if development else "gamed", obj=development)

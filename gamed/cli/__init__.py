"""The command line reads options, files and the environment, and runs the service or prints a command's result."""

from gamed.cli.interrupt import catch_early


def main(*, development: bool = False) -> None:
    """Run the console script `gamed`; `development` means started as `python -m gamed`."""
    catch_early()
    from gamed.gc_pause import gc_paused  # late: an interruption of these imports shows no traceback

    with gc_paused():
        from gamed.cli.commands import gamed

    gamed(prog_name="python -m gamed" if development else "gamed", obj=development)

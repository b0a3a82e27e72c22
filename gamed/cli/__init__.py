"""The porch: files, environment and options in, a service or a command's answer out."""

from gamed.gc_pause import gc_paused


def main(*, development: bool = False) -> None:
    """The console script `gamed`; `development` when started as `python -m gamed`."""
    with gc_paused():
        from gamed.cli.main import gamed

    gamed(prog_name="python -m gamed" if development else "gamed", obj=development)

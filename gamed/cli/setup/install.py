"""The program that the units start: the one that runs, or one in OPT, which the user of the service can read."""

import os
import sys
import sysconfig
from pathlib import Path
from stat import S_IXOTH

from gamed import __version__
from gamed.cli import paths
from gamed.cli.errors import SetupError, echo
from gamed.cli.setup.model import Layout, Run
from gamed.cli.setup.samples import HOMES

OPT = Path("/opt/gamed")
CODE = (".py", ".sql", ".html", ".css", ".po", ".json")
"""How the names of files end that decide what an installed gamed does."""
INSTALL = (
    *("venv --clear {opt}", "pip --python {opt}/bin/python install -q --require-hashes -r etc/build-constraints.txt"),
    *("pip --python {opt}/bin/python install -q --require-hashes -r constraints.txt",),
    *("pip --python {opt}/bin/python install -q --no-deps --no-build-isolation .",),
)
"""The arguments of `python -m`, run in the checkout; gamed itself is the last one."""
DRIVER = "pip --python {opt}/bin/python install -q --require-hashes -r etc/postgresql-constraints.txt"
"""The further arguments for a store in PostgreSQL."""
PUBLIC_UMASK = 0o022
"""Programs and units are for every user to read; harden() closes all other files."""


def find_program(layout: Layout, *, postgresql: bool) -> tuple[Path, Path | None]:
    """Return the program of the units, and the checkout to install it from first if the service cannot read it."""
    script = Path(sysconfig.get_path("scripts")) / "gamed"
    if not layout.root or all(map(_readable, (script, paths.PACKAGE, Path(sys.executable).resolve()))):
        return script, None
    program, checkout = OPT / "bin/gamed", paths.PACKAGE.parent
    if _is_installed(postgresql=postgresql):
        return program, None
    if not _readable(Path(sys.executable).resolve()) or not (checkout / "setup.py").is_file():
        raise SetupError(
            f"The user of the service cannot read {sys.prefix}. Install gamed in {OPT} with the system's Python first: "
            f"python3 -m venv {OPT} && {OPT}/bin/pip install gamed; then run: {program} setup"
        )
    if OPT.exists() and any(OPT.iterdir()) and not (OPT / "pyvenv.cfg").exists():
        raise SetupError(f"{OPT} is not a virtual environment, and gamed must be installed there. Move it away first.")
    return program, checkout


def _is_installed(*, postgresql: bool) -> bool:
    """Return whether OPT has this gamed, complete and for the service to read: pip writes RECORD last.

    Other files could not serve the databases that this program upgrades; a checkout changes without a new version.
    """
    for libraries in OPT.glob("lib/python*/site-packages"):
        driver = not postgresql or any(libraries.glob("psycopg-*.dist-info/RECORD"))
        if driver and (libraries / f"gamed-{__version__}.dist-info/RECORD").exists():
            package = libraries / paths.PACKAGE.name
            return _readable(package / "__init__.py") and _is_same(package, paths.PACKAGE)
    return False


def _is_same(package: Path, other: Path) -> bool:
    """Return whether two copies of the package have the same files; what Python compiles does not count."""
    ours, theirs = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.suffix in CODE and path.is_file()
        }
        for folder in (package, other)
    )
    return ours == theirs


def _readable(path: Path) -> bool:
    """Return whether the unit of a system may run this: below no home, and below folders that all may enter."""
    closed = any(path.is_relative_to(home) for home in HOMES)
    return not closed and all(each.stat().st_mode & S_IXOTH for each in path.resolve().parents)


def install(run: Run) -> None:
    """Install the checkout where the service can read it; an interrupted installation begins again."""
    plan = run.plan
    if plan.checkout is None:
        return
    echo(f"installing gamed in {OPT}; this takes a minute or two")
    before = os.umask(PUBLIC_UMASK)
    try:
        for each in (*INSTALL[:-1], *([DRIVER] if plan.server.postgresql else []), INSTALL[-1]):
            words = each.format(opt=OPT).split()
            python = str(Path(sys.executable).resolve()) if words[0] == "venv" else sys.executable
            run.require([python, "-m", *words], cwd=plan.checkout)
        OPT.chmod(0o755)  # `venv --clear` keeps the mode of a folder that is there
    finally:
        os.umask(before)

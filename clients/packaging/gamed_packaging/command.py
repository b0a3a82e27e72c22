"""The command line of `clients/build`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from gamed_packaging import csharp, godot, javascript, python
from gamed_packaging.files import PackageError
from gamed_packaging.project import ProjectError
from gamed_packaging.versions import CLIENTS, PLACES, VersionError, check_places, version

OUT = CLIENTS / "dist"
SUMS = "SHA256SUMS"
EPILOG = "Needs Python 3.11 and no network. The same files and the same zlib give the same bytes."


@dataclass(frozen=True)
class Kind:
    """One kind of package: how it is made, and how a made one is checked."""

    make: Callable[[Path], list[Path]]
    check: Callable[[Path], None]


KINDS = {
    "python": Kind(python.make, python.check),
    "npm": Kind(javascript.make, javascript.check),
    "nuget": Kind(csharp.make_nuget, csharp.check_nuget),
    "unity": Kind(csharp.make_unity, csharp.check_unity),
    "godot3": Kind(partial(godot.make, 3), godot.check),
    "godot4": Kind(partial(godot.make, 4), godot.check),
}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="clients/build", description="Make and check the packages of gamed's clients.", epilog=EPILOG
    )
    top.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)} (default: all)")
    top.add_argument("--out", type=Path, default=OUT, help="folder for the packages (default: clients/dist)")
    top.add_argument("--set-version", action="store_true", help="write the version of gamed into the clients, and end")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0 done, 1 a package cannot be made, 2 usage."""
    top = parser()
    options = top.parse_args(arguments)
    if unknown := [name for name in options.kinds if name not in KINDS]:
        top.error(f"{unknown[0]!r} is not a kind of package. Choose from {', '.join(KINDS)}.")
    try:
        if options.set_version:
            for place in PLACES:
                place.write()
            print(f"The clients state version {version()}.")
        else:
            build(options.kinds or list(KINDS), options.out)
    except (PackageError, ProjectError, VersionError) as error:
        print(f"clients/build: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"clients/build: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def build(kinds: Sequence[str], out: Path) -> None:
    """Make and check packages, and write their SHA256SUMS beside them."""
    check_places()
    out.mkdir(parents=True, exist_ok=True)
    sums = []
    for name in kinds:
        for package in KINDS[name].make(out):
            try:
                KINDS[name].check(package)
            except PackageError:
                package.unlink()
                raise
            print(f"{name:8}{package.name}  {package.stat().st_size} bytes")
            sums.append(f"{sha256(package.read_bytes()).hexdigest()}  {package.name}\n")
    (out / SUMS).write_text("".join(sums), "utf-8", newline="\n")

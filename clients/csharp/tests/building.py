"""Builds of C# as games do them: one compiler call over the copied files, with only the assemblies of every .NET."""

import subprocess
import tempfile
from atexit import register
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from shutil import rmtree, which

CSHARP = Path(__file__).parents[1]
CHECKS = Path(__file__).parent / "specimens" / "Checks.cs"
ENGINES = CHECKS.with_name("Engines.cs")
TODAY_CHECKS = CHECKS.with_name("TodayChecks.cs")
CLIENT = tuple(CSHARP / name for name in ("GamedClient.cs", "GamedSync.cs", "GamedAssets.cs", "GamedTexts.cs"))
TODAY = CSHARP / "GamedNet.cs"
"""The face for today's .NET, beside the files of CLIENT."""
UNITY = tuple(sorted((CSHARP / "unity").glob("*.cs")))
COMPILER = ("mcs", "-langversion:6", "-warn:4", "-warnaserror", "-noconfig", "-r:System.dll", "-r:System.Core.dll")
SECONDS = 240


def tool(name: str) -> str:
    """Return the path of a tool; raise AssertionError with the package to install if it is missing."""
    found = which(name)
    if found is None:
        packages = "mono-mcs mono-runtime libmono-system-net-http4.0-cil"
        raise AssertionError(f"{name} is not installed: apt-get install {packages}")
    return found


@cache
def folder() -> Path:
    """Return a folder of this process, which is removed at its end."""
    made = Path(tempfile.mkdtemp(prefix="gamed-csharp-"))
    register(rmtree, made, ignore_errors=True)
    return made


@cache
def built(
    name: str,
    *sources: Path,
    alone: bool = False,
    explained: bool = False,
    today: bool = False,
    beside: tuple[Path, ...] = (),
) -> Path:
    """Compile the client and these files to an .exe; raise AssertionError with the compiler's output.

    `alone`: a library, of these files and the client's first. `explained`: no public member lacks a comment. `today`:
    with the face for today's .NET. `beside`: further libraries.
    """
    target = folder() / (f"{name}.dll" if alone else f"{name}.exe")
    options = ["-target:library"] if alone else []
    options += [f"-doc:{target}.xml"] if explained else []
    options += ["-r:System.Net.Http.dll", "-d:GAMED_NET"] if today else []
    client = (*(CLIENT[:1] if alone else CLIENT), *([TODAY] if today else []))
    return compiled(target, *client, *sources, options=[*options, *references(beside)])


@cache
def library(source: Path) -> Path:
    """Compile a library of one file without the client."""
    return compiled(folder() / f"{source.stem}.dll", source, options=["-target:library"])


def references(libraries: Iterable[Path]) -> list[str]:
    return [f"-r:{each}" for each in libraries]


def compiled(target: Path, *sources: Path, options: Sequence[str]) -> Path:
    done = bounded([tool(COMPILER[0]), *COMPILER[1:], *options, f"-out:{target}", *map(str, sources)])
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return target


def ran(program: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return bounded([tool("mono"), str(program), *arguments])


def bounded(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command; return its output. Kill it if it does not end."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False
    )

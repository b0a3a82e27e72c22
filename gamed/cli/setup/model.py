"""The values of a set-up: where a server that stays has its files, each file as it is planned, and a run."""

import os
import pwd
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from gamed.cli import paths
from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.paths import Paths
from gamed.cli.setup.samples import BACKUPS, PREFIX, Server, credential_folder
from gamed.config.authentication import FILE_NAME

USER = "gamed"
KEY_ENV = "GAMED_MASTER_KEY"
ANSWERS = "setup.json"
"""The name of the answers of the last run, beside the configuration."""


class Layout(Struct, frozen=True):
    """Where the files of a server that stays are."""

    places: Paths
    units: Path
    backups: Path
    root: bool

    @property
    def answers(self) -> Path:
        return self.places.config.with_name(ANSWERS)

    @property
    def staging(self) -> Path:
        """Return the folder that another server is moved to first: on the disk of the data, for one rename."""
        return self.places.data.with_name(f"{self.places.data.name}.setup")

    @property
    def systemctl(self) -> Sequence[str]:
        """Return the words that command the service manager which has the units."""
        return ["systemctl"] if self.root else ["systemctl", "--user"]

    def is_booted(self) -> bool:
        """Return whether that service manager runs."""
        return Path("/run/systemd/system" if self.root else f"/run/user/{os.getuid()}/systemd").is_dir()


def choose_layout(environ: Mapping[str, str]) -> Layout:
    """Return the layout of a machine for root, else that of the home folder; raise SetupError."""
    if os.geteuid() == 0:
        return Layout(paths.LAYOUT, Path("/etc/systemd/system"), BACKUPS, root=True)
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        raise SetupError("The variable HOME has no folder. Set it, or run gamed setup as root.")
    if paths.LAYOUT.config.parent.exists():
        raise SetupError(f"This machine has a server in {paths.LAYOUT.config.parent}. Run gamed setup as root.")
    places = Paths(home / ".config/gamed" / FILE_NAME, home / ".local/share/gamed")
    return Layout(places, home / ".config/systemd/user", home / "gamed-backup", root=False)


class PlannedFile(Struct, frozen=True):
    """A file with its mode and its whole content; None means that there must be no such file."""

    path: Path
    content: bytes | None
    mode: int = 0o644
    for_service: bool = False
    """Whether the group of the service may read it."""
    secret: bool = False
    copied: bool = False
    """Whether the content is a copy from beside the old configuration, such as a picture."""

    @property
    def kept(self) -> Path:
        """Return where the content stays that this file replaces."""
        return self.path.with_name(f"{self.path.name}.before")

    def replaces(self) -> bool:
        """Return whether another content is there, which is kept: its owner may have changed it."""
        return self.content is not None and self.path.exists() and not self.is_written()

    def is_written(self) -> bool:
        """Return whether the file is there as planned; a secret that is there is kept, whatever it is."""
        try:
            return (self.secret and self.path.exists()) or self.path.read_bytes() == self.content
        except FileNotFoundError:
            return self.content is None


class Plan(Struct, frozen=True):
    """Everything that a run changes, and what is left to the owner."""

    layout: Layout
    server: Server
    source: Paths | None
    """Where the server is now, if it must be moved; None if it is new or in its place."""
    owner_page: bool | None
    """Whether the owner's page is opened or closed; None leaves it as it is."""
    program: Sequence[str]
    """The words with which the installed program starts."""
    files: Sequence[PlannedFile]
    checkout: Path | None = None
    """The checkout that must be installed in OPT, because the service cannot read this program."""
    by_hand: Sequence[str] = field(default_factory=list)

    @property
    def config(self) -> PlannedFile:
        return next(file for file in self.files if file.path == self.layout.places.config)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of commands for the new server: its places, and its secrets as files."""
        secrets = {KEY_ENV, *self.server.secrets}
        found = {name: value for name, value in environ.items() if name not in secrets}
        for name in self.server.secrets:
            found[f"{name}_FILE"] = str(credential(self.server, name))
        places = self.layout.places
        return {**found, "GAMED_CONFIG": str(places.config), "GAMED_DATA": str(places.data)}


class Run(Struct, frozen=True):
    """One run: the plan, and the environment of the commands that it starts."""

    plan: Plan
    environ: dict[str, str]

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of gamed for the new server; its stderr is the operator's."""
        return subprocess.run(
            [*self.plan.program, *words], env=self.environ, stdout=subprocess.PIPE, text=True, check=False
        )

    def program(self, words: Sequence[str], cwd: Path | None = None) -> int:
        """Run another program, without a secret in its environment; return its exit code."""
        done = subprocess.run(words, cwd=cwd, env=self.environ, stdin=subprocess.DEVNULL, check=False)
        return done.returncode

    def require(self, words: Sequence[str], cwd: Path | None = None) -> None:
        """Run another program that has to succeed; raise SetupError or CommandFailed."""
        try:
            code = self.program(words, cwd)
        except FileNotFoundError:
            raise SetupError(f"{words[0]} is not installed. Install it, then run gamed setup again.") from None
        if code != 0:
            raise CommandFailed(
                f"This command failed: {shlex.join(words)}. Correct the cause, then run gamed setup again."
            )


def credential(server: Server, name: str) -> Path:
    """Return the file that systemd passes to the service as this secret."""
    return credential_folder(server) / name.removeprefix(PREFIX)


def user_id() -> int | None:
    """Return the user of the service, None before that is made."""
    try:
        return pwd.getpwnam(USER).pw_uid
    except KeyError:
        return None

"""The files of `gamed setup`: one layout, and each file with its mode, planned before anything is changed.

The texts come from `etc/`, filled in by gamed.cli.setup.samples. Nothing here writes.
"""

import json
import os
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from errno import EADDRINUSE, EINVAL
from pathlib import Path
from shutil import which
from stat import S_ISREG, S_IXOTH, S_IXUSR

from msgspec import Struct, field
from msgspec.structs import replace

from gamed import __version__
from gamed.cli import paths
from gamed.cli.data.move_note import notes, parts_of
from gamed.cli.errors import CommandFailed, SetupError
from gamed.cli.paths import Paths
from gamed.cli.service.listen import describe
from gamed.cli.setup.answers import Answers, Players
from gamed.cli.setup.samples import (
    BACKUPS,
    HOMES,
    HTTPS_PORT,
    PREFIX,
    PRINTED,
    UNITS,
    Server,
    caddy_text,
    credential_folder,
    describe_server,
    new_key,
    unit_text,
)
from gamed.config.authentication import FILE_NAME
from gamed.config.game import FILE_NAME as GAME

USER = "gamed"
OPT = Path("/opt/gamed")
KEY_ENV = "GAMED_MASTER_KEY"
ANSWERS = "setup.json"
"""The name of the answers of the last run, beside the configuration."""
CADDYFILE = Path("/etc/caddy/Caddyfile")
OWN = ("auth.", "state.", "database.", "gamed.", ".gamed", ".auth", "lost+found")
"""How the names begin that an interrupted first start leaves in a data folder."""
CODE = (".py", ".sql", ".html", ".css", ".po", ".json")
"""How the names of files end that decide what an installed gamed does."""
OF_DEBIAN = [":80 {", "root * /usr/share/caddy", "file_server", "}"]
"""The lines of the Caddyfile that Debian's package installs, without comments."""


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


def make_plan(
    layout: Layout, answers: Answers, source: Paths | None, text: str | None, *, port: int, environ: Mapping[str, str]
) -> Plan:
    """Plan every file; `text` is the configuration that is there, and `source` where its server is.

    Raise ConfigError, SetupError or CommandFailed if the plan cannot be carried out.
    """
    config = _configuration(text, answers, with_key=layout.root and source is None)
    listener = describe(f"tcp:{port}:interface=127.0.0.1")
    program, checkout = _program(layout, postgresql="store" in json.loads(config))
    is_script = checkout is not None or program.exists()
    owner = None if source == layout.places else (USER, USER)
    server = replace(
        describe_server(source or layout.places, config, listener),  # where its picture is
        places=layout.places,
        backups=answers.backups,
        program=program if is_script else None,
        of_user=not layout.root,
        page_backups=bool(answers.owner_page),
        any_secrets=layout.root,
        owner=owner if layout.root else None,
    )
    files = [
        *_secrets(server, environ, new=source is None and not server.postgresql),
        PlannedFile(layout.answers, answers.text().encode(), 0o640),
        *_beside(layout, source, config),
        PlannedFile(layout.places.config, config.encode(), 0o640, for_service=True),
        *_units(layout, server),
    ]
    proxy, by_hand = _proxy(layout, server, answers)
    files += proxy
    for file in files:
        _refuse_foreign(file)
    words = [str(program)] if is_script else [sys.executable, "-m", "gamed"]
    moved = None if source == layout.places else source
    return Plan(layout, server, moved, answers.owner_page, words, files, checkout, by_hand)


def _configuration(text: str | None, answers: Answers, *, with_key: bool) -> str:
    """Return the configuration with the answers; every other member stays."""
    members = json.loads(text or '{"mode": "local"}')
    if with_key:
        members.setdefault("master_key_env", KEY_ENV)
    members["server_name"] = answers.server_name
    if answers.address is not None:
        members["public_url"] = answers.address
    elif str(members.get("public_url", "")).startswith("https:"):
        del members["public_url"]
    members["login"] = {**members.get("login", {}), "registration": answers.join.registration.value}
    return json.dumps(members, indent=2, ensure_ascii=False) + "\n"


def _program(layout: Layout, *, postgresql: bool) -> tuple[Path, Path | None]:
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
    return _contents(package) == _contents(other)


def _contents(package: Path) -> dict[Path, bytes]:
    files = (path for path in package.rglob("*") if path.suffix in CODE and path.is_file())
    return {path.relative_to(package): path.read_bytes() for path in files}


def _readable(path: Path) -> bool:
    """Return whether the unit of a system may run this: below no home, and below folders that all may enter."""
    closed = any(path.is_relative_to(home) for home in HOMES)
    return not closed and all(each.stat().st_mode & S_IXOTH for each in path.resolve().parents)


def credential(server: Server, name: str) -> Path:
    """Return the file that systemd passes to the service as this secret."""
    return credential_folder(server) / name.removeprefix(PREFIX)


def _secrets(server: Server, environ: Mapping[str, str], *, new: bool) -> Iterator[PlannedFile]:
    """Yield a file for each secret that the configuration names; a new server gets a new master key."""
    missing: list[str] = []
    for name in server.secrets:
        path, value = credential(server, name), environ.get(name)
        if (file := environ.get(f"{name}_FILE")) and not value:
            value = Path(file).read_text("utf-8").removesuffix("\n")
        if value and path.exists() and path.read_text("utf-8").removesuffix("\n") != value:
            raise SetupError(
                f"{name} has another value than the file {path}. Unset the variable, or correct the file, and run "
                "gamed setup again."
            )
        if not value and not path.exists():
            if not new or name != KEY_ENV:
                missing.append(name)
                continue
            value = new_key()
        yield PlannedFile(path, f"{value or ''}\n".encode(), 0o600, secret=True)
    if server.postgresql and missing == [KEY_ENV]:
        raise SetupError(
            f"The databases of this configuration may have players, whom only their own key can read. Set {KEY_ENV} to "
            "that key, or for new databases to one of: gamed key new. Then run gamed setup again."
        )
    if missing:
        raise SetupError(
            f"The configuration names {', '.join(missing)}. Set these variables as the server has them, or NAME_FILE "
            f"of each, and run gamed setup again; it puts them into {credential_folder(server)}."
        )


def _beside(layout: Layout, source: Paths | None, config: str) -> Iterator[PlannedFile]:
    """Yield what lies beside the configuration of a server that is moved: limits, texts of pages, the picture."""
    if source is None or source == layout.places:
        return
    mark = json.loads(config).get("look", {}).get("mark")
    texts = sorted(path.name for path in source.config.parent.glob("*.po"))[: paths.MOST_CATALOGUES]
    for name in [GAME, *texts, *([mark] if mark else [])]:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            continue
        for folder in (source.config.parent, layout.staging):
            if (content := _read_owned(folder, name)) is not None:
                path = layout.places.config.parent / name
                yield PlannedFile(path, content, 0o640, for_service=True, copied=True)
                break


def _read_owned(folder: Path, name: str) -> bytes | None:
    """Read a file below the folder, or return None if there is none; raise SetupError for one that is not its owner's.

    Root reads here what another user may have put there, and gives it to the service: so it follows no link, waits for
    no pipe, and reads nothing of a third user.
    """
    descriptors: list[int] = []
    try:
        descriptors.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        owner = os.fstat(descriptors[0]).st_uid
        for part in Path(name).parts:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptors.append(os.open(part, flags, dir_fd=descriptors[-1]))
        state = os.fstat(descriptors[-1])
        if not S_ISREG(state.st_mode) or state.st_uid not in (0, owner) or state.st_size > paths.MAX_FILE_BYTES:
            raise OSError(EINVAL, "it is no regular file of the folder's owner of at most 256 KiB")
        with open(descriptors.pop(), "rb") as file:
            return file.read(paths.MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise SetupError(
            f"{folder / name} cannot be copied ({e.strerror}). Put the file itself there, or take it away."
        ) from None
    finally:
        for each in descriptors:
            os.close(each)


def _units(layout: Layout, server: Server) -> Iterator[PlannedFile]:
    parts = ["service", "backup", "timer", *(["socket"] if server.public_url else [])]
    for part in parts:
        yield PlannedFile(layout.units / UNITS[part], unit_text(part, server).encode())
    if not server.public_url:  # the service listens itself then
        yield PlannedFile(layout.units / UNITS["socket"], None)
    if layout.root:
        text = paths.shipped("etc/gamedctl").read_text("utf-8")
        text = text.replace("${GAMED_BIN:-gamed}", f"${{GAMED_BIN:-{server.program or 'gamed'}}}")
        yield PlannedFile(Path("/usr/local/sbin/gamedctl"), text.encode(), 0o755)


def _proxy(layout: Layout, server: Server, answers: Answers) -> tuple[list[PlannedFile], list[str]]:
    """Return the Caddyfile, if there is an address, and what the owner has to do about it."""
    if answers.address is None:
        return [], []
    text = caddy_text(server, internal=answers.players is Players.HOME).encode()
    if not layout.root:
        path = layout.places.config.with_name("Caddyfile")
        return [PlannedFile(path, text)], [f"As root: cp {path} {CADDYFILE} && systemctl reload caddy"]
    if which("caddy") is None:
        again = f"apt-get install caddy && {server.program or 'gamed'} setup"
        return [], [f"Caddy is not installed. Run: {again}. For nginx see: gamedctl nginx"]
    check = "Then ask the address as a player does: gamedctl doctor --public"
    if answers.players is Players.HOME:
        check = "Each device must trust this Caddy once: docs/owners/at-home.md has the steps."
    if _is_replaceable(CADDYFILE, server, text.decode()):
        busy = "Port 443 is in use. If that is not Caddy (ss -ltnp names it), stop that, or see: gamedctl nginx"
        return [PlannedFile(CADDYFILE, text)], [busy, check] if _is_in_use(HTTPS_PORT) else [check]
    beside = CADDYFILE.with_name("gamed.caddy")
    return [PlannedFile(beside, text)], [
        f"{CADDYFILE} has other sites and stays as it is. Add the two blocks of {beside} to it, then: "
        "systemctl reload caddy",
        check,
    ]


def _closed_above(folder: Path, owner: int | None) -> Path | None:
    """Return a folder above this one which the user of the service cannot enter; None if there is none."""
    for each in folder.parents:
        with suppress(FileNotFoundError):
            state = each.stat()
            if not state.st_mode & S_IXOTH and not (state.st_uid == owner and state.st_mode & S_IXUSR):
                return each
    return None


def _is_in_use(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as e:
            return e.errno == EADDRINUSE
    return False


def _is_replaceable(caddyfile: Path, server: Server, text: str) -> bool:
    """Return whether the file has no site but this server's, with its address of now or of an earlier run."""
    try:
        present = caddyfile.read_text("utf-8")
    except FileNotFoundError:
        return True
    first = present.partition("\n")[0]
    if PRINTED not in first:
        return [line.strip() for line in present.splitlines() if line.strip() and line.strip()[0] != "#"] == OF_DEBIAN
    known = _sites(text)
    try:
        known |= _sites(caddy_text(replace(server, public_url=first.removeprefix("# ").partition(", ")[0])))
    except (CommandFailed, ValueError):  # somebody else's words
        return False
    return _sites(present) <= known


def _sites(caddyfile: str) -> set[str]:
    """Return the lines outside of blocks: the addresses of sites, and whatever else stands there."""
    found, depth = set(), 0
    for line in caddyfile.splitlines():
        words = line.split()
        comment = next((number for number, word in enumerate(words) if word.startswith("#")), len(words))
        if not (words := words[:comment]):
            continue
        depth -= words[0] == "}"
        if depth == 0 and words != ["}"]:
            found.add(" ".join(words))
        depth += words[-1].endswith("{")
    return found


def _refuse_foreign(file: PlannedFile) -> None:
    """Raise SetupError for a unit that somebody else wrote; the other files have no rival."""
    if file.path.suffix not in (".service", ".socket", ".timer") or not file.path.exists():
        return
    if PRINTED not in file.path.read_text("utf-8").partition("\n")[0]:
        raise SetupError(f"{file.path} was not printed by gamed, and would be replaced. Move it away first.")


def refuse_folders(plan: Plan, owner: int | None, *, served: bool) -> None:
    """Raise CommandFailed for folders that have other things in them, or belong to another user.

    `owner` is the user of the service; None if that user does not exist yet. `served` means that the data folder has
    the server.
    """
    layout, backups, source = plan.layout, plan.server.backups, plan.source
    data = layout.places.data
    known = ["lost+found"]
    if source is not None and data.is_symlink():
        raise CommandFailed(
            f"{data} is a link, and a server is moved to a folder itself. Mount the disk there instead."
        )
    if source is not None and source.data != data and source.data.is_relative_to(data):
        if source.data.parent != data:
            raise CommandFailed(f"{source.data} is deep in {data}. Move it out of there first, with gamed move-data.")
        known = [source.data.name, source.config.name, notes(source)[1].name, GAME]
        known += [path.name for path in parts_of(notes(source)[1])]
    if backups.resolve().is_relative_to(layout.places.data.resolve()):
        raise CommandFailed(f"{backups} is in the data folder: both would be lost together. Name another folder.")
    if layout.root and (closed := _closed_above(backups.resolve(), owner)) is not None:
        raise CommandFailed(
            f"The user of the service cannot enter {closed}, so not reach {backups}. Name another folder, or open that "
            f"one: chmod o+x {closed}"
        )
    if layout.root and served and layout.places.data.stat().st_uid == 0:
        raise CommandFailed(f"{data} belongs to root. Give it to the service's user first: chown -R {USER}: {data}")
    for folder in [backups, *([] if served else [layout.places.data])]:
        if not folder.exists():
            continue
        if not folder.is_dir():
            raise CommandFailed(f"{folder} is not a folder. Move it away, or name another.")
        begun = OWN if source is None else ()
        names = sorted(
            name for name in os.listdir(folder) if folder == backups or not (name in known or name.startswith(begun))
        )
        if names and (folder != backups or folder.stat().st_uid != owner):
            whose = "belongs to another user and has" if folder == backups else "has no server, but"
            raise CommandFailed(f"{folder} {whose} {names[0]}. Name a folder below it, or move that away.")
        if not layout.root and not os.access(folder, os.W_OK | os.X_OK):
            raise CommandFailed(f"This user cannot write to {folder}. Name another folder.")

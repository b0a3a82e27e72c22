"""`gamed unit`, `gamed nginx` and `gamed caddy` print the samples of `etc/`, filled in for this server."""

import json
import os
import pwd
import sys
import sysconfig
from base64 import b64encode
from collections.abc import Iterator, Sequence
from grp import getgrgid
from itertools import dropwhile, pairwise
from pathlib import Path
from re import compile
from secrets import token_bytes
from urllib.parse import urlsplit

import click
from msgspec import Struct

from gamed.assets.store import FOLDER as ASSETS
from gamed.cli import paths
from gamed.cli.context import CommandContext, read_game_settings
from gamed.cli.data.move_note import refuse_moved
from gamed.cli.errors import CommandFailed, echo
from gamed.cli.paths import Paths
from gamed.cli.process import read_listeners
from gamed.cli.service.listen import Listener, describe
from gamed.config.authentication import load
from gamed.config.game import AssetAccess
from gamed.config.model import Config
from gamed.config.settings import DEFAULT_LISTEN
from gamed.crypto import KEY_BYTES

FOLDER = "etc"
HOST, PROGRAM, UPSTREAM = "play.example.org", "/opt/gamed/bin/gamed", "127.0.0.1:8080"
"""Texts of the samples that are replaced."""
UNITS = {
    "service": "gamed.service",
    "instance": "gamed@.service",
    "socket": "gamed.socket",
    "backup": "gamed-backup.service",
    "timer": "gamed-backup.timer",
}
HOMES = ("/home", "/root", "/run/user")
"""The folders that ProtectHome= closes."""
BACKUPS = Path("/var/lib/gamed-backup")
"""Where the backups of a server in /var/lib/gamed are; systemd makes this folder."""
PRINTED = "printed by: gamed"
"""The words in the first line of each text; `gamed setup` replaces no unit without them."""
SYSTEM_ONLY = (
    *(
        "User=",
        "Group=",
        "Wants=network-online",
        "CapabilityBoundingSet=",
        "AmbientCapabilities=",
        "Private",
        "Protect",
    ),
    *("ProcSubset=", "ReadOnlyPaths=", "ReadWritePaths=", "RemoveIPC=", "KeyringMode=", "DevicePolicy="),
    *("IPAddressDeny=", "RestrictNamespaces="),
)
"""How the settings begin that the service manager of a user has no right to apply (systemd.exec(5))."""
PREFIX = "GAMED_"
"""systemd puts it before the names of the files in the folder of credentials."""
STORE_PASSWORD = "store_password_env"
HTTPS_PORT = 443
BEFORE_LOCATIONS = "    # Not /auth, /game, /assets without the slash"
"""How the first location of nginx's sample begins."""
_PLAIN_PATH = compile(r"[\w./@+-]+")
MODULE = (sys.executable, "-P", "-m", "gamed")
"""The program where there is no script; -P: not one of the current folder, which may be another user's."""


class Server(Struct, frozen=True):
    """The facts of this server that the samples need."""

    places: Paths
    public_url: str | None
    secrets: Sequence[str]
    """The names of the variables with secrets that the configuration names."""
    store_secret: str | None
    """The one of them that has the password of the store in PostgreSQL."""
    postgresql: bool
    """Whether the store is in PostgreSQL."""
    listener: Listener
    backups: Path = BACKUPS
    program: Path | None = None
    """The program that the units start; by default the one that runs."""
    owner: tuple[str, str] | None = None
    """User and group of the service; by default those of the data folder."""
    of_user: bool = False
    """Whether the units are for the service manager of a user without root."""
    any_secrets: bool = False
    """Whether the service gets each secret of the folder of credentials, also if the configuration names none yet."""
    assets: Path | None = None
    """Where the published files are, if their folder is a link out of the data folder."""
    page_backups: bool = False
    """Whether the service itself writes to the folder for backups: the owner's page makes some."""

    @property
    def address(self) -> str:
        """Return the server's address, as `127.0.0.1:8080`, or the path of its socket."""
        if self.listener.path:
            return self.listener.path
        host = self.listener.client_host or "127.0.0.1"
        return f"[{host}]:{self.listener.port}" if ":" in host else f"{host}:{self.listener.port}"


@click.command()
@click.argument("part", type=click.Choice(list(UNITS)), default="service")
@click.pass_obj
def unit(context: CommandContext, part: str) -> None:
    """Print a unit for systemd, filled in for this server: service, instance, socket, backup or timer.

    \b
    gamed unit service > /etc/systemd/system/gamed.service
    gamed unit socket > /etc/systemd/system/gamed.socket

    With the socket, no connection is refused while the service restarts; it needs a public_url. The unit instance is
    gamed@.service, for several servers that share socket and data.
    """
    echo(unit_text(part, read_server(context.places())).rstrip("\n"))


@click.command()
@click.option("--assets", is_flag=True, help="Let nginx itself send published files that are asked for by hash.")
@click.pass_obj
def nginx(context: CommandContext, assets: bool) -> None:
    """Print the configuration of an nginx in front of this server, for /etc/nginx/sites-enabled/."""
    server = read_server(context.places())
    host, port = _public(server)
    text = _headed(_sample("nginx/gamed.conf"), f"nginx{' --assets' if assets else ''}", server)
    if assets:
        text = _with_assets(text, server.places)
    text = text.replace(HOST, host)
    if port != HTTPS_PORT:
        text = _replaced(text, "listen 443 ssl;", f"listen {port} ssl;")
        text = _replaced(text, "listen [::]:443 ssl;", f"listen [::]:{port} ssl;")
        text = _replaced(text, "    listen 80;\n    listen [::]:80;\n", "")  # its redirect leads to port 443
    upstream = f"unix:{_upstream(server)}" if server.listener.path else _upstream(server)
    text = _replaced(text, "    #server unix:/run/gamed.sock fail_timeout=1s;\n", "")
    echo(_replaced(text, f"    server {UPSTREAM} ", f"    server {upstream} ").rstrip("\n"))


@click.command()
@click.option("--internal", is_flag=True, help="Let Caddy sign the certificate, for devices that trust this Caddy.")
@click.pass_obj
def caddy(context: CommandContext, internal: bool) -> None:
    """Print the configuration of a Caddy in front of this server, for /etc/caddy/Caddyfile."""
    echo(caddy_text(read_server(context.places()), internal=internal).rstrip("\n"))


def _with_assets(text: str, places: Paths) -> str:
    """Return the configuration with what `nginx/assets.conf` adds; raise CommandFailed if it cannot have that."""
    if read_game_settings(places).assets.access is AssetAccess.PLAYERS:
        raise CommandFailed(
            f"Only players may read the files of this server ({places.game}). nginx cannot ask who they are."
        )
    folder = (places.data / ASSETS).resolve()
    if folder.is_relative_to(places.data.resolve()):
        raise CommandFailed(
            f"nginx may not enter {places.data}, in which the databases are. Move the published files out of it: "
            "docs/owners/published-files.md, Let nginx send them."
        )
    if not _PLAIN_PATH.fullmatch(str(folder)):
        raise CommandFailed(f"The name of the folder {str(folder)!r} has special characters. Use another.")
    maps, locations = _sample("nginx/assets.conf").split("\nserver {\n")
    maps = "".join(dropwhile(lambda line: line.startswith(("#", "\n")), maps.splitlines(keepends=True)))
    locations = _replaced(locations, "/var/lib/gamed/assets/", f"{folder}/").removesuffix("}\n")
    text = _replaced(text, "\nserver {\n", f"\n{maps}\nserver {{\n")
    return _replaced(text, BEFORE_LOCATIONS, f"{locations}\n{BEFORE_LOCATIONS}")


def unit_text(part: str, server: Server) -> str:
    """Return a unit for this server; raise CommandFailed if the server cannot have it."""
    fill = {"service": _service, "instance": _instance, "socket": _socket, "backup": _backup, "timer": _timer}[part]
    text = fill(_sample(f"systemd/{UNITS[part]}"), server)
    return f"# {UNITS[part]}, {PRINTED} unit {part}\n{_of_user(text) if server.of_user else text}"


def _of_user(text: str) -> str:
    """Return a unit without the settings that need root, for `systemctl --user`."""
    kept = (line for line in text.splitlines(keepends=True) if not line.startswith(SYSTEM_ONLY))
    return "".join(kept).replace("WantedBy=multi-user.target", "WantedBy=default.target")


def caddy_text(server: Server, *, internal: bool = False) -> str:
    """Return the Caddyfile for this server; with `internal` Caddy signs the certificate itself."""
    host, port = _public(server)
    text = _headed(_sample("caddy/Caddyfile"), "caddy", server)
    text = _replaced(text, f"\n{HOST} {{", f"\n{host if port == HTTPS_PORT else f'{host}:{port}'} {{").replace(
        HOST, host
    )
    if internal:
        text = _replaced(text, "\t# A certificate of your own:\n", "\ttls internal\n")
    upstream = f"unix/{_upstream(server)}" if server.listener.path else _upstream(server)
    text = _replaced(text, "\t\t# Or, for a socket: reverse_proxy unix//run/gamed.sock\n", "")
    return _replaced(text, f"\t\treverse_proxy {UPSTREAM} {{", f"\t\treverse_proxy {upstream} {{")


def read_server(places: Paths) -> Server:
    """Read the configuration, without its secrets; raise ConfigError or SetupError."""
    refuse_moved(places)
    text = paths.read_config(places) or paths.FIRST_RUN
    listeners = [describe(text) for text in (*read_listeners(places.data), DEFAULT_LISTEN)]
    return describe_server(places, text, next(listener for listener in listeners if listener.path or listener.port))


def describe_server(places: Paths, text: str, listener: Listener) -> Server:
    """Return the facts about a server with this configuration; raise ConfigError."""
    secrets, config = _named_secrets(text), load_without_secrets(places, text)
    names, password = list(dict.fromkeys(secrets.values())), secrets.get(STORE_PASSWORD)
    assets = _linked(places.data / ASSETS)
    return Server(places, config.public_url, names, password, config.store is not None, listener, assets=assets)


def _linked(folder: Path) -> Path | None:
    return folder.resolve() if os.path.islink(folder) else None


def load_without_secrets(places: Paths, text: str) -> Config:
    """Return the settings of a configuration; raise ConfigError with its errors, but those about secrets."""
    values = dict.fromkeys(_named_secrets(text).values(), new_key())  # a value that each variable may have
    file = str(places.config)
    return load(text, values, paths.read_file, file, providers=False, read_mark=paths.read_regular).config


def new_key() -> str:
    """Return a new master key, as `gamed key new` prints it."""
    return b64encode(token_bytes(KEY_BYTES)).decode()


def _named_secrets(text: str) -> dict[str, str]:
    """Return the names of variables by the member that has them; none if there are errors, which load() reports."""
    try:
        members = json.loads(text)
        named = {member: members.get(member) for member in ("master_key_env", STORE_PASSWORD)}
        named["notify.url_env"] = members.get("notify", {}).get("url_env")
        for name, each in members.get("providers", {}).items():
            named[f"providers.{name}"] = each.get("client_secret_env")
        for name, each in members.get("ticket_audiences", {}).items():
            named[f"ticket_audiences.{name}"] = each.get("secret_env")
    except (ValueError, AttributeError):
        return {}
    return {member: name for member, name in named.items() if isinstance(name, str)}


def _sample(name: str) -> str:
    return paths.shipped(f"{FOLDER}/{name}").read_text("utf-8")


def _replaced(text: str, old: str, new: str) -> str:
    """Return the sample with one text replaced; raise ValueError if it is not there exactly once."""
    if text.count(old) != 1:
        raise ValueError(f"the sample has this text {text.count(old)} times: {old}")
    return text.replace(old, new)


def _headed(text: str, command: str, server: Server) -> str:
    rest = dropwhile(lambda line: line.startswith("#"), text.splitlines(keepends=True))
    return f"# {server.public_url}, in front of gamed; {PRINTED} {command}\n{''.join(rest)}"


def _public(server: Server) -> tuple[str, int]:
    """Return host and port of public_url; raise CommandFailed if a proxy cannot serve it."""
    parts = urlsplit(server.public_url or "")
    if parts.scheme != "https" or parts.hostname is None:
        raise CommandFailed(
            f"A proxy needs an address with https. Set public_url in {server.places.config}, such as https://{HOST}"
        )
    return f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname, parts.port or HTTPS_PORT


def _upstream(server: Server) -> str:
    """Return the address for the proxy's requests; raise CommandFailed if a proxy cannot reach the server."""
    if not server.listener.plain:
        raise CommandFailed(f"The server itself serves https at {server.listener.text}. Listen without ssl: first.")
    if server.listener.path and not _PLAIN_PATH.fullmatch(server.listener.path):
        raise CommandFailed(f"The name of the socket {server.listener.path!r} has special characters. Use another.")
    return server.address


def _service(text: str, server: Server, options: str = "") -> str:
    command = f"{_program(server)} serve{options} --log-format journal"
    if server.public_url is None:  # a passed socket has no address for local mode
        command += f" --listen {quoted(server.listener.text, command=True)}"
        text = _replaced(text, "# Without --listen it serves on every socket that gamed.socket passes.\n", "")
        text = _replaced(text, "Requires=gamed.socket\n", "")
        text = _replaced(text, "After=gamed.socket ", "After=")
        text = _replaced(text, "Also=gamed.socket\n", "")
    text = _replaced(text, f"{PROGRAM} serve{options} --log-format journal", command)
    lines = text.splitlines(keepends=True)
    [(comment, credential)] = [pair for pair in pairwise(lines) if pair[1].startswith("LoadCredential=")]
    secrets = "".join(_credentials(server))
    text = _replaced(text, comment + credential, comment + secrets if secrets else "")
    for folder in (server.assets, server.backups if server.page_backups else None):
        if folder is not None:  # "-": a disk that is not mounted does not stop the server
            text = _replaced(text, "UMask=0077\n", f"ReadWritePaths=-{quoted(str(folder))}\nUMask=0077\n")
    return _in_places(text, server, "StateDirectory=gamed\nStateDirectoryMode=0700\n", "")


def _instance(text: str, server: Server) -> str:
    _require_public_url(server)
    return _service(text, server, " --share")


def _require_public_url(server: Server) -> None:
    if server.public_url is None:
        raise CommandFailed(
            f"A server with a socket of systemd needs a public_url in {server.places.config}. Without one, the unit of "
            "the service listens itself: gamed unit service"
        )


def _socket(text: str, server: Server) -> str:
    _require_public_url(server)
    return _replaced(text, f"ListenStream={UPSTREAM}", f"ListenStream={quoted(server.address)}")


def _backup(text: str, server: Server) -> str:
    text = _replaced(text, f"{PROGRAM} backup", f"{_program(server)} backup")
    if server.postgresql:  # as in gamed-backup.service.d/postgresql.conf
        text = _replaced(text, "no network at all, and what the service cannot do.", "what the service cannot do.")
        text = _replaced(text, "It gets no key, and needs none.", "It gets the store's password, and no key.")
        names = [server.store_secret] if server.store_secret else []
        network = "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n"
        without = "PrivateNetwork=yes\nIPAddressDeny=any\nRestrictAddressFamilies=none\n"
        text = _replaced(text, without, "".join(_files(server, names)) + network)
    own, mode = "StateDirectory=gamed gamed-backup\n", "StateDirectoryMode=0700\n"
    if server.backups == BACKUPS:
        return _in_places(text, server, own + mode, f"StateDirectory=gamed-backup\n{mode}")
    folder = quoted(str(server.backups))
    writable = f"ReadWritePaths={folder}\n"
    text = _replaced(text, "%S/gamed-backup", quoted(str(server.backups), command=True))
    text = _replaced(text, "After=gamed.service\n", f"After=gamed.service\nRequiresMountsFor={folder}\n")
    if server.places == paths.LAYOUT:
        text = _replaced(text, own + mode, f"StateDirectory=gamed\n{mode}{writable}")
    return _in_places(text, server, own + mode, writable)


def _timer(text: str, server: Server) -> str:
    return text


def _in_places(text: str, server: Server, own: str, instead: str) -> str:
    """Return the unit for these places: with its user, and with the folders that it may read and write."""
    places = server.places
    user, group = server.owner or _owner(places.data)
    text = _replaced(text, "User=gamed\nGroup=gamed\n", f"User={user}\nGroup={group}\n")
    used = [server.backups, *([server.assets] if server.assets else [])]
    used += [] if places == paths.LAYOUT else [places.config, places.data, Path(sys.executable)]
    if any(path.is_relative_to(home) for path in used for home in HOMES):
        text = _replaced(text, "ProtectHome=yes\n", "ProtectHome=read-only\n")
    if places == paths.LAYOUT:
        return text
    config, data = quoted(f"GAMED_CONFIG={places.config}"), quoted(f"GAMED_DATA={places.data}")
    folders = f"Environment={config}\nEnvironment={data}\nReadWritePaths={quoted(str(places.data))}\n"
    text = _replaced(text, "ConfigurationDirectory=gamed\nConfigurationDirectoryMode=0750\n", folders)
    text = _replaced(text, own, instead)
    return _replaced(text, "ReadOnlyPaths=/etc/gamed\n", f"ReadOnlyPaths={quoted(str(places.config.parent))}\n")


def _owner(data: Path) -> tuple[str, str]:
    """Return user and group of the data folder, by name if they have one; `gamed` while there is no folder."""
    if not data.exists():
        return "gamed", "gamed"
    state = data.stat()
    try:
        user = pwd.getpwuid(state.st_uid).pw_name
    except KeyError:
        user = str(state.st_uid)
    try:
        return user, getgrgid(state.st_gid).gr_name
    except KeyError:
        return user, str(state.st_gid)


def _credentials(server: Server) -> Iterator[str]:
    """Yield the lines that pass the secrets from the folder `credentials` beside the configuration."""
    if server.any_secrets or any(name.startswith(PREFIX) for name in server.secrets):
        yield f"LoadCredential={quoted(f'GAMED:{credential_folder(server)}')}\n"
    yield from _files(server, [name for name in server.secrets if not name.startswith(PREFIX)])


def _files(server: Server, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        file = credential_folder(server) / name.removeprefix(PREFIX)
        yield f"LoadCredential={quoted(f'{name}:{file}')}\n"


def credential_folder(server: Server) -> Path:
    return server.places.config.parent / "credentials"


def _program(server: Server) -> str:
    script = server.program or Path(sysconfig.get_path("scripts")) / "gamed"
    if server.program or script.exists():
        return quoted(str(script), command=True)
    return " ".join(quoted(word, command=True) for word in MODULE)


def quoted(text: str, *, command: bool = False) -> str:
    """Return a word for a unit file (systemd.syntax(7)); in a command `$` begins a variable."""
    if not text.isprintable():
        raise CommandFailed(f"{text!r} has characters that a unit cannot have. Use another path.")
    text = text.replace("%", "%%").replace("$", "$$" if command else "$")
    if _PLAIN_PATH.fullmatch(text.replace("=", "").replace(":", "")):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

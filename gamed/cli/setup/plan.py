"""The files of `gamed setup`, planned before anything is changed; nothing here writes.

The texts come from `etc/`, filled in by gamed.cli.setup.samples.
"""

import json
import os
from collections.abc import Iterator, Mapping
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG

from msgspec.structs import replace

from gamed.cli import paths
from gamed.cli.errors import SetupError
from gamed.cli.paths import Paths
from gamed.cli.service.listen import describe
from gamed.cli.setup.answers import Answers
from gamed.cli.setup.install import find_program
from gamed.cli.setup.model import KEY_ENV, USER, Layout, Plan, PlannedFile, credential
from gamed.cli.setup.proxy import plan_proxy
from gamed.cli.setup.samples import (
    MODULE,
    PRINTED,
    UNITS,
    Server,
    credential_folder,
    describe_server,
    new_key,
    unit_text,
)
from gamed.config.game import FILE_NAME as GAME


def make_plan(
    layout: Layout, answers: Answers, source: Paths | None, text: str | None, *, port: int, environ: Mapping[str, str]
) -> Plan:
    """Plan every file; `text` is the configuration that is there, and `source` where its server is.

    Raise ConfigError, SetupError or CommandFailed if the plan cannot be carried out.
    """
    config = _configuration(text, answers, with_key=layout.root and source is None)
    listener = describe(f"tcp:{port}:interface=127.0.0.1")
    program, checkout = find_program(layout, postgresql="store" in json.loads(config))
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
    proxy, by_hand = plan_proxy(layout, server, answers)
    files += proxy
    for file in files:
        _refuse_foreign(file)
    words = [str(program)] if is_script else [*MODULE]
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


def _refuse_foreign(file: PlannedFile) -> None:
    """Raise SetupError for a unit that somebody else wrote; the other files have no rival."""
    if file.path.suffix not in (".service", ".socket", ".timer") or not file.path.exists():
        return
    if PRINTED not in file.path.read_text("utf-8").partition("\n")[0]:
        raise SetupError(f"{file.path} was not printed by gamed, and would be replaced. Move it away first.")

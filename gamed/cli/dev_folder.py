"""What `gamed dev` keeps: a folder of its own with a configuration, a master key and the data of a server."""

from base64 import b64encode
from collections.abc import Mapping
from json import dumps, loads
from pathlib import Path
from secrets import token_bytes
from shutil import rmtree

from gamed.cli.dev_plan import Plan
from gamed.cli.files import read_file, write_whole
from gamed.cli.lock import Lock
from gamed.cli.refusal import Refusal
from gamed.config.authentication import FILE_NAME
from gamed.crypto import KEY_BYTES

MASTER_KEY_ENV = "GAMED_DEV_MASTER_KEY"
SECRET_ENVS = {"discord": "GAMED_DEV_DISCORD_SECRET", "google": "GAMED_DEV_GOOGLE_SECRET"}
CLIENT_IDS = {"discord": "80351110224678912", "google": "gamed-dev.apps.googleusercontent.com"}
KEY_FILE = "master.key"
DATA = "data"


def prepare(plan: Plan) -> Path:
    """Make the folder, or take up one that this command made; its configuration file.

    Addresses may change from start to start. Members the developer added to the file stay as they are; to
    `cors_origins` the page's origins are added.
    """
    folder, file = plan.place, plan.place / FILE_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = _kept(folder, file)
        if not (folder / KEY_FILE).exists():
            write_whole(folder / KEY_FILE, b64encode(token_bytes(KEY_BYTES)) + b"\n", 0o600)
        write_whole(file, dumps({**kept, **_members(plan, kept)}, indent=2).encode() + b"\n", 0o640)
    except OSError as e:
        raise Refusal(f"{folder} cannot be used ({e.strerror}); name another with --folder DIR.") from None
    return file


def clear(folder: Path) -> None:
    """Remove what earlier starts made; a folder that is not this command's, or in use, is left alone."""
    try:
        if not folder.exists():
            return
        _kept(folder, folder / FILE_NAME)
        if (folder / DATA).is_dir():
            Lock.take(folder / DATA).release()
        rmtree(folder)
    except OSError as e:
        raise Refusal(f"{folder} cannot be removed ({e.strerror}).") from None


def _kept(folder: Path, file: Path) -> dict[str, object]:
    """What stands in the file already. A folder with anything of somebody else's in it is left alone."""
    if not any(folder.iterdir()):
        return {}
    try:
        found = loads(read_file(str(file)))
    except (FileNotFoundError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("master_key_env") != MASTER_KEY_ENV:
        raise Refusal(f"{folder} holds something else than what `gamed dev` makes; name an empty folder with --folder.")
    return found


def _members(plan: Plan, kept: Mapping[str, object]) -> dict[str, object]:
    """The preset of Discord with its endpoints turned to the provider, and Google by its issuer."""
    from gamed.dev import documents  # late: nothing but `gamed dev` loads that package

    provider = plan.provider
    named = {
        name: {"client_id": CLIENT_IDS[name], "client_secret_env": SECRET_ENVS[name], "label": f"{label} (development)"}
        for name, label in (("discord", "Discord"), ("google", "Google"))
    }
    named["discord"] |= {
        "authorization_endpoint": provider + documents.DISCORD_AUTHORIZE,
        "token_endpoint": provider + documents.DISCORD_TOKEN,
        "userinfo_endpoint": provider + documents.DISCORD_USER,
    }
    named["google"] |= {"issuer": provider}
    members = {"mode": "oauth", "public_url": plan.server, "master_key_env": MASTER_KEY_ENV, "providers": named}
    return members | ({"cors_origins": _origins(plan, kept)} if plan.statics else {})


def _origins(plan: Plan, kept: Mapping[str, object]) -> list[object]:
    """Those of the page, and what the developer allows: what is wrong with that the server will say."""
    from gamed.dev.static import origins

    named = kept.get("cors_origins", [])
    others = named if isinstance(named, list) else [named]
    page = origins(plan.static_port)
    return [*page, *(origin for origin in others if origin not in page)]

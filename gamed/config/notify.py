"""The members `notify` and `backup_interval`: where messages to the owner go, and when a backup is too old.

The URL of a webhook is a secret: everyone who has it can write to the owner. So the file has only the name of its
variable, and no error shows a part of it.
"""

from collections.abc import Mapping
from re import ASCII, compile
from urllib.parse import urlsplit

from gamed.config.errors import InvalidValue
from gamed.config.json_reader import ObjectReader, read_object
from gamed.config.model import Checkpoints, Notify, NotifyFormat
from gamed.config.providers import NEVER_HERE
from gamed.config.secrets import ReadFile, SecretSources, variable_name
from gamed.config.validators import choice, duration, flag, is_private, parse_public_url, plain_text
from gamed.crypto import Secret

MEMBERS = ("url_env", "format", "names")
HINTS = {"url": NEVER_HERE.format(what="URL", member="url_env")}
OFF = "off"
BACKUP_SECONDS = 2 * 86400
"""Twice the pause of the timer that `gamed unit timer` prints."""
BACKUP_BOUNDS = (3600, 366 * 86400)
EXPECTED = "the URL must begin with https://, or with http:// for a private address, and have no user or fragment"
_URL = compile(r"[!-~]{1,2048}", ASCII)


def parse_notify(top: ObjectReader, sources: SecretSources | None) -> Notify | None:
    """Return the webhook; None without the member or with an error in it. Without `sources` its URL is empty."""
    if "notify" not in top:
        return None
    section = top.section("notify")
    section.reject_unknown(MEMBERS, HINTS)
    name = section.required("url_env", variable_name)
    url: Secret | None = Secret(b"")
    if name is not None and sources is not None:
        url = section.value("url_env", lambda _: sources.read(name, webhook_url)[0], None)
    form = section.required("format", choice(NotifyFormat))
    names = section.value("names", flag, False)
    return None if form is None or url is None else Notify(url, form, names)


def url_variable(top: ObjectReader) -> str | None:
    """Return the well-formed name of the variable that contains the URL."""
    return top.section("notify").value("url_env", variable_name, None)


def load_notify(
    text: str, environ: Mapping[str, str], read_file: ReadFile, file: str
) -> tuple[Notify | None, str, str | None]:
    """Return the webhook, the name of the server and the URL's variable: enough to send a message without any key.

    Raise ConfigError with the problems of these members.
    """
    with read_object(text, file, '{"mode": "local"}') as top:
        notify = parse_notify(top, SecretSources(environ=environ, read_file=read_file))
        name = top.value("server_name", plain_text(64), None)
        variable = url_variable(top)
    return notify, name or "", variable


def webhook_url(raw: bytes) -> Secret:
    """Check the URL of a webhook; the host of an http URL is also checked when the server connects to it."""
    text = raw.decode("latin-1")
    try:
        if not _URL.fullmatch(text) or "\\" in text or "#" in text:
            raise ValueError
        parts = urlsplit(text)
        if "@" in parts.netloc or parts.scheme not in ("https", "http"):
            raise ValueError
        host = parse_public_url(f"https://{parts.netloc}").host.strip("[]")
    except (ValueError, InvalidValue):  # their messages may show a part of the URL
        raise InvalidValue(EXPECTED) from None
    if parts.scheme == "http" and is_private(host) is False:
        raise InvalidValue(EXPECTED)
    return Secret(raw)


def parse_backup_interval(top: ObjectReader) -> int | None:
    """Return the age in seconds at which a backup is too old; None if gamed does not make the backups."""
    others = "store" in top or top.members.get("checkpoints") == Checkpoints.EXTERNAL.value
    if top.members.get("backup_interval") == OFF:
        return None
    return top.value("backup_interval", duration(*BACKUP_BOUNDS), None if others else BACKUP_SECONDS)

"""The bodies of messages in the forms of their receivers, in which no name of a player means more than its letters.

A player chooses a name, and the owner's chat shows it. So a message to Discord forbids mentions and has a backslash
before each sign, one to Slack has its three references, and one to ntfy is plain text, with a title as of RFC 2047.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import dumps
from re import ASCII, compile

from msgspec import Struct

from gamed.config.model import NotifyFormat
from gamed.notify.model import MOST_NAMES, Notice
from gamed.structs import redacts
from gamed.visible_text import visible, without_joiners

NAME_CHARACTERS = 32
READ_CHARACTERS = 4 * NAME_CHARACTERS
"""How much of a name is looked at: no name of gamed is longer, and one of 64 KB costs no time."""
WORD_BYTES = 45
"""How much text one encoded word has: 75 characters, with its mark and as Base64 (RFC 2047 2)."""
NO_EMBEDS = 1 << 2
"""Discord's flag against previews of links."""
_SIGNS = compile(r"([!-/:-@\[-`{-~])", ASCII)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
JSON = "application/json"


@redacts("body")
class WebhookMessage(Struct, frozen=True):
    """A message as it is sent: the header fields and the content."""

    headers: Mapping[str, str]
    body: bytes


def encode(form: NotifyFormat, server: str, notices: Sequence[Notice]) -> WebhookMessage:
    """Return the message with these notices; `server` is the name that the owner gave the server, or "" ."""
    title = server or "gamed"
    if form is NotifyFormat.DISCORD:
        content = f"{_discord(title)}: {_text(notices, _discord)}"
        return _json({"content": content, "allowed_mentions": {"parse": []}, "flags": NO_EMBEDS})
    if form is NotifyFormat.SLACK:
        return _json({"text": f"{_slack(title)}: {_text(notices, _slack)}", "unfurl_links": False, "mrkdwn": False})
    if form is NotifyFormat.NTFY:
        fields = {"Content-Type": "text/plain; charset=utf-8", "Title": header_text(title)}
        return WebhookMessage(fields, _text(notices, str).encode())
    listed = [
        {"about": each.about, "state": each.state, "text": each.text, "names": list(_names(each))} for each in notices
    ]
    return _json({"server": title, "text": _text(notices, str), "notices": listed})


def header_text(text: str) -> str:
    """Return a text for a header field: as it is if it is ASCII and cannot be taken for a code, else encoded words."""
    if text.isascii() and text.isprintable() and "=?" not in text:
        return text
    words, piece = [], b""
    for character in text:
        raw = character.encode("utf-8", "replace")
        if len(piece) + len(raw) > WORD_BYTES:
            words.append(piece)
            piece = b""
        piece += raw
    return " ".join(f"=?UTF-8?B?{b64encode(word).decode()}?=" for word in (*words, piece))


def plain_name(name: str) -> str:
    """Return a name on one line, without what is not shown or changes the direction of the text around it."""
    shown = " ".join(without_joiners(visible(name[:READ_CHARACTERS])).split())
    return shown[:NAME_CHARACTERS]


def _names(notice: Notice) -> Iterator[str]:
    return filter(None, map(plain_name, notice.names[:MOST_NAMES]))


def _text(notices: Sequence[Notice], escape: Callable[[str], str]) -> str:
    """Return the sentences as lines, each with the names behind it."""
    lines = []
    for notice in notices:
        names = ", ".join(map(escape, _names(notice)))
        lines.append(f"{escape(notice.text)} {escape('New:')} {names}" if names else escape(notice.text))
    return "\n".join(lines)


def _discord(text: str) -> str:
    return _SIGNS.sub(r"\\\1", text)


def _slack(text: str) -> str:
    # Mattermost reads Slack's form, and there a plain @all is a mention: the wide sign is none.
    return "".join(_ENTITIES.get(each, each) for each in text).replace("@", "\uff20")


def _json(members: Mapping[str, object]) -> WebhookMessage:
    return WebhookMessage({"Content-Type": JSON}, dumps(members).encode())

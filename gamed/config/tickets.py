"""The member `ticket_audiences`: the other servers that may know who is playing (docs/developers/tickets.md).

A server that cannot verify a signature asks this one, with a secret of its own. The file has only the name of the
secret's variable.
"""

from collections.abc import Mapping
from re import ASCII, compile

from gamed.config.errors import InvalidValue
from gamed.config.json_reader import ObjectReader
from gamed.config.model import TicketAudience
from gamed.config.providers import NEVER_HERE
from gamed.config.secrets import SecretSources, variable_name
from gamed.config.validators import flag
from gamed.crypto import Secret

MEMBERS = ("name", "owner", "secret_env")
HINTS = {"secret": NEVER_HERE.format(what="secret", member="secret_env")}
MAX_AUDIENCES = 100
AUDIENCE_CHARACTERS = 255
SECRET_CHARACTERS = (32, 512)
"""Fewer than 32 characters are probably no random ones, and nothing limits how often another server asks."""
_AUDIENCE = compile(rf"[!-~]{{1,{AUDIENCE_CHARACTERS}}}", ASCII)
_SECRET = compile(rf"[!-~]{{{SECRET_CHARACTERS[0]},{SECRET_CHARACTERS[1]}}}", ASCII)


def parse_audiences(top: ObjectReader, sources: SecretSources | None) -> Mapping[str, TicketAudience]:
    """Return the audiences by name; without `sources` none of them has a secret."""
    section = top.section("ticket_audiences")
    if len(section.members) > MAX_AUDIENCES:
        top.problem("ticket_audiences", f"expected at most {MAX_AUDIENCES} audiences")
    found: dict[str, TicketAudience] = {}
    for name in section.members:
        if not _AUDIENCE.fullmatch(name):
            expected = f"a name of 1 to {AUDIENCE_CHARACTERS} visible ASCII characters without spaces"
            section.problem(name, f'expected {expected}, such as "match.example"')
            continue
        audience = _audience(section.section(name), sources)
        for other, earlier in found.items():
            # The secret alone says which server asks.
            if audience.secret is not None and earlier.secret is not None and audience.secret.matches(earlier.secret):
                section.problem((name, "secret_env"), f"is the secret of {other}, too; make one for each audience")
        found[name] = audience
    return found


def secret_variables(top: ObjectReader) -> list[str]:
    """Return the well-formed names of the variables that contain the secrets of audiences."""
    section = top.section("ticket_audiences")
    named = (section.section(name).value("secret_env", variable_name, None) for name in section.members)
    return [name for name in named if name is not None]


def audience_secret(raw: bytes) -> Secret:
    """Check the secret of an audience: visible ASCII without spaces, as an HTTP field can have it (RFC 6750 2.1)."""
    if not _SECRET.fullmatch(raw.decode("latin-1")):
        least, most = SECRET_CHARACTERS
        raise InvalidValue(
            f"the secret must be {least} to {most} visible ASCII characters, without spaces or line ends"
        )
    return Secret(raw)


def _audience(section: ObjectReader, sources: SecretSources | None) -> TicketAudience:
    section.reject_unknown(MEMBERS, HINTS)
    variable = section.value("secret_env", variable_name, None)
    secret = None
    if variable is not None and sources is not None:
        secret = section.value("secret_env", lambda _: sources.read(variable, audience_secret)[0], None)
    return TicketAudience(section.value("name", flag, False), section.value("owner", flag, False), secret)

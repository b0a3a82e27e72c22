"""What is sent to a provider: the four requests there are, and which of them carries which secret (SPEC 1, 5)."""

from collections.abc import Mapping

from msgspec import Struct, field

from gamed.crypto import Secret
from gamed.identity.authorization import basic, form_body
from gamed.structs import hides


@hides("headers", "body")
class Call(Struct, frozen=True):
    """One request; secrets are in fields and body, never in the URL."""

    what: str
    """The setting that named the address."""
    method: str
    url: str
    headers: Mapping[str, Secret] = field(default_factory=dict)
    body: Secret | None = None
    repeatable: bool = True
    """False: it carries a code, and once a byte of it was sent it is not sent again."""
    login_id: str | None = None
    """The login whose code or access token the request carries; None for a public document."""


@hides("secret")
class Client(Struct, frozen=True):
    """Who this server is at one provider."""

    client_id: str
    secret: Secret


def document_call(what: str, url: str) -> Call:
    """A public document."""
    return Call(what, "GET", url)


def account_call(url: str, access: Secret, login_id: str) -> Call:
    """The account that an access token is for (RFC 6750 2.1)."""
    headers = {"Authorization": Secret(b"Bearer " + access.reveal())}
    return Call("userinfo_endpoint", "GET", url, headers, login_id=login_id)


def token_call(url: str, client: Client, form: Mapping[str, bytes], login_id: str, basic_auth: bool = True) -> Call:
    """The only request that has the client secret, and the only one that has the code."""
    fields, headers = dict(form), {"Content-Type": Secret(b"application/x-www-form-urlencoded")}
    if basic_auth:
        headers["Authorization"] = basic(client.client_id, client.secret)
    else:
        fields |= {"client_id": client.client_id.encode(), "client_secret": client.secret.reveal()}
    return Call("token_endpoint", "POST", url, headers, Secret(form_body(fields)), repeatable=False, login_id=login_id)

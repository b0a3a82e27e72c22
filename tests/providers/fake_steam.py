"""A fake Steam signs assertions and confirms each once; a test changes fields before or after the signature."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha1
from hmac import new
from itertools import count
from urllib.parse import parse_qsl, urlsplit

from tests.providers.fake_provider import Call, FakeHttpProvider, Reply

ENDPOINT = "https://steamcommunity.com/openid/login"
CLAIMED = "https://steamcommunity.com/openid/id/"
NAMESPACE = "http://specs.openid.net/auth/2.0"
ACCOUNT = "76561197960287930"
ORDER = ("signed", "op_endpoint", "claimed_id", "identity", "return_to", "response_nonce", "assoc_handle")
CHECK = "/openid/login"
ABSENT = object()
"""A field that is omitted."""
NUMBERS = count(1)


def confirmed(valid: bool = True, **more: str) -> Reply:
    members = {"ns": NAMESPACE, "is_valid": "true" if valid else "false", **more}
    return Reply(200, "".join(f"{name}:{value}\n" for name, value in members.items()).encode(), {})


class FakeSteam(FakeHttpProvider):
    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.now_ms = now_ms
        self.account = ACCOUNT
        self.before: dict[str, object] = {}
        """Fields that Steam itself would sign otherwise."""
        self.changes: dict[str, object] = {}
        """Fields that an attacker changes in the callback."""
        self.used: set[str] = set()
        self.usual[CHECK] = self._check

    def fields(self, return_to: str) -> dict[str, str]:
        """Return the fields of an assertion for this address, with the changes."""
        made = datetime.fromtimestamp(self.now_ms() // 1000, UTC)
        fields: dict[str, object] = {
            "ns": NAMESPACE,
            "mode": "id_res",
            "op_endpoint": ENDPOINT,
            "claimed_id": CLAIMED + self.account,
            "identity": CLAIMED + self.account,
            "return_to": return_to,
            "response_nonce": f"{made:%Y-%m-%dT%H:%M:%SZ}n{next(NUMBERS)}=",
            "assoc_handle": "1234567890",
            "signed": ",".join(ORDER),
        } | self.before
        whole = {**fields, "sig": self.signature(fields), **self.changes}
        return {name: str(value) for name, value in whole.items() if value is not ABSENT}

    def signature(self, fields: Mapping[str, object]) -> str:
        signed = str(fields["signed"]).split(",")
        text = "".join(f"{name}:{fields.get(name)}\n" for name in signed)
        return b64encode(new(b"the key of the fake Steam", text.encode(), sha1).digest()).decode()

    def _check(self, call: Call) -> Reply:
        fields = {name.removeprefix("openid."): value for name, value in call.form.items()}
        assert fields["mode"] == "check_authentication"
        valid = fields["sig"] == self.signature(fields) and fields["response_nonce"] not in self.used
        self.used.add(fields["response_nonce"])
        return confirmed(valid)


def return_to(url: str) -> str:
    """Return the address that an authentication request names."""
    return dict(parse_qsl(urlsplit(url).query, strict_parsing=True))["openid.return_to"]

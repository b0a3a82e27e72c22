"""The runner as browser and person: it opens a sign-in's page, fills the form, follows the return or reads the code."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode, urlsplit

FORM = re.compile(r'<form method="post" action="([^"]+)">(.*?)</form>', re.DOTALL)
HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
CODE = re.compile(r'class="code"[^>]*>\s*(?:<[^>]*>)*([A-Z]{3}-[A-Z]{3})')
WAY_BACK = re.compile(r'href="([^"]*[?&](?:amp;)?ticket=[^"]*)"')
LIMIT_SECONDS = 60.0


class PageFailed(Exception):
    """The server's page is not the one that was expected."""


def fetched(
    url: str, host: str | None = None, method: str = "GET", form: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Request without following redirects; return status, location, headers and text. `host` replaces the URL's own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT_SECONDS)
    try:
        path = url.partition(parts.netloc)[2] or "/"
        fields = {"Host": parts.netloc if host is None else host}
        if form is not None:
            fields["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, None if form is None else urlencode(form), fields)
        answer = connection.getresponse()
        text, headers = answer.read().decode("utf-8", "replace"), answer.getheaders()
        lower = {name.lower(): value for name, value in headers}
        return {"status": answer.status, "location": lower.get("location"), "headers": lower, "text": text}
    finally:
        connection.close()


@dataclass
class Browser:
    """One window at the server on `port`, whatever host the URL names: it bypasses the fake server's faults."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)

    def _ask(self, method: str, path: str, form: dict[str, str] | None = None) -> tuple[int, dict[str, str], str]:
        headers = {"Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none" if form is None else "same-origin"}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None if form is None else urlencode(form)
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_SECONDS)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if cookie := found.get("set-cookie"):
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer.status, found, text

    def open(self, url: str) -> dict[str, Any]:
        """Return what the sign-in page contains: its forms, a finish code, a link back to the game."""
        path = url.partition(urlsplit(url).netloc)[2] if "://" in url else url
        return self._seen(self._ask("GET", path))

    def _seen(self, answer: tuple[int, dict[str, str], str]) -> dict[str, Any]:
        status, headers, text = answer
        while status == 303:
            status, headers, text = self._ask("GET", re.sub(r"^\w+://[^/]*", "", headers["location"]))
        forms = {(action, "create" in body): dict(HIDDEN.findall(body)) for action, body in FORM.findall(text)}
        code, way_back = CODE.search(text), WAY_BACK.search(text)
        back = unescape(way_back[1]) if way_back else None
        return {"status": status, "forms": forms, "code": code and code[1], "return": back, "text": text}

    def submit(self, page: dict[str, Any], ends: str, create: bool = False, **fields: str) -> dict[str, Any]:
        """Submit the form whose action ends so."""
        for (action, creates), hidden in page["forms"].items():
            if action.endswith(ends) and creates == create:
                return self._seen(self._ask("POST", unescape(action), {**hidden, **fields}))
        raise PageFailed(f"no form {ends} on the page (HTTP {page['status']})")

    def sign_in(self, url: str, name: str, password: str, create: bool = False) -> dict[str, Any]:
        """Fill in the form of a server in `local` mode."""
        page = self.open(f"{url}/create" if create else url)
        return self.submit(page, "/local", create, name=name, password=password)

    def sign_in_at_provider(self, url: str, person: str) -> dict[str, Any]:
        """Continue to the development provider as this person; "" is a person who declines there."""
        page = self.open(url)
        [proceed] = [unescape(action) for action, _ in page["forms"] if action.endswith("/continue")]
        answer = self._ask("POST", proceed, page["forms"][proceed, False])
        if answer[0] != 303:
            raise PageFailed(f"no way to the provider (HTTP {answer[0]})")
        asked = fetched(answer[1]["location"])
        form = {"query": unescape(dict(HIDDEN.findall(asked["text"]))["query"]), "person": person}
        back = fetched(answer[1]["location"], method="POST", form=form)["location"]
        return self._seen(self._ask("GET", re.sub(r"^\w+://[^/]*", "", back)))

    def decline(self, url: str) -> dict[str, Any]:
        return self.submit(self.open(url), "/decline")

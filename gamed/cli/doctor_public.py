"""What `gamed doctor --public` asks the public address, as a player's machine would."""

from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from gamed.cli.doctor_local import Step, instance
from gamed.cli.reaching import ask
from gamed.clock import now_ms
from gamed.config.model import Config
from gamed.config.problems import Wrong
from gamed.config.public_url import parse_public_url
from gamed.doctor import public
from gamed.doctor.answers import Answer, Unreached
from gamed.doctor.findings import Finding, skipped

FORGED = {"X-Forwarded-For": "203.0.113.9, 127.0.0.1"}
FAMILIES = ("/auth/sessions", "/game/saves", "/assets/stable")
SHUT = ("/metrics", "/readyz")


class Met(NamedTuple):
    """The first answer of the public address, and whose it is."""

    findings: list[Finding]
    answered: bool
    ours: bool
    """It is the server of this data folder: only then is it given a token."""


def base_of(text: str, config: Config) -> str:
    """The address to ask, in canonical form; "" is public_url. click.UsageError when there is none."""
    chosen = text or config.public_url
    if chosen is None:
        raise click.UsageError("There is no public_url in authentication.json; name the address: --public URL")
    try:
        return str(parse_public_url(chosen))
    except Wrong as e:
        raise click.BadParameter(str(e), param_hint="--public") from None


def meet(base: str, data: Path) -> Met:
    """GET /healthz."""
    answer = ask(f"{base}/healthz")
    if isinstance(answer, Unreached):
        return Met([public.judge_unreached(base, answer)], answered=False, ours=False)
    here = instance(data)
    ends_ms = answer.certificate_ends_ms
    findings = [
        public.judge_health(answer),
        public.judge_instance(answer, here),
        public.judge_certificate(ends_ms, now_ms()),
    ]
    return Met(findings, answered=True, ours=here is not None and answer.headers.get("gamed-instance") == here)


def steps(base: str, config: Config) -> list[Step]:
    """What is asked once the address answers; no credential is sent."""
    provider = next(iter(config.providers), "discord")
    return [
        partial(_policy, base, config),
        lambda: [public.judge_forged(ask(f"{base}/healthz", headers=FORGED))],
        *(partial(_family, base, path) for path in FAMILIES),
        lambda: [public.judge_callback(provider, ask(f"{base}/auth/{provider}/callback"))],
        *(partial(_shut, base, path) for path in SHUT),
        partial(_plain, base),
    ]


def _policy(base: str, config: Config) -> list[Finding]:
    first, second = (ask(f"{base}/auth/config") for _ in range(2))
    if not isinstance(first, Answer) or not isinstance(second, Answer):
        return [public.judge_unreached(base, each) for each in (first, second) if isinstance(each, Unreached)]
    policy = public.judge_policy(first, config.mode.value, tuple(config.providers))
    return [policy, public.judge_caching(first, second)]


def _family(base: str, path: str) -> list[Finding]:
    return [public.judge_family(path, ask(base + path))]


def _shut(base: str, path: str) -> list[Finding]:
    return [public.judge_shut(path, ask(base + path))]


def _plain(base: str) -> list[Finding]:
    parts = urlsplit(base)
    if parts.scheme != "https" or parts.port is not None:
        return [skipped("http", "only for an https address without a port")]
    host = parts.netloc
    return [public.judge_plain(host, ask(f"http://{host}/healthz"))]

"""Fixtures for the tests of both proxies."""

from collections.abc import Iterator
from pathlib import Path

from cryptography.x509 import DNSName
from twisted.trial.unittest import SynchronousTestCase

from tests.proxies.programs import HOST, Proxy
from tests.proxies.samples import Caddy, Nginx
from tests.support.certificates import certificate

KINDS = (Nginx, Caddy)


def in_front(test: SynchronousTestCase, folder: Path, upstream: str) -> list[Proxy]:
    """Run nginx and Caddy in front of the same upstream until the test ends."""
    folder.mkdir(parents=True, exist_ok=True)
    trusted = certificate(folder, DNSName(HOST))
    return list(_started(test, folder, trusted, upstream))


def _started(test: SynchronousTestCase, folder: Path, trusted: Path, upstream: str) -> Iterator[Proxy]:
    for kind in KINDS:
        proxy = kind(folder / kind.name, trusted, upstream)
        test.addCleanup(proxy.close)
        yield proxy

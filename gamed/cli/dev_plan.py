"""What one start of `gamed dev` is to be: ports, a folder, what is beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

LOOPBACK = "127.0.0.1"


class Plan(Struct, frozen=True):
    port: int
    provider_port: int
    static_port: int
    place: Path
    temporary: bool
    """Whether `place` goes at the end."""
    statics: Sequence[Path] = ()
    """Folders of a web page; none: nothing listens on `static_port`."""
    assets: Path | None = None
    """A folder to publish as `stable`; None: samples, where nothing is published."""
    script: Sequence[str] = ()
    """A command to run; none: a person stops the server."""

    @property
    def server(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def provider(self) -> str:
        return f"http://{LOOPBACK}:{self.provider_port}"

    @property
    def page(self) -> str | None:
        return f"http://{LOOPBACK}:{self.static_port}/" if self.statics else None

    @property
    def ports(self) -> Mapping[str, int]:
        """By the option that names another one."""
        named = {"--port": self.port, "--provider-port": self.provider_port}
        return named | ({"--static-port": self.static_port} if self.statics else {})

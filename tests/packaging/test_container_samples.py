"""The samples for compose and Quadlet fit the image, name the version of gamed, and start the same containers.

`.ci/container` builds and runs the image, and lets podman-compose and Quadlet's generator read the samples.
"""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

import gamed
from gamed.cli.service.listen import describe
from tests.packaging.environments import ROOT

FOLDER = ROOT / "etc/container"
TEXTS = ("etc/Containerfile", "etc/container/compose.yaml", "etc/container/gamed.container", "docs/owners/container.md")
TAG = re.compile(r"\bgamed(?::|-image-)(\d[\w.]*?)(?=\.tar\.gz|[\s`]|$)", re.MULTILINE)
SOCKET = "/run/gamed"


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
    return loaded


def quadlet(name: str) -> Mapping[str, list[str]]:
    """Return the values of each key of the section Container or Volume."""
    found = defaultdict(list)
    section = ""
    for line in (FOLDER / name).read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line
        elif section in ("[Container]", "[Volume]") and line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def mounts(volumes: list[str]) -> dict[str, str]:
    """Return what is mounted by its place in the container, without `gamed-` and the folder of the server."""
    pairs = (volume.removesuffix(":ro").split(":") for volume in volumes)
    return {place: re.sub(r"^(?:\./|/srv/gamed/|gamed-)|\.volume$", "", name) for name, place in pairs}


def containerfile() -> str:
    return (ROOT / "etc/Containerfile").read_text("utf-8").replace("\\\n", "")


class ContainerSamplesTests(SynchronousTestCase):
    def test_version(self) -> None:
        """Each tag of the image and each name of its archive has the version of gamed."""
        for path in TEXTS:
            named = TAG.findall((ROOT / path).read_text("utf-8"))
            self.assertEqual((path, {*named}), (path, {gamed.__version__}))

    def test_compose(self) -> None:
        """gamed has a read-only root, no capability and no port; its socket is in a volume that Caddy has, too."""
        read = compose()
        ours, caddy = read["services"]["gamed"], read["services"]["caddy"]
        self.assertEqual((ours["read_only"], ours["cap_drop"], ours.get("ports")), (True, ["ALL"], None))
        serve, option, listener = ours["command"]
        self.assertEqual((serve, option), ("serve", "--listen"))
        self.assertEqual(Path(describe(listener).path).parent, Path(SOCKET))
        self.assertEqual(mounts(ours["volumes"])[SOCKET], mounts(caddy["volumes"])[SOCKET])
        named = {name for each in (ours, caddy) for name in mounts(each["volumes"]).values()}
        self.assertEqual({*read["volumes"]}, named - {"data", "backup", "Caddyfile"})

    def test_image(self) -> None:
        """The samples mount the image's own folders, and have its health check."""
        text, service = containerfile(), compose()["services"]["gamed"]
        [volume] = re.findall(r"(?m)^VOLUME (\S+)$", text)
        self.assertEqual(mounts(service["volumes"])[volume], "data")
        self.assertRegex(text, rf"install -d -m 0755 -o 10001 -g 10001 {SOCKET}\b")
        [options, command] = re.findall(r"(?m)^HEALTHCHECK (.+) CMD (.+)$", text)[0]
        check = service["healthcheck"]
        self.assertEqual(check["test"], ["CMD", *json.loads(command)])
        self.assertEqual(
            dict(re.findall(r"--([\w-]+)=(\S+)", options)),
            {"interval": check["interval"], "timeout": check["timeout"], "start-period": check["start_period"]},
        )

    def test_precompiled(self) -> None:
        """The image compiles gamed, its libraries and the standard library, so that its root may be read-only."""
        steps = re.findall(r"python -m compileall .*--invalidation-mode unchecked-hash(.*)", containerfile())
        self.assertEqual(len(steps), 2)
        self.assertIn("/opt/gamed/lib", steps[0])
        self.assertIn('get_path("stdlib")', steps[1])

    def test_quadlet(self) -> None:
        """Quadlet starts what compose does: images, commands, mounts, ports, health check; each volume has a file."""
        services = compose()["services"]
        volumes = set()
        for name, file in (("gamed", "gamed.container"), ("caddy", "gamed-caddy.container")):
            service, container = services[name], quadlet(file)
            self.assertEqual(
                container["Image"], [f"localhost/{service['image']}" if name == "gamed" else service["image"]]
            )
            self.assertEqual(container["ContainerName"], [service["container_name"]])
            self.assertEqual(mounts(container["Volume"]), mounts(service["volumes"]))
            self.assertEqual(container["PublishPort"], service.get("ports", []))
            self.assertEqual(
                [shlex.split(line) for line in container["Exec"]], [service["command"]] if name == "gamed" else []
            )
            volumes |= {volume.partition(":")[0] for volume in container["Volume"] if not volume.startswith("/")}
        self.assertEqual(volumes, {path.name for path in FOLDER.glob("*.volume")})
        for name in volumes:
            self.assertEqual(quadlet(name)["VolumeName"], [name.removesuffix(".volume")])
        ours = quadlet("gamed.container")
        self.assertEqual((ours["ReadOnly"], ours["DropCapability"]), (["true"], ["all"]))
        self.assertEqual(
            [shlex.split(each) for each in ours["HealthCmd"]], [services["gamed"]["healthcheck"]["test"][1:]]
        )

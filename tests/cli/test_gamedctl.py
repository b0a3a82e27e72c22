"""`etc/gamedctl`: a command gets what the systemd unit gives the service; systemd itself is played."""

import json
import os
import sys
from pathlib import Path

from tests.cli.process import ROOT, CommandTestCase, environment
from tests.config.fixtures import KEY_TEXT, LOCAL, changed

UNIT = """
# /etc/systemd/system/gamed.service
[Unit]
Description=gamed
[Service]
User=gamed
Environment=GAMED_CONFIG={config} "GAMED_DATA={data}"
  Environment = LANG=C.UTF-8 \\
    GAMED_LONG=line
LoadCredential=GAMED_MASTER_KEY:{key}
ExecStart=/opt/gamed/bin/gamed serve
# /etc/systemd/system/gamed.service.d/more.conf
[Service]
Environment="GAMED_EXTRA=$(touch pwned);*"
"""
SYSTEMCTL = """#!/bin/sh
[ "$*" = "cat -- ${EXPECTED:-gamed.service}" ] && cat unit && exit
echo "No files found for $3." >&2
exit 1
"""
SYSTEMD_RUN = """
import json, os, shlex, subprocess, sys
split = sys.argv.index("--")
options, command = sys.argv[1:split], sys.argv[split + 1:]
environ = {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
folder = "/"
for option in options:
    name, _, value = option.partition("=")
    if name == "--setenv" or value.startswith("Environment="):
        environ.update(word.split("=", 1) for word in shlex.split(value.removeprefix("Environment=")))
    if value.startswith("WorkingDirectory=-"):
        folder = value.removeprefix("WorkingDirectory=-")
    if value.startswith("LoadCredential="):
        name, path = value.partition("=")[2].split(":")
        os.makedirs("credentials", exist_ok=True)
        open(f"credentials/{name}", "w").write(open(path).read())
        environ["CREDENTIALS_DIRECTORY"] = os.path.abspath("credentials")
json.dump({"options": options, "command": command}, open("asked", "w"))
sys.exit(subprocess.run(command, env=environ, cwd=folder).returncode)
"""


class GamedctlTests(CommandTestCase):
    def setUp(self) -> None:
        super().setUp()
        key = self.folder / "master.key"
        key.write_text(KEY_TEXT + "\n")
        self.write_config(changed(LOCAL, master_key_env="GAMED_MASTER_KEY"))
        (self.folder / "unit").write_text(UNIT.format(config=self.config, data=self.data, key=key))
        self.tool("systemctl", SYSTEMCTL)
        self.tool("systemd-run", f"#!{sys.executable}\n{SYSTEMD_RUN}")
        self.tool("gamed", f"#!{sys.executable}\nfrom gamed.cli import main\nmain()\n")
        bins = os.pathsep.join([str(self.folder / "bin"), environment({})["PATH"]])
        self.environ = {"PATH": bins, "SUDO_UID": "1000"}

    def tool(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def ctl(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        return self.run_command(*arguments, of=(str(ROOT / "etc" / "gamedctl"),), stdin=stdin)

    def test_beside_the_service(self) -> None:
        """The command finds configuration, data and key, reads its input, and ends with its own code."""
        self.environ["GAMED_MASTER_KEY"] = KEY_TEXT
        process, _ = self.serve()
        del self.environ["GAMED_MASTER_KEY"]
        code, out, err = self.ctl("players", "add", "Anna", "--password-stdin", "--json", stdin="correct horse")
        self.assertEqual((code, err), (0, ""))
        anna = json.loads(out)["id"]
        self.assertEqual(self.ctl("players", "note", "anna", "two words; $(touch pwned)")[0], 0)
        self.assertIn("two words; $(touch pwned)", self.ctl("players", "show", "anna")[1])
        code, out, err = self.ctl("players", "block", "nobody")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("no player", err)
        self.stop(process)
        self.assertIn(f'command="players add" player={anna} by=uid:{os.getuid()}/sudo:1000 ', self.output())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.name == "pwned"), [])

    def test_relative_names(self) -> None:
        """A relative name is one of the owner's folder, which systemd would replace by /."""
        (self.folder / "answers.json").write_text("{}")
        code, _, err = self.ctl("setup", "--answers", "answers.json", "--dry-run")
        self.assertEqual(code, 78, err)
        self.assertTrue(err.startswith("answers.json:1:1: players: missing"), err)

    def test_what_is_passed_on(self) -> None:
        """User, environment and credentials of the unit and its drop-ins, in their order, and nothing else of it."""
        self.ctl("key", "new")
        asked = json.loads((self.folder / "asked").read_text("utf-8"))
        properties = [each.partition("=")[2] for each in asked["options"] if each.startswith("--property=")]
        self.assertEqual(
            [each.partition("=")[0] for each in properties],
            ["User", *["Environment"] * 2, "LoadCredential", "Environment", "WorkingDirectory"],
        )
        self.assertEqual(properties[0], "User=gamed")
        self.assertEqual(properties[2].split(), ["Environment=", "LANG=C.UTF-8", "GAMED_LONG=line"])
        self.assertEqual(properties[-2], 'Environment="GAMED_EXTRA=$(touch pwned);*"')
        self.assertEqual(asked["command"], ["gamed", "key", "new"])
        self.assertFalse(Path(self.folder / "pwned").exists())

    def test_without_the_unit(self) -> None:
        """78 with systemd's own words; another unit can be named."""
        self.environ["GAMED_UNIT"] = "other.service"
        code, out, err = self.ctl("key", "new")
        self.assertEqual((code, out, err), (78, "", "No files found for other.service.\n"))
        self.environ["EXPECTED"] = "other.service"
        self.assertEqual(self.ctl("key", "new")[0], 0)

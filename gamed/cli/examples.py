"""The examples at the end of `gamed COMMAND --help` and in the manual page."""

import click

EXAMPLES = {
    "": ("gamed setup", "gamed serve", "gamed players add anna"),
    "setup": ("gamed setup", "gamed setup --answers answers.json --dry-run"),
    "serve": ("gamed serve --listen 8090", "gamed serve --listen [::1]:8090 --admin 9100"),
    "dev": ("gamed dev", 'gamed dev --script "python3 tests/online.py"'),
    "doctor": ("gamed doctor", "gamed doctor --public --write"),
    "check data": ("gamed check data", "gamed check data --fix"),
    "players add": ("gamed players add anna",),
    "players list": ("gamed players list --state pending", "gamed players list --find ann --limit 20"),
    "players approve": ("gamed players approve 482913",),
    "players invite": ("gamed players invite --name Anna --expires 12h",),
    "players merge": ("gamed players merge anna-old --into anna",),
    "owner claim": ("gamed owner claim anna",),
    "owner page on": ("gamed owner page on --backups /mnt/backups",),
    "owner confirm": ("gamed owner confirm",),
    "events": ("gamed events --since 1d --player anna",),
    "saves restore": ("gamed saves versions anna slot-1", "gamed saves restore anna slot-1 12"),
    "saves export": ("gamed saves export anna anna.zip",),
    "saves import": ("gamed saves import anna anna.zip --dry-run", "gamed saves import anna anna.zip"),
    "backup": ("gamed backup /mnt/backups --keep 14",),
    "restore": ("gamed restore --check /mnt/backups/gamed-20260101T030000Z",),
    "move-data": ("gamed move-data /srv/gamed",),
    "move-store": ("gamed move-store --to postgresql://gamed@db.example.org/gamed", "gamed move-store --to sqlite"),
    "assets publish": ("gamed assets publish build/ --note 1.4.2", "gamed assets publish build/ --channel beta"),
    "assets rollback": ("gamed assets rollback stable",),
    "unit": ("gamed unit service > /etc/systemd/system/gamed.service",),
    "completion": ("source <(gamed completion bash)",),
}
"""By the words after `gamed`."""


def add_examples(command: click.Command, words: str) -> None:
    """Put its examples below the help of a command, and of each command in a group."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            add_examples(inner, f"{words} {name}")
    if words in EXAMPLES:
        command.epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in EXAMPLES[words])])

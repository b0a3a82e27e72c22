"""`python -m tests.walk.planted [NAME...]`: plants defects that releases have had, and takes the walk up to their step.

Each defect goes into a copy of the checkout. The walk must fail there at the step, and print the words. Needs what the
walk needs; a defect takes up to four minutes.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parent.parent.parent
ENGINES = ("sqlite", "postgresql")
TIMEOUT_SECONDS = 900.0
SHOWN_LINES = 4


class Edit(Struct, frozen=True):
    """A text of a file, which is there once, and the text that takes its place."""

    file: str
    right: str
    wrong: str


class Defect(Struct, frozen=True):
    """A defect; with it the walk fails at this step with these words."""

    about: str
    edits: Sequence[Edit]
    step: str
    """The name of the method in story.py."""
    words: Sequence[str]
    """One of them is in what the walk prints from the failed step on."""
    engines: Sequence[str] = ENGINES


DEFECTS = {
    "other_data_folder": Defect(
        "The printed unit serves another data folder than the guide.",
        [Edit("gamed/cli/setup/samples.py", 'f"GAMED_DATA={places.data}"', "f\"GAMED_DATA={places.data / 'data'}\"")],
        "unit",
        ["a start would begin an empty one beside it", "No server has been started on"],
    ),
    "migrate_refuses_itself": Defect(
        "`serve --migrate` holds the lock of a server while its script asks for the database alone.",
        [
            Edit(
                "gamed/database/postgresql/store.py",
                "                self._leave()  # connect() has joined the servers",
                "                pass  # connect() has joined the servers",
            )
        ],
        "guide",
        ["is used by servers or commands that do not work with schema"],
        ("postgresql",),
    ),
    "python_starts_once": Defect(
        "The second `start` of the Python client does nothing.",
        [
            Edit(
                "clients/python/gamed_client/sync.py",
                "            if self._thread is None:\n                self._thread = threading.Thread(",
                "            if self._starts == 1:\n                self._thread = threading.Thread(",
            )
        ],
        "start_again",
        ["the state of python in the Python game"],
    ),
    "javascript_starts_once": Defect(
        "The second `start` of the JavaScript client does nothing.",
        [
            Edit(
                "clients/js/gamed_sync.mjs",
                "    } finally {\n      this.#running = undefined\n",
                "    } finally {\n",
            )
        ],
        "start_again",
        ["the state of javascript in the JavaScript game"],
    ),
    "unlink_leaves_sessions": Defect(
        "Unlinking leaves the sessions that the account opened.",
        [
            Edit(
                "gamed/account/store.py",
                "        session_tables.revoke_any(connection, session_id, command.now_ms)\n",
                "        pass\n",
            )
        ],
        "unlink",
        ["the trouble of the JavaScript game"],
    ),
    "ten_seconds_of_502": Defect(
        "nginx leaves a server out for ten seconds after a restart, so that of two soon none is left.",
        [
            Edit(
                "etc/nginx/gamed.conf",
                f"    {server} fail_timeout=1s;",
                f"    {server} fail_timeout=10s;",
            )
            for server in ("server 127.0.0.1:8080", "#server 192.0.2.12:8080")
        ],
        "rolling",
        ["502"],
    ),
}


def plant(defect: Defect, root: Path) -> None:
    """Make the edits in this checkout; raise ValueError if a text is not there exactly once."""
    for edit in defect.edits:
        file = root / edit.file
        text = file.read_text("utf-8")
        if text.count(edit.right) != 1:
            raise ValueError(f"{edit.file} has this text {text.count(edit.right)} times: {edit.right!r}")
        file.write_text(text.replace(edit.right, edit.wrong), "utf-8")


def copy_checkout(target: Path) -> None:
    """Copy the files that git knows or would add, as they are now."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for path in filter(None, done.stdout.split("\0")):
        if (ROOT / path).is_file():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, target / path)


def walk(root: Path, engine: str, step: str) -> list[str]:
    """Take the walk of a checkout up to a step; return the lines that it prints."""
    words = [sys.executable, "-m", "tests.walk", engine, step]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    return (done.stdout + done.stderr).splitlines()


def failure(lines: Sequence[str]) -> list[str]:
    """Return the line of the step that failed, and all after it; nothing if none did."""
    return [*dropwhile(lambda line: not line.startswith("FAILED"), lines)]


def try_defect(name: str, engine: str) -> bool:
    """Plant a defect in a new copy, take the walk, and print how it failed; return whether it failed as it must."""
    from tests.walk.story import Story

    defect, began = DEFECTS[name], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gamed-planted-") as made:
        root = Path(made)
        root.chmod(0o755)
        copy_checkout(root)
        plant(defect, root)
        lines = walk(root, engine, defect.step)
    shown = failure(lines)
    title = str(getattr(Story, defect.step).__doc__)
    found = bool(shown) and title in shown[0] and any(words in line for words in defect.words for line in shown)
    print(f"{'found ' if found else 'MISSED'} {time.monotonic() - began:5.0f} s  {name} on {engine}: {defect.about}")
    print(
        *(f"    {line[:300]}" for line in (shown or lines)[: None if not found else SHOWN_LINES]), sep="\n", flush=True
    )
    return found


def main(names: Sequence[str]) -> int:
    """Try these defects, or all, on their stores; return the exit code."""
    if unknown := [name for name in names if name not in DEFECTS]:
        print(f"{', '.join(unknown)}: not a defect. The defects: {', '.join(DEFECTS)}", file=sys.stderr)
        return 2
    tried = [try_defect(name, engine) for name in names or DEFECTS for engine in DEFECTS[name].engines]
    print(f"{tried.count(True)} of {len(tried)} found")
    return 0 if all(tried) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

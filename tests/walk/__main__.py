"""`python -m tests.walk sqlite|postgresql [STEP]`: takes the steps of the story, and prints a line for each.

STEP is the name of the last step to take, such as `unlink`; without it all are taken.
"""

import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.walk.checks import look
from tests.walk.machine import Wrong
from tests.walk.story import STEPS, Story


def walk(engine: str, last: str = STEPS[-1].__name__) -> int:
    """Take the steps up to this one on `sqlite` or `postgresql`; return the exit code."""
    began = time.monotonic()
    steps = STEPS[: [each.__name__ for each in STEPS].index(last) + 1]
    with tempfile.TemporaryDirectory(prefix="gamed-walk-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        story = Story(engine, folder)
        try:
            for number, each in enumerate(steps, 1):
                start = time.monotonic()
                title = f"{engine:10} {number:2}/{len(STEPS)}  {each.__doc__}"
                try:
                    each(story)
                    if story.players:
                        look(story.home, story.players)
                except Exception as e:
                    print(f"FAILED {time.monotonic() - start:5.1f} s  {title}", flush=True)
                    report(story, e)
                    return 1
                print(f"ok     {time.monotonic() - start:5.1f} s  {title}", flush=True)
        finally:
            story.close()
    print(f"{len(steps)} steps on {engine}, {time.monotonic() - began:.0f} s")
    return 0


def report(story: Story, error: Exception) -> None:
    """Print what was looked for and found, and the end of each log."""
    print(error if isinstance(error, Wrong) else "".join(traceback.format_exception(error)))
    for machine in story.machines:
        print(f"-- the log of {machine.folder.name}\n{machine.log_tail()}")
    for game in story.games:
        print(f"-- the {game.language} game\n{game.said()}")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is closed
    sys.exit(walk(*sys.argv[1:]))

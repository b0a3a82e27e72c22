"""The older command line, `python gamed_client.py`, until 1.0: `python -m gamed_client` runs the folder beside it."""

from gamed_client import main  # the folder: Python prefers it to this file

raise SystemExit(main())

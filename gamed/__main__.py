"""`python -m gamed` has the same commands as `gamed`; in a checkout its default folder is `.build`."""

from gamed.cli import main

if __name__ == "__main__":
    main(development=True)

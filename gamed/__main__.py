"""`python -m gamed` runs the command `gamed`; in a checkout it uses the configuration in the `.build` folder."""

from gamed.cli import main

if __name__ == "__main__":
    main(development=True)

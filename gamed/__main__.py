"""`python -m gamed`: the same commands; in a checkout they keep to its `.build` folder."""

from gamed.cli import main

if __name__ == "__main__":
    main(development=True)

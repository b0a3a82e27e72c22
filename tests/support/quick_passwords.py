"""`gamed` with argon2id at its least work: each scenario creates a player, whose usual hash takes 40 ms."""

from argon2 import PasswordHasher

from gamed.cli import main
from gamed.players import passwords

if __name__ == "__main__":
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    passwords._hasher = lambda: hasher
    main(development=True)

"""How a command says numbers to a person."""


def counted(count: int, noun: str) -> str:
    """`1 save`, `2 saves`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

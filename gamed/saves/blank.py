"""Recognising a blank save while its bytes arrive (PROTOCOL 4.1)."""

from msgspec import Struct

from gamed.saves.errors import BlankSave


class BlankWatch(Struct):
    """Blank until a byte other than zero was seen; no bytes at all are blank too."""

    blank: bool = True

    def feed(self, data: bytes) -> None:
        if self.blank and data:
            self.blank = not data[0] and data.count(0) == len(data)

    def check(self, size: int, *, allowed: bool) -> None:
        """BlankSave once all `size` bytes were fed and none said anything."""
        if self.blank and not allowed:
            seen = "holds only zero bytes" if size else "is empty"
            raise BlankSave(
                f"The body {seen}, as after a crash while saving. Nothing was stored and the save on the server is "
                "as it was; to remove it, DELETE it."
            )

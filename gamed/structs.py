"""Two kinds of structs beside plain values: what does something, and values with fields that are not shown."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

S = TypeVar("S", bound=type[Struct])


class Component(Struct, frozen=True, eq=False):
    """Does something, with what it was given once; equal to itself alone, and its text tells nothing of its fields.

    They are private, so it is made by position.
    """

    __repr__ = object.__repr__


def redacts(*names: str) -> Callable[[S], S]:
    """For a struct whose text leaves these fields out."""

    def closed(struct: S) -> S:
        if unknown := {*names}.difference(struct.__struct_fields__):
            raise TypeError(f"{struct.__name__} has no {unknown}")
        shown = [name for name in struct.__struct_fields__ if name not in names]

        def text(self: Struct) -> str:
            return f"{struct.__name__}({', '.join([f'{name}={getattr(self, name)!r}' for name in shown])})"

        struct.__repr__ = text  # type: ignore[method-assign,assignment]
        return struct

    return closed

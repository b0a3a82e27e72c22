"""Two kinds of structs exist beside plain values: components, some built late, and values with redacted fields."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

S = TypeVar("S", bound=type[Struct])
T = TypeVar("T")


class Component(Struct, frozen=True, eq=False):
    """An object with collaborators: it is equal only to itself, and its `repr` shows no fields.

    Each class has `kw_only=True`: two collaborators of one type, passed by position, could change places unnoticed.
    """

    __repr__ = object.__repr__


class Late(Generic[T]):
    """A component that is built, and whose modules are imported, at its first use: most servers never need it."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._built: T | None = None

    def get(self) -> T:
        """Return the component, the same one each time; the first call raises ImportError if a module is gone."""
        if self._built is None:
            self._built = self._build()
        return self._built


def redacts(*names: str) -> Callable[[S], S]:
    """Return a decorator for structs whose `repr` leaves these fields out."""

    def decorate(struct: S) -> S:
        if unknown := {*names}.difference(struct.__struct_fields__):
            raise TypeError(f"{struct.__name__} has no {unknown}")
        shown = [name for name in struct.__struct_fields__ if name not in names]

        def text(self: Struct) -> str:
            return f"{struct.__name__}({', '.join([f'{name}={getattr(self, name)!r}' for name in shown])})"

        struct.__repr__ = text  # type: ignore[method-assign,assignment]
        return struct

    return decorate

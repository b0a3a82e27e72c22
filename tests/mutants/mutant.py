"""One defence taken out of the source."""

from attrs import frozen


@frozen
class Mutant:
    name: str
    file: str
    old: str
    """Stands in the file exactly once."""
    new: str
    noticed_by: str
    """The module of tests that fails."""

    def applied(self, source: str) -> str:
        """ValueError if the source is not what it was when this was written."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.file} has not exactly one {self.old!r}")
        return source.replace(self.old, self.new)

"""The sample players: who one can be at the development provider."""

from msgspec import Struct


class Person(Struct, frozen=True):
    """Somebody with an account at both providers; the same at every start."""

    key: str
    name: str
    discord_id: str
    """A snowflake: digits."""
    google_sub: str
    """21 digits."""


PEOPLE = (
    Person("anna", "Anna", "80351110224678912", "110169484474386276334"),
    Person("bo", "Bo", "175928847299117063", "104872013365918274650"),
    Person("chidi", "Chidi", "1024512345678901234", "117263540918273645091"),
    Person("dilek", "Dilek", "999999999999999999", "100000000000000000007"),
)
BY_KEY = {person.key: person for person in PEOPLE}

"""`game.json` is validated like the other configuration file; it has every setting of its page.

See docs/owners/configuration.md: Saves and assets.
"""

from msgspec.structs import fields
from twisted.trial.unittest import SynchronousTestCase

from gamed.config.errors import ConfigError
from gamed.config.game import CONVERTERS, LIMITS, MIB, AssetAccess, GameSettings, SaveLimits, parse_game


class GameTests(SynchronousTestCase):
    def test_nothing_is_required(self) -> None:
        """An empty object stands for the defaults."""
        self.assertEqual(parse_game("{}"), GameSettings())

    def test_every_limit_has_a_member(self) -> None:
        """The file can set every limit."""
        self.assertEqual({field.name for field in fields(SaveLimits)}, set(CONVERTERS))

    def test_values(self) -> None:
        """Sizes are numbers or have a unit; durations, counts, flags and the object `assets` are read."""
        game = parse_game(
            '{"save_bytes": "32 MiB", "bytes": 99999999, "history_bytes": "2GiB", "staged_ttl": "90m", "slots": 7,'
            ' "allow_blank_saves": true, "assets": {"access": "players", "keep_releases": 2}}'
        )
        self.assertEqual((game.saves.save_bytes, game.saves.bytes), (32 * MIB, 99999999))
        self.assertEqual((game.saves.history_bytes, game.staged_seconds), (2048 * MIB, 5400))
        self.assertEqual((game.saves.slots, game.saves.allow_blank_saves), (7, True))
        self.assertEqual((game.assets.access, game.assets.keep_releases), (AssetAccess.PLAYERS, 2))

    def test_all_at_once(self) -> None:
        """Each problem is reported with its position, the member that was meant, and what was expected."""
        text = """{
  "save_byte": 5,
  "slots": "many",
  "bytes": "16 MB",
  "keep_versions": 1,
  "allow_blank_saves": 1,
  "staged_ttl": "1s",
  "assets": {"access": "all", "keep_release": 5},
  "wait_seconds": 1.5
}"""
        with self.assertRaises(ConfigError) as caught:
            parse_game(text)
        self.assertEqual(
            str(caught.exception).splitlines(),
            [
                "game.json:2:3: save_byte: no such member here; did you mean save_bytes?",
                "game.json:3:12: slots: expected a whole number from 1 to 100000 without quotes",
                'game.json:4:12: bytes: expected a size such as "16 MiB" or 16777216, from 1 to 1 TiB',
                "game.json:5:20: keep_versions: expected a whole number from 2 to 1000 without quotes",
                "game.json:6:24: allow_blank_saves: expected true or false without quotes",
                "game.json:7:17: staged_ttl: expected a duration from 1m to 365d",
                'game.json:8:24: assets.access: expected "public" or "players"',
                "game.json:8:31: assets.keep_release: no such member here; did you mean keep_releases?",
                "game.json:9:19: wait_seconds: expected a whole number from 0 to 60 without quotes",
            ],
        )

    def test_bounds(self) -> None:
        """Each number has a minimum and a maximum; booleans, texts and null are not numbers."""
        for name in CONVERTERS:
            for wrong in (
                "-1",
                "null",
                "[]",
                '"x"',
                "1e400" if name == "allow_blank_saves" else "99999999999999",
                "{}",
            ):
                with self.assertRaises(ConfigError, msg=f"{name}: {wrong}") as caught:
                    parse_game(f'{{"{name}": {wrong}}}')
                self.assertIn(name, str(caught.exception))
            if name != "allow_blank_saves":
                with self.assertRaises(ConfigError, msg=name):
                    parse_game(f'{{"{name}": true}}')

    def test_bounds_are_allowed(self) -> None:
        """The lowest and the highest value of a limit can be set, the next ones not."""
        fitting = {"save_bytes": '"bytes": "1 TiB", ', "bytes": '"save_bytes": 1, '}
        for name, limit in LIMITS.items():
            for value in (limit.lowest, limit.highest):
                game = parse_game(f'{{{fitting.get(name, "")}"{name}": {value}}}')
                self.assertEqual(getattr(game.saves, name), value, name)
            for value in (limit.lowest - 1, limit.highest + 1):
                with self.assertRaises(ConfigError, msg=f"{name}: {value}"):
                    parse_game(f'{{{fitting.get(name, "")}"{name}": {value}}}')

    def test_bounds_of_other_members(self) -> None:
        """The lifetime of staged bytes is 60s to 365d, the number of releases 1 to 1000."""
        for text in ('"staged_ttl": "60s"', '"staged_ttl": "365d"', '"assets": {"keep_releases": 1}'):
            parse_game(f"{{{text}}}")
        parse_game('{"assets": {"keep_releases": 1000}}')
        for text in ('"staged_ttl": "59s"', '"staged_ttl": "8761h"', '"assets": {"keep_releases": 0}'):
            with self.assertRaises(ConfigError, msg=text):
                parse_game(f"{{{text}}}")
        with self.assertRaises(ConfigError):
            parse_game('{"assets": {"keep_releases": 1001}}')

    def test_one_save_fits(self) -> None:
        """A limit of one save above the limit of all saves is an error."""
        with self.assertRaises(ConfigError) as caught:
            parse_game('{"bytes": "1 MiB"}')
        self.assertIn("one save may be larger", str(caught.exception))

    def test_no_object(self) -> None:
        """Text that is not JSON, and JSON that is not an object, is an error."""
        for text in ("", "[]", "{", '{"slots": 1, "slots": 2}', "nonsense"):
            with self.assertRaises(ConfigError, msg=text) as caught:
                parse_game(text)
            self.assertTrue(str(caught.exception).startswith("game.json:1:"))

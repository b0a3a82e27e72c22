"""What `gamed doctor` does: the steps taken, one after the other, and the findings told."""

import json
from collections.abc import Iterator, Sequence
from secrets import token_bytes

from gamed.cli import doctor_local, doctor_public, doctor_saving, files, keys
from gamed.cli.doctor_local import Step
from gamed.cli.exchange import refuse_unfinished
from gamed.cli.host import Store, read_with_key
from gamed.cli.places import Places
from gamed.cli.progress import progress
from gamed.cli.reading import Opened
from gamed.cli.refusal import CONFIGURATION, NotDone, Refusal, end, say
from gamed.cli.user import become_owner, ran_by
from gamed.config.game import Game, parse_game
from gamed.config.problems import ConfigError
from gamed.doctor.findings import Finding, any_problem, lines, problem, skipped, summary

WRITING = "ETag, If-Match, ranges, a save of 2 MiB, a wait of 25 s"


def on_this_machine(places: Places) -> tuple[list[Finding], Exception | None]:
    """Return the findings, and what is wrong with the configuration."""
    opened, refused = None, None
    try:
        opened = _read(places, providers=True)
    except (ConfigError, Refusal) as e:
        refused = e
        problems = e.problems if isinstance(e, ConfigError) else ()
        if any(problem.path[-1:] == ("client_secret_env",) for problem in problems):
            opened = _without_secrets(places)
    become_owner(places.data)
    found = list(doctor_local.unreadable(refused)) if refused else []
    return [*found, *_taken(doctor_local.steps(places, opened, complete=refused is None))], refused


def _without_secrets(places: Places) -> Opened | None:
    """Return the configuration if nothing but providers' secrets is wrong with it: no other check needs them."""
    try:
        return _read(places)
    except (ConfigError, Refusal):
        return None


def _read(places: Places, *, providers: bool = False) -> Opened:
    """Return both files; without `providers` their secrets are not read."""
    opened = read_with_key(places, providers=providers)
    if opened.first_run:
        raise Refusal(f"There is no {places.config} yet; `gamed serve` writes one.")
    refuse_unfinished(places.data)
    text = files.read_game(places)
    game = Game() if text is None else parse_game(text, str(places.game))
    return Opened(places, opened.judged, first_run=False, game=game)


def from_outside(places: Places, url: str, *, write: bool) -> Iterator[Finding]:
    """Of the address `url`, "" for public_url; a step is taken when its finding is asked for."""
    opened = _read(places)
    base, runner = doctor_public.base_of(url, opened.judged.config), ran_by()
    become_owner(places.data)
    met = doctor_public.meet(base, places.data)
    yield from met.findings
    if not met.answered:
        yield skipped("everything else", "the address does not answer")
        return
    yield from _taken(doctor_public.steps(base, opened.judged.config))
    if not write:
        yield skipped(WRITING, "they need a player", "Add --write: a player is made for it, and erased afterwards.")
    elif not met.ours:
        yield skipped(WRITING, "it is not the server of this data folder, and gets no token of its players")
    else:
        with doctor_saving.trial_player(_store(opened, runner)) as token:
            yield from _taken(doctor_saving.Trial(base, token, opened.game.saves).steps())


def _store(opened: Opened, runner: str) -> Store:
    """As Host.open() does, which cannot read the key a second time: it is in no environment any more."""
    data, config = opened.places.data, opened.judged.config
    choice = keys.choose(data, config.master_key, token_bytes, config.master_key_origin)
    return Store(data, runner, config, choice)


def _taken(steps: Sequence[Step]) -> list[Finding]:
    with progress(steps, "doctor") as shown:
        return [finding for step in shown for finding in _found(step)]


def _found(step: Step) -> list[Finding]:
    """A step that is kept from looking does not keep the others from it."""
    try:
        return step()
    except OSError as e:
        said = f"{e.filename or 'a file'} cannot be looked at ({e.strerror})"
        return [problem("access", said, "Let the owner of the data folder come to it, or run this as that user.")]


def tell(findings: Sequence[Finding], refused: Exception | None, *, as_json: bool) -> None:
    if as_json:
        bad = any_problem(findings)
        say(json.dumps({"ok": not bad, "findings": [finding.members() for finding in findings]}))
    else:
        say("\n".join(lines(findings)))
    if refused is not None:
        end(CONFIGURATION, f"gamed: {summary(findings)}; the configuration must be mended first")
    if any_problem(findings):
        raise NotDone(summary(findings))
    if not as_json:
        say(summary(findings))

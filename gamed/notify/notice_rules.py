"""Which notices the owner gets: pure decisions over what is true, and over what was sent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from gamed.notify.model import (
    AGAIN_MS,
    BACKUP,
    DIGEST_MS,
    DISK,
    FAILING_MS,
    PROVIDER,
    PROVIDER_FAILURES,
    PROVIDER_WORKS,
    SETTLED_MS,
    STORE,
    WAITING,
    Facts,
    Notice,
    NoticeState,
    SentNotice,
)
from gamed.readable import ago, size
from gamed.timestamps import CLOCKS_MS

NEVER = SentNotice(NoticeState.WELL, 0)
"""The state of something that was never worth a notice."""


class NoticeSettings(Struct, frozen=True):
    """The settings on which notices depend."""

    backup_seconds: int | None
    min_free_bytes: int
    providers: Mapping[str, str]
    """The labels of the configured providers by their names."""
    server_name: str = ""
    titles: Mapping[str, str] = {}
    """The titles of the databases by their names."""
    machine: str = ""
    """The name of this machine among those that share the databases."""


class ProviderRun(Struct, frozen=True):
    """A run of failed sign-ins at one provider, without one that worked."""

    since_ms: int | None = None
    """The first of them; None after one that worked."""
    last_ms: int = 0

    def after(self, outcomes: Iterable[tuple[str, int]]) -> "ProviderRun":
        """Return the run after these ends of logins, which may include known ones, in any order."""
        run = self
        for outcome, at_ms in sorted(outcomes, key=lambda each: each[1]):
            if outcome in PROVIDER_WORKS and at_ms >= run.last_ms:
                run = ProviderRun(None, at_ms)
            elif outcome in PROVIDER_FAILURES and at_ms >= run.last_ms:
                run = ProviderRun(at_ms if run.since_ms is None else run.since_ms, at_ms)
        return run

    @property
    def condition(self) -> NoticeState | None:
        """Return None while nothing shows either: no sign-in, or failures of less than an hour."""
        if self.since_ms is None:
            return NoticeState.WELL if self.last_ms else None
        return NoticeState.BAD if self.last_ms - self.since_ms >= FAILING_MS else None


def due_notices(
    facts: Facts, sent: Mapping[str, SentNotice], runs: Mapping[str, ProviderRun], settings: NoticeSettings, now_ms: int
) -> list[Notice]:
    """Return the notices about all that differs from what was sent."""
    found = [*_waiting(facts, sent.get(WAITING), now_ms), *_damaged(facts, sent, settings, now_ms)]
    for notice in (*_disks(facts, settings), *_backup(facts, settings, now_ms), *_providers(runs, settings)):
        if notice.state != sent.get(notice.about, NEVER).state:
            found.append(notice)
    return found


def new_since_ms(sent: SentNotice | None, now_ms: int) -> int:
    """Return since when waiting players count as new for the next digest; a clock that was set back loses none."""
    return -1 if sent is None else min(sent.at_ms, now_ms) - SETTLED_MS


def _waiting(facts: Facts, sent: SentNotice | None, now_ms: int) -> Iterator[Notice]:
    waiting = facts.waiting
    if waiting.newest_ms is None or waiting.newest_ms <= new_since_ms(sent, now_ms):
        return
    if sent is not None and 0 <= now_ms - sent.at_ms < DIGEST_MS:
        return
    players = "1 player waits" if waiting.count == 1 else f"{waiting.count} players wait"
    text = f"{players} for your approval. To see them, run: gamed players list --pending"
    yield Notice(WAITING, NoticeState.BAD, text, waiting.names)


def _damaged(facts: Facts, sent: Mapping[str, SentNotice], settings: NoticeSettings, now_ms: int) -> Iterator[Notice]:
    for name in sorted(facts.damaged):
        about = f"{STORE}:{name}"
        if not 0 <= now_ms - sent.get(about, NEVER).at_ms < AGAIN_MS:
            title = settings.titles.get(name, name)
            text = f"{title} is damaged or cannot be opened, and nothing is written to it. Run: gamed doctor"
            yield Notice(about, NoticeState.BAD, text)


def _disks(facts: Facts, settings: NoticeSettings) -> Iterator[Notice]:
    for machine, full in facts.full_disks.items():
        about = f"{DISK}:{machine}" if machine else DISK
        where = "The disk of this server" if machine == settings.machine else f"The disk of the machine {machine}"
        if full:
            bound = size(settings.min_free_bytes)
            yield Notice(
                about, NoticeState.BAD, f"{where} has less than {bound} free, so saves are refused. Make room."
            )
        else:
            yield Notice(about, NoticeState.WELL, f"{where} has room again, and saves are stored.")


def _backup(facts: Facts, settings: NoticeSettings, now_ms: int) -> Iterator[Notice]:
    if settings.backup_seconds is None or facts.backup_ms is None:
        return
    if abs(now_ms - facts.backup_ms) <= settings.backup_seconds * 1000:
        yield Notice(BACKUP, NoticeState.WELL, "There is a new backup.")
    elif facts.any_backup and facts.backup_ms > now_ms:  # by a clock that was ahead, or this one is behind
        text = "The last backup is of the future, so its age is not known. Set the clock, then run: gamed backup DIR"
        yield Notice(BACKUP, NoticeState.BAD, text)
    elif facts.any_backup:
        yield Notice(BACKUP, NoticeState.BAD, f"The last backup was made {ago(facts.backup_ms, now_ms)}.")
    else:
        yield Notice(
            BACKUP, NoticeState.BAD, "There is no backup of this server yet. To make one, run: gamed backup DIR"
        )


def _providers(runs: Mapping[str, ProviderRun], settings: NoticeSettings) -> Iterator[Notice]:
    for name, label in settings.providers.items():
        condition = runs.get(name, ProviderRun()).condition
        if condition is NoticeState.BAD:
            text = f"Sign-ins with {label} have failed for more than an hour. To see why, run: gamed doctor"
            yield Notice(f"{PROVIDER}:{name}", condition, text)
        elif condition is NoticeState.WELL:
            yield Notice(f"{PROVIDER}:{name}", condition, f"Sign-ins with {label} work again.")


def latest(sent: Sequence[Mapping[str, SentNotice]], now_ms: int) -> dict[str, SentNotice]:
    """Return for each thing the latest of what was sent, without that of a clock that was ahead."""
    found: dict[str, SentNotice] = {}
    for about, each in (item for one in sent for item in one.items()):
        if each.at_ms <= now_ms + CLOCKS_MS and (about not in found or each.at_ms > found[about].at_ms):
            found[about] = each
    return found

"""Passwords are hashed by argon2id in threads, two at a time, with a short queue (RFC 9106)."""

from collections.abc import Callable
from typing import Any

from argon2 import PasswordHasher, extract_parameters
from argon2.low_level import Type
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from gamed.crypto import Secret
from gamed.players.errors import PasswordsBusy
from gamed.players.passwords import AT_ONCE, DUMMY_HASH, QUEUED, AsyncPasswordHasher, hash_password
from tests.support.covers import covers
from tests.support.databases import InlineReactor, InlineThreads

RIGHT, WRONG = Secret(b"correct horse battery"), Secret(b"correct horse batterz")


class PausedThreads:
    """Threads that run a job when the test calls finish_one()."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def callInThreadWithCallback(self, onResult: Callable[[bool, Any], object], func: Callable[[], Any]) -> None:
        self.jobs.append(lambda: InlineThreads().callInThreadWithCallback(onResult, func))

    def finish_one(self) -> None:
        self.jobs.pop(0)()


class HashTests(SynchronousTestCase):
    """Hashes, and the passwords that match them."""

    def setUp(self) -> None:
        self.passwords = AsyncPasswordHasher(InlineReactor(), InlineThreads())

    def hash(self, password: Secret) -> str:
        return self.successResultOf(ensureDeferred(self.passwords.hash(password)))

    def verify(self, encoded: str | None, password: Secret) -> bool:
        return self.successResultOf(ensureDeferred(self.passwords.verify(encoded, password)))

    def test_parameters(self) -> None:
        """Each hash, also the dummy, is argon2id with two passes over 19 MiB, 16 bytes of salt and 32 of hash."""
        for encoded in (self.hash(RIGHT), hash_password(RIGHT), DUMMY_HASH):
            found = extract_parameters(encoded)
            self.assertEqual((found.type, found.version), (Type.ID, 19))
            self.assertEqual((found.time_cost, found.memory_cost, found.parallelism), (2, 19 * 1024, 1))
            self.assertEqual((found.salt_len, found.hash_len), (16, 32))

    def test_verify(self) -> None:
        """Only the right password matches; each hash has its own salt."""
        encoded = self.hash(RIGHT)
        self.assertNotEqual(encoded, self.hash(RIGHT))
        self.assertTrue(self.verify(encoded, RIGHT))
        self.assertFalse(self.verify(encoded, WRONG))
        self.assertFalse(self.verify(encoded, Secret(b"")))

    @covers("threats/10")
    def test_unknown_name(self) -> None:
        """An unknown name is rejected after the same work, even if the password matches the dummy hash."""
        threads = PausedThreads()
        passwords = AsyncPasswordHasher(InlineReactor(), threads)
        self.assertTrue(self.verify(DUMMY_HASH, Secret(b"nobody at all")))
        answer = ensureDeferred(passwords.verify(None, Secret(b"nobody at all")))
        self.assertEqual(len(threads.jobs), 1)
        threads.finish_one()
        self.assertIs(self.successResultOf(answer), False)

    def test_damaged(self) -> None:
        """A text that is not a hash matches no password."""
        for encoded in ("", "phc", DUMMY_HASH[:-4], DUMMY_HASH.replace("argon2id", "argon2x")):
            self.assertIs(self.verify(encoded, RIGHT), False)

    def test_other_parameters(self) -> None:
        """A hash with other parameters is verified, too, so that a later version can raise them."""
        weaker = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(RIGHT.reveal())
        self.assertTrue(self.verify(weaker, RIGHT))


@covers("threats/39")
class QueueTests(SynchronousTestCase):
    """The limits on running and waiting jobs."""

    def setUp(self) -> None:
        self.threads = PausedThreads()
        self.passwords = AsyncPasswordHasher(InlineReactor(), self.threads)

    def ask(self) -> "Deferred[bool]":
        return ensureDeferred(self.passwords.verify(DUMMY_HASH, RIGHT))

    def test_two_at_once(self) -> None:
        """The third job begins when one of the first two is done."""
        answers = [self.ask() for _ in range(AT_ONCE + 1)]
        self.assertEqual(len(self.threads.jobs), AT_ONCE)
        self.threads.finish_one()
        self.successResultOf(answers[0])
        self.assertNoResult(answers[AT_ONCE])
        self.assertEqual(len(self.threads.jobs), AT_ONCE)

    def test_full(self) -> None:
        """One job more than may wait is rejected at once; after one is done, another may wait."""
        answers = [self.ask() for _ in range(AT_ONCE + QUEUED)]
        self.assertGreaterEqual(self.failureResultOf(self.ask(), PasswordsBusy).value.retry_after, 1)
        self.threads.finish_one()
        answers.append(self.ask())
        self.failureResultOf(self.ask(), PasswordsBusy)
        while self.threads.jobs:
            self.threads.finish_one()
        for answer in answers:
            self.assertIs(self.successResultOf(answer), False)

    def test_client_leaves_the_queue(self) -> None:
        """A client that disconnects while waiting leaves the queue, and its job never begins."""
        answers = [self.ask() for _ in range(AT_ONCE + QUEUED)]
        answers[-1].addErrback(lambda _: None)
        answers[-1].cancel()
        self.ask()
        self.failureResultOf(self.ask(), PasswordsBusy)

    def test_client_leaves_the_thread(self) -> None:
        """A client that disconnects while the thread works does not let a third job begin before the thread is done."""
        answers = [self.ask() for _ in range(AT_ONCE + 1)]
        answers[0].addErrback(lambda _: None)
        answers[0].cancel()
        self.assertEqual(len(self.threads.jobs), AT_ONCE)
        self.threads.finish_one()
        self.assertEqual(len(self.threads.jobs), AT_ONCE)
        self.threads.finish_one()
        self.assertIs(self.successResultOf(answers[1]), False)

    def test_failure(self) -> None:
        """A job that fails raises its error, and another may begin."""
        broken = ensureDeferred(self.passwords.verify(7, RIGHT))  # type: ignore[arg-type]
        self.threads.finish_one()
        self.failureResultOf(broken, AttributeError)
        answers = [self.ask() for _ in range(AT_ONCE)]
        self.assertEqual(len(self.threads.jobs), len(answers))


class ThreadTests(TestCase):
    """The hasher on the reactor's own threads."""

    async def test_in_service(self) -> None:
        """Hashing and verifying do not block the reactor."""
        from twisted.internet import reactor

        passwords = AsyncPasswordHasher(reactor)  # type: ignore[arg-type]
        encoded = await passwords.hash(RIGHT)
        self.assertTrue(await passwords.verify(encoded, RIGHT))
        self.assertFalse(await passwords.verify(encoded, WRONG))

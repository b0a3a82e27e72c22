"""Samples of the running service count for the right parts of it."""

from twisted.trial.unittest import SynchronousTestCase

from bench.where import ENOUGH, KERNEL, REST, THREADS, Spent, part_of, parts

REACTOR = "run (twisted/internet/base.py);runUntilCurrent (twisted/internet/base.py)"
READING = f"{REACTOR};doRead (twisted/internet/tcp.py);dataReceived (gamed/http/connection.py)"


class WhereTests(SynchronousTestCase):
    def test_the_innermost_part_counts(self) -> None:
        """Time in Twisted counts to the part that called it; time in a socket's write counts to the reactor."""
        saving = f"{READING};_read (gamed/saves/routes.py)"
        answering = f"{READING};send_result (gamed/http/request.py)"
        for stack, name in (
            (READING, "head, route, body policy"),
            (REACTOR, "reactor's turn"),
            (f"{saving};read (gamed/saves/service.py);__init__ (twisted/internet/defer.py)", "handler"),
            (f"{saving};submit (gamed/database/queues.py)", "to the database and back"),
            (f"{answering};line (gamed/ops/metrics.py)", "log line, counters"),
            (f"{answering};write (twisted/internet/tcp.py)", "reactor's turn"),
            ("main (runpy.py)", REST),
        ):
            self.assertEqual(part_of(stack), name, stack)

    def test_too_few_samples(self) -> None:
        """Too few samples are an error."""
        seen = f"thread (1): MainThread;x (gamed/http/site.py) {ENOUGH - 1}"
        self.assertRaises(RuntimeError, parts, [seen], Spent(160.0, 30.0, 40.0))
        self.assertRaises(RuntimeError, parts, [], Spent(160.0, 30.0, 40.0))

    def test_parts_of_the_whole(self) -> None:
        """The parts of the main thread's time add up to the whole; the kernel's figures are not divided."""
        main, other = "thread (3203): MainThread", "thread (3224): PoolThread-1"
        lines = [f"{main};{READING} 30", f"{main};{REACTOR} 40", f"{main};main (a file.py) 10", f"{other};{READING} 99"]
        found = parts([*lines, f"{main};{REACTOR};Poll.doPoll (x.py) 70"], Spent(160.0, 30.0, 40.0))
        self.assertEqual(found["head, route, body policy"], 60.0)
        self.assertEqual(found["reactor's turn"], 80.0)
        self.assertEqual((found[REST], found[KERNEL], found[THREADS]), (20.0, 30.0, 40.0))
        self.assertEqual(sum(found.values()), 230.0)

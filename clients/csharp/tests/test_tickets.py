"""The sample for match servers in C# checks tickets of a real server."""

from clients.csharp.tests.building import CLIENT, built, tool
from tests.tickets.samples import SAMPLES, SECRET, FailingServer, SampleCase


class CSharpTests(SampleCase):
    def test_checks(self) -> None:
        """The C# server accepts the tickets of this connection alone."""
        cases = self.cases()
        program = built("CheckTicket", SAMPLES / "CheckTicket.cs")
        command = [tool("mono"), program, self.service.base]
        self.check(self.run_lines(command, cases, GAMED_MATCH_SECRET=SECRET), cases)
        self.assertIn(CLIENT[0].name, (SAMPLES / "CheckTicket.cs").read_text("utf-8"))
        failing = FailingServer()
        self.addCleanup(failing.close)
        for server, secret in ((failing.base, SECRET), (self.service.base, "w" * 40)):
            answers = self.run_lines([tool("mono"), program, server], self.unknown(), GAMED_MATCH_SECRET=secret)
            self.check(answers, self.unknown())

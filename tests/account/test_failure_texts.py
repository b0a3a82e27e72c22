"""Every refused action of the account pages and of links has a sentence that says what to do next."""

import re

from twisted.trial.unittest import SynchronousTestCase

from gamed.account import links_routes, responder
from tests.pages.test_texts import ADVICE

NEXT = re.compile(
    rf"{ADVICE.pattern}|Open it yourself\.|Open your account and (look|choose) again\.|Go back and choose .+\."
    r"|Link another one first\.|Add another passkey first\.|Remove one first\."
    r"|Look at the versions again, then choose\."
)
"""The things a person can do on these pages; a sentence of another kind needs a row here, and a reason."""


class FailureTextTests(SynchronousTestCase):
    def test_advice(self) -> None:
        """Each error with a page of its own tells the person what to do."""
        for failures in (responder.FAILURES, links_routes.FAILURES):
            said = {kind.__name__: sentence.source for kind, (_, sentence) in failures.items()}
            self.assertEqual({name: text for name, text in said.items() if not NEXT.search(text)}, {})

    def test_planted_sentence(self) -> None:
        """A sentence that only says what is wrong has no advice."""
        for sentence in ("That device is not known.", "Nothing was changed.", "This is your last way to sign in."):
            self.assertIsNone(NEXT.search(sentence), sentence)

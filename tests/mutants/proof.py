"""Each part of the return proof taken out, as an edit of the source (PROTOCOL 3.4, 3.5)."""

from tests.mutants.mutant import Mutant

PROOF, DELIVERY, DELIVERIES = "gamed/login/proof.py", "gamed/login/delivery.py", "gamed/storage/auth/deliveries.py"
DONE, STARTING, COLLECTING = "gamed/login/done.py", "gamed/login/starting.py", "gamed/login/collecting.py"
BROWSER, MACHINE = "gamed/login/browser.py", "gamed/login/transaction.py"
PROVING, DELIVERING, ARROWS = (
    "tests.login.test_handoff.Proving",
    "tests.login.test_delivering",
    "tests.login.test_transaction",
)
WORDS, ENTERING = "tests.login.test_words", "tests.login.test_handoff.Entering"


def _drop(name: str, file: str, old: str, new: str, noticed_by: str = PROVING) -> Mutant:
    return Mutant(name, file, old, new, noticed_by)


WRONG = "if not delivery.proven(login, ReturnProof.from_bytes(raw_proof), claim.presented):"
CHECKS = (
    _drop("asked_for", DELIVERIES, WRONG, "if False:"),
    _drop("none_is_enough", DELIVERY, "return login.return_proof is Proof.NONE", "return True", DELIVERING),
    _drop("none_is_never_enough", DELIVERY, "return login.return_proof is Proof.NONE", "return False"),
    _drop("any_proof", DELIVERY, "return proof.proven_by(presented)", "return True"),
    _drop("compared", PROOF, "return expected.matches(presented.value)", "return True"),
    _drop(
        "code_for_ticket",
        PROOF,
        "if presented.kind is ProofKind.TICKET else self.finish_code",
        "if False else self.finish_code",
    ),
    _drop(
        "ticket_for_code", PROOF, "self.ticket if presented.kind is ProofKind.TICKET else", "self.ticket if True else"
    ),
    _drop(
        "ready_only",
        DELIVERIES,
        "if login.stage is not Stage.READY:",
        "if login.stage in (Stage.DENIED, Stage.CANCELLED):",
        DELIVERING,
    ),
    _drop("before_ready", COLLECTING, "return login.stage is Stage.READY and proof", "return proof", DELIVERING),
    _drop("by_the_clock", DELIVERIES, "login = before.at(claim.now_ms)", "login = before", DELIVERING),
    _drop("counted", DELIVERY, "wrong_codes=login.wrong_codes + 1", "wrong_codes=login.wrong_codes"),
    _drop(
        "five",
        DELIVERY,
        "if counted.wrong_codes < MAX_WRONG_CODES else",
        "if counted.wrong_codes <= MAX_WRONG_CODES else",
    ),
    _drop(
        "four",
        DELIVERY,
        "if counted.wrong_codes < MAX_WRONG_CODES else",
        "if counted.wrong_codes < MAX_WRONG_CODES - 1 else",
    ),
    _drop("never_ends", DELIVERY, "if counted.wrong_codes < MAX_WRONG_CODES else", "if True else"),
    _drop(
        "tickets_count",
        DELIVERY,
        "if presented is None or presented.kind is ProofKind.TICKET:",
        "if presented is None:",
    ),
    _drop(
        "none_counts",
        DELIVERY,
        "if presented is None or presented.kind is ProofKind.TICKET:",
        "if presented is not None and presented.kind is ProofKind.TICKET:",
        DELIVERING,
    ),
    _drop("written_down", DELIVERIES, "    logins.save(connection, answer.move)\n", "", DELIVERING),
    _drop("shown_to_the_winner", DONE, "if not login.won_by(browser):", "if False:", ENTERING),
    _drop("shown_to_any_cookie", MACHINE, "compare_digest(winner, browser)", "True", ENTERING),
    _drop("returned_once", MACHINE, "return replace(self, returned=True) if self.returnable else self", "return self"),
    _drop("to_the_port_only", MACHINE, "self.return_proof is Proof.LOOPBACK_OR_CODE and ", ""),
    _drop(
        "erased_when_delivered",
        MACHINE,
        "session_id=session_id, sealed_result=result, sealed_identity=None, sealed_proof=None)",
        "session_id=session_id, sealed_result=result)",
        DELIVERING,
    ),
    _drop(
        "erased_at_the_end",
        MACHINE,
        "sealed_identity=None, sealed_proof=None, sealed_result=None)",
        "sealed_identity=None, sealed_result=None)",
        ARROWS,
    ),
    _drop("off_only_when_off", STARTING, "if self._terms.return_proof is ReturnProof.OFF:", "if True:"),
    _drop("off", STARTING, "if self._terms.return_proof is ReturnProof.OFF:", "if False:"),
    _drop("letters", PROOF, "CODE_LETTERS = 6", "CODE_LETTERS = 5", WORDS),
    _drop("alphabet", PROOF, '"BCDFGHJKLMNPQRSTVWXZ"', '"ABCDFGHJKLMNPQRSTVWXZ"', WORDS),
    _drop("fair", PROOF, "if byte < _FAIR", "if True", WORDS),
    _drop("case", PROOF, "for c in text.upper() if", "for c in text if", WORDS),
    _drop("dashes", PROOF, 'if c not in " -', 'if c not in " ', WORDS),
)

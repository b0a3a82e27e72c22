"""Tracebacks for the log, without source lines and without values that may be secrets."""

from re import ASCII, compile
from traceback import walk_tb

_SECRET = compile(r"[A-Za-z0-9+/=_~.%-]{16,}", ASCII)
_MESSAGE_CHARACTERS = 200


def redacted_traceback(error: BaseException | None) -> str:
    """Return the chain of causes, innermost first: module, line and function of each frame, then type and message.

    No source line and no local variable is shown. Runs of 16 and more credential characters are blacked out.
    """
    parts = [_one(link) for link in _chain(error)]
    return "\nthen\n".join(parts)


def redact(text: str) -> str:
    """Return one line of at most 200 printable characters, without anything long enough to be a credential."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return _SECRET.sub("[...]", printable)[:_MESSAGE_CHARACTERS]


def _chain(error: BaseException | None) -> list[BaseException]:
    links: list[BaseException] = []
    link = error
    while link is not None and link not in links:
        links.insert(0, link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return links


def _one(error: BaseException) -> str:
    frames = [
        f"  {frame.f_globals.get('__name__')}:{line} in {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
    ]
    return "\n".join([*frames, f"  {type(error).__name__}: {redact(_words(error))}"])


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a Secret among the arguments refuses to be shown
        return "(not shown)"

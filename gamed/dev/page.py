"""What a person sees at the development provider: plain, and marked so that nobody takes it for the real one."""

from twisted.web.template import Tag, flatten, tags

from gamed.dev.grants import Manner
from gamed.dev.people import PEOPLE
from gamed.dev.sides import Side

MARK = "Development provider"
MANNERS = {
    Manner.AT_ONCE: "answers at once",
    Manner.SLOW: "takes 3 seconds",
    Manner.FAIL: "fails",
}
STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 27rem; margin: 0 auto; padding: 1rem; }
header { border: 3px dashed; padding: .5rem 1rem; }
button { display: block; width: 100%; margin: .5rem 0; padding: .625rem; font: inherit; }
fieldset { margin: 1rem 0; }
"""


def choice(side: Side, client_id: str, query: str) -> bytes:
    """Who to be, and how the provider behaves; the form brings `query` back."""
    form = tags.form(method="post")(
        tags.input(type="hidden", name="query", value=query),
        *(tags.button(f"Continue as {person.name}", name="person", value=person.key) for person in PEOPLE),
        tags.button("Deny", name="person", value=""),
        tags.fieldset(
            tags.legend(f"When gamed asks then, {side.name}"),
            *(
                tags.div(
                    tags.label(
                        tags.input(type="radio", name="manner", value=manner.value, **_chosen(manner)), f" {text}"
                    )
                )
                for manner, text in MANNERS.items()
            ),
        ),
    )
    return _page(
        f"This plays {side.name}",
        tags.p(tags.bdi(client_id), f" asks for the scope “{side.scope}”. Who are you?"),
        form,
    )


def refused(side: Side, reason: str) -> bytes:
    """No redirect: the person sees what the developer must mend."""
    return _page(f"{side.name} would not go on", tags.p(reason))


def front() -> bytes:
    """At `/`, for who looks."""
    return _page("This plays Discord and Google", tags.p("There is nothing to do here: sign in from a game."))


def _chosen(manner: Manner) -> dict[str, str]:
    return {"checked": "checked"} if manner is Manner.AT_ONCE else {}


def _page(title: str, *content: Tag) -> bytes:
    mark = tags.header(tags.strong(MARK), ": everybody can be anybody here. It runs on this machine only.")
    head = tags.head(
        tags.meta(charset="utf-8"),
        tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
        tags.title(f"{title} - {MARK}"),
        tags.style(STYLE),
    )
    written: list[bytes] = []
    flatten(None, tags.html(head, tags.body(mark, Tag("main")(tags.h1(title), *content)), lang="en"), written.append)
    return b"<!DOCTYPE html>\n" + b"".join(written)

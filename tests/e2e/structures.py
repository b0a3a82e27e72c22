"""All pages of the galleries, and those that differ in more than their words."""

import re
from collections.abc import Sequence
from functools import cache

from tests.account import gallery as player_gallery
from tests.login import gallery
from tests.login.gallery import Shown
from tests.pages.marked import FOREIGN

VALUES = re.compile(rb' (?:href|value|datetime|title|action|src)="[^"]*"|\d+')
MANY_ROWS_BYTES = 50_000
"""Pages with more repeat the rows of others, and would take most of the time of axe-core."""


@cache
def every_page() -> Sequence[Shown]:
    """Return the pages of both galleries, with long values and other scripts, too."""
    return [page for page in (*gallery.every_page(), *player_gallery.every_page()) if page.page is not None]


def has_many_rows(page: Shown) -> bool:
    return len(page.html.partition(b"</head>")[2]) >= MANY_ROWS_BYTES


@cache
def structures() -> Sequence[Shown]:
    """Return a page for each set of elements, by tag, class and label: axe-core sees the same in other words."""
    found: dict[object, Shown] = {}
    for page in every_page():
        body = page.spoken(FOREIGN).partition(b"</head>")[2]
        elements = frozenset(VALUES.sub(b"", each) for each in re.findall(rb"<[^>]*>", body))
        if not has_many_rows(page):
            found.setdefault(elements, page)
    return list(found.values())

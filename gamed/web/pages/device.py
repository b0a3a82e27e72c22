"""What a page shows of the device that asks, in its own words, and the way to say no (PROTOCOL 3.2)."""

from msgspec import Struct
from twisted.web.template import Tag, tags

from gamed.login.client import Client
from gamed.structs import hides
from gamed.web.pages import texts
from gamed.web.pages.layout import Content, foreign, paragraph, sentence

MINUTE = 60


@hides("token", "form")
class Asked(Struct, frozen=True):
    """One login as a page knows it: its address, the field that its forms carry, who asks and since when."""

    token: str
    form: str
    client: Client
    age_seconds: int

    def post(self, action: str, *content: Content) -> Tag:
        """A form of this login to `.../{action}`."""
        hidden = tags.input(type="hidden", name="form", value=self.form)
        return tags.form(hidden, *content, method="post", action=f"/auth/login/{self.token}/{action}")


def device_box(asked: Asked) -> Tag:
    """The device's words are not ours: each stands alone, marked as reported."""
    client = asked.client
    lines = [_words(client.name, client.version), _words(client.device_name, client.platform)]
    said = [tags.dd(*line) for line in lines if line] or [tags.dd(texts.DEVICE_SILENT)]
    label = tags.dt(texts.DEVICE_LABEL)
    return tags.div(tags.dl(label, *said), tags.p(started(asked.age_seconds), class_="ago"), class_="device")


def not_me(asked: Asked) -> Tag:
    button = tags.button(texts.NOT_ME, type="submit", class_="quiet")
    return tags.div(paragraph(texts.NOT_ME_LEAD), asked.post("decline", button), class_="foot")


def started(seconds: int) -> str:
    """How long ago, as a person would say it."""
    minutes = seconds // MINUTE
    if minutes < 1:
        return texts.STARTED_NOW
    return texts.STARTED_MINUTE if minutes == 1 else texts.STARTED_MINUTES.format(minutes=minutes)


def _words(first: str | None, second: str | None) -> list[Content]:
    if first is None or second is None:
        return [foreign(word) for word in (first, second) if word is not None]
    return sentence(texts.DEVICE_WORDS, first=foreign(first), second=foreign(second))

"""The browser pages: plain HTML without script, for phone and desk, light and dark (PROTOCOL 3.2, 3.4)."""

from gamed.web.pages.errors import error_page as error_page
from gamed.web.pages.layout import PAGE_HEADERS as PAGE_HEADERS

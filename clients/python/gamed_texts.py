"""The older name of gamed_client.texts, until 1.0: the same module."""

import sys
import warnings

import gamed_client.texts
from gamed_client.texts import *  # noqa: F403 - type checkers find its names here

warnings.warn("gamed_texts is gamed_client.texts now; this name works until 1.0.", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = gamed_client.texts

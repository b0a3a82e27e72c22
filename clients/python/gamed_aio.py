"""The older name of gamed_client.aio, until 1.0: the same module."""

import sys
import warnings

import gamed_client.aio
from gamed_client.aio import *  # noqa: F403 - type checkers find its names here

warnings.warn("gamed_aio is gamed_client.aio now; this name works until 1.0.", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = gamed_client.aio

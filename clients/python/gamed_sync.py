"""The older name of gamed_client.sync, until 1.0: the same module."""

import sys
import warnings

import gamed_client.sync
from gamed_client.sync import *  # noqa: F403 - type checkers find its names here

warnings.warn("gamed_sync is gamed_client.sync now; this name works until 1.0.", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = gamed_client.sync

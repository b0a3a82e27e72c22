"""The older name of gamed_client.assets, until 1.0: the same module."""

import sys
import warnings

import gamed_client.assets
from gamed_client.assets import *  # noqa: F403 - type checkers find its names here

warnings.warn("gamed_assets is gamed_client.assets now; this name works until 1.0.", DeprecationWarning, stacklevel=2)
sys.modules[__name__] = gamed_client.assets

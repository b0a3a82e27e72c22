"""The third file of the reference client as a module."""

from tests.client import reference

PATH = reference.PATH.with_name("gamed_assets.py")
gamed_client = reference.gamed_client
gamed_assets = reference.loaded(PATH)

"""The second file of the reference client as a module."""

from tests.client import reference

PATH = reference.PATH.with_name("gamed_sync.py")
gamed_client = reference.gamed_client
gamed_sync = reference.loaded(PATH)

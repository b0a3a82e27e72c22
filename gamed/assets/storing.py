"""New objects brought to their place in the store: all of them, or none (PROTOCOL 5)."""

import os
import shutil
from collections.abc import Callable, Mapping
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Final

from gamed.assets import crew
from gamed.assets.crew import Growing, Meter
from gamed.assets.disk import make_folder
from gamed.assets.errors import AssetsDamaged, AssetsFull, PublishRefused
from gamed.assets.paths import Refused
from gamed.assets.scanning import CHANGED, Found, SourceUnusable, digest_of
from gamed.assets.store import TMP, AssetStore

_FULL: Final = (ENOSPC, EDQUOT, EFBIG)


def store_objects(
    store: AssetStore,
    new: Mapping[str, Found],
    placed: list[Path],
    growing: Growing,
    look: Callable[[], None],
) -> None:
    """Each in `tmp` first, all of them whole before the first gets its place; `placed` gets those that are in place.

    PublishRefused, AssetsFull, AssetsDamaged, an OSError, or what `look` raises, which is asked some times a second.
    """
    if not new:
        return
    staged = store.folder / TMP / "publish"
    try:
        make_folder(staged)
        with growing("storing", sum(found.size for found in new.values())) as shown:
            crew.each(new, lambda sha256, meter: _copy(new[sha256], staged / sha256, meter), shown, look)
        for folder in {store.object_path(sha256).parent for sha256 in new}:
            make_folder(folder)
            if folder.is_symlink():  # readers would refuse to go on there
                raise AssetsDamaged(f"{folder} is a link")
        for sha256 in new:
            place = store.object_path(sha256)
            if not place.exists():
                placed.append(place)
            (staged / sha256).rename(place)
    except OSError as e:
        raise full(e) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def full(error: OSError) -> Exception:
    """The error, as AssetsFull where the disk is to blame."""
    return AssetsFull(f"the disk has no room any more ({error.strerror})") if error.errno in _FULL else error


def _copy(found: Found, target: Path, meter: Meter) -> None:
    """What is stored is hashed again: PublishRefused when it is not what was read before."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:

        def write(chunk: memoryview) -> None:
            meter.add(len(chunk))
            while chunk:
                chunk = chunk[os.write(descriptor, chunk) :]

        if digest_of(found, write) != target.name:
            raise SourceUnusable(CHANGED)
        os.fsync(descriptor)
    except SourceUnusable as e:
        raise PublishRefused([Refused(found.path, str(e))]) from None
    finally:
        os.close(descriptor)

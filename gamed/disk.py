"""A new name in a folder is safe from a power cut only after the folder was flushed."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk; before this a power cut may undo a new, renamed or deleted name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

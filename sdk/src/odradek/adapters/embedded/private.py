"""Files and folders of the store belong to its user alone, from the moment that they exist.

Whoever else has an account on the machine could read topics and salted passwords otherwise. The mode is given to the
call that creates, so that there is no moment with another one; a umask can only take rights away. What exists keeps its
mode: who shares a folder with a group on purpose has done so by hand.
"""

from __future__ import annotations

import os
from errno import ENOTDIR
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents. Raises OSError (NotADirectoryError: a parent is a file)."""
    if path.is_dir():
        return
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(path))
    make_folder(path.parent)
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise


def create_file(path: Path | str, flags: int = os.O_WRONLY | os.O_EXCL) -> int:
    """Open a file that may not be there yet; answer its descriptor. Raises OSError."""
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

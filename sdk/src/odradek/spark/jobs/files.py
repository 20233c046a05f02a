"""Small files of jobs, in a folder or a bucket, named by a path, file:// or s3://."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def read_text(path: str) -> str:
    """Return the whole file. Raises OSError (FileNotFoundError if it does not exist)."""
    filesystem, name = _place(path)
    with filesystem.open_input_stream(name) as stream:
        return str(stream.readall().decode())


def write_text(path: str, text: str) -> None:
    """Replace a file atomically. Raises OSError."""
    from pyarrow.fs import LocalFileSystem

    filesystem, name = _place(path)
    if not isinstance(filesystem, LocalFileSystem):  # a PUT is atomic
        with filesystem.open_output_stream(name) as stream:
            stream.write(text.encode())
        return
    target = Path(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.new")
    fresh.write_text(text)
    fresh.replace(target)


def list_files(path: str, suffix: str) -> list[str]:
    """Return the files below a folder with a suffix, sorted, in the notation of `path`; none if there is no folder."""
    from pyarrow.fs import FileSelector, FileType

    filesystem, name = _place(path)
    file_infos = filesystem.get_file_info(FileSelector(name, recursive=True, allow_not_found=True))
    names = sorted(info.path for info in file_infos if info.type == FileType.File and info.path.endswith(suffix))
    return [path.rstrip("/") + file_path[len(name.rstrip("/")) :] for file_path in names]


def _place(path: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem

    if path.startswith("s3a://"):
        path = "s3://" + path.removeprefix("s3a://")
    if "://" in path or path.startswith("file:"):
        filesystem, name = FileSystem.from_uri(path)
        return filesystem, name
    filesystem, name = FileSystem.from_uri(Path(path).absolute().as_uri())
    return filesystem, name

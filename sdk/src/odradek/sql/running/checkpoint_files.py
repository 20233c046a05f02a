"""Small files of a query's checkpoint, through Hadoop's file systems: local, HDFS, S3.

A file is written over, not renamed: a crash may cut it short, and its reader says what that means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CheckpointFiles:
    """The files of a folder, by their path in it.

    Args:
        session: whose Hadoop configuration has the rights of the file system.
        path: the folder, as Spark has it; it need not exist.
    """

    def __init__(self, session: SparkSession, path: str) -> None:
        self._jvm: Any = session._jvm
        self._path = path
        self._files = self._of("").getFileSystem(session._jsc.hadoopConfiguration())

    def read(self, name: str) -> bytes | None:
        """Return a file; None if there is none."""
        path = self._of(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a file, over an earlier one."""
        stream = self._files.create(self._of(name), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, in any order; none if it does not exist."""
        path = self._of(folder)
        if not self._files.exists(path):
            return []
        return [str(each.getPath().getName()) for each in self._files.listStatus(path)]

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        self._files.delete(self._of(name), True)

    def _of(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}" if name else self._path)

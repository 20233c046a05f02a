"""CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of record batches, segments and indexes.

The library uses the processor's instruction; a megabyte costs some tens of microseconds. Several buffers have the CRC
of their concatenation, without being joined.

Its extension module is loaded without its package, which imports what only its command line and its version number
need (argparse, importlib.metadata): 35 ms of CPU in each cold start of a function.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from odradek.model.log import Buffer

_EXTENSION = "_crc32c"


def _load() -> Callable[[Buffer, int], int]:
    """Return the library's function, from its extension module if that is where it is."""
    package = find_spec("crc32c")  # does not import it
    spec = PathFinder.find_spec(_EXTENSION, package.submodule_search_locations) if package is not None else None
    if spec is None or spec.loader is None:
        import crc32c as whole

        return whole.crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded: Callable[[Buffer, int], int] = module.crc32c
    return loaded


_crc32c = _load()


def crc32c(*buffers: Buffer, initial: int = 0) -> int:
    """Return the checksum of the buffers in order, 0 to 2^32-1; `initial` is the checksum of the bytes before them."""
    crc = initial
    for buffer in buffers:
        crc = _crc32c(buffer, crc)
    return int(crc)

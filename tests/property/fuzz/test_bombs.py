"""Small bytes that promise or become much: refused by the limit, before they cost more than the limit allows.

Each case runs in a process of its own whose address space is bounded, since what a native codec takes is seen by
nothing in Python: one that believed a promise would end there, by MemoryError or by abort.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import cramjam
import pytest
from odradek.format.compression import decompress
from odradek.format.crc import crc32c
from odradek.format.record_batch import encode_batch
from odradek.format.varint import encode_varlong
from odradek.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.model.record import CompressionType, Record

MIB = 1 << 20
# Of the address space, beyond what the process holds before: a buffer that has grown to the limit and the one before
# it, with room for the codec's own; and far less for what is refused at the first look.
REAL_MIB = 2 * DECOMPRESSED_BATCH_BYTES_MAX // MIB + 128
LIE_MIB = 48

DECODE = """
import resource, sys
from pathlib import Path
from odradek.columnar.decode import decode_to_arrow
from odradek.errors import FormatError
from odradek.format.record_batch import decode_batch, validate_batches

def to_arrow(engine):
    return lambda data: decode_to_arrow(data, topic="t", partition=0, engine=engine)

readers = {
    "validate": lambda data: validate_batches(data, max_message_bytes=len(data)),
    "batch": decode_batch,
    "python": to_arrow("python"),
    "numba": to_arrow("numba"),
}
folder, room_mib = Path(sys.argv[1]), int(sys.argv[2])
readers = {how: readers[how] for how in sys.argv[3:]}
for read in readers.values():  # kernels and libraries are loaded before the limit is set
    read((folder / "good").read_bytes())
inputs = {path.name: path.read_bytes() for path in sorted(folder.glob("[0-9]*"))}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (room_mib << 20),) * 2)
for name, data in inputs.items():
    for how, read in readers.items():
        print(name, how, end=" ", flush=True)
        try:
            read(data)
        except FormatError as error:
            print(error.code.name, flush=True)
        else:
            print("accepted", flush=True)
"""


def batch_around(payload: bytes, compression: CompressionType, count: int = 1) -> bytes:
    """A batch whose header and CRC are right, whatever its body."""
    data = bytearray(encode_batch([Record(0, 0, None, None)])[:61]) + payload
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, compression)
    struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return bytes(data)


def zeros() -> Iterator[bytes]:
    """A little more than the limit, in pieces."""
    for _ in range(DECOMPRESSED_BATCH_BYTES_MAX // MIB + 1):
        yield bytes(MIB)


def gzip_bomb() -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return b"".join([*map(packer.compress, zeros()), packer.flush()])


def streamed(packer: cramjam.zstd.Compressor | cramjam.lz4.Compressor) -> bytes:
    for piece in zeros():
        packer.compress(piece)
    return bytes(packer.finish())


def snappy_bomb() -> bytes:
    """xerial frames: many blocks of which each is honest."""
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    blocks = (struct.pack(">i", len(block)) + block) * (DECOMPRESSED_BATCH_BYTES_MAX // MIB + 1)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks


BOMBS: dict[str, tuple[CompressionType, Callable[[], bytes]]] = {
    "gzip": (CompressionType.GZIP, gzip_bomb),
    "snappy": (CompressionType.SNAPPY, snappy_bomb),
    "lz4": (CompressionType.LZ4, lambda: streamed(cramjam.lz4.Compressor(level=1))),
    "zstd": (CompressionType.ZSTD, lambda: streamed(cramjam.zstd.Compressor(level=1))),
}


def lz4_frame(content_bytes: int) -> bytes:
    """A frame that announces so much content (flags, block size, content size, checksum) and holds a byte."""
    descriptor = b"\x68\x40" + struct.pack("<Q", content_bytes)
    checksum = xxh32_of_few(descriptor) >> 8 & 0xFF
    return b"\x04\x22\x4d\x18" + descriptor + bytes([checksum]) + b"\x01\x00\x00\x80a" + bytes(4)


def xxh32_of_few(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes: LZ4 sums its header with it."""
    mask, primes = 0xFFFFFFFF, (2654435761, 2246822519, 3266489917, 668265263, 374761393)
    value = primes[4] + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * primes[2] & mask
        value = ((value << 17 | value >> 15) & mask) * primes[3] & mask
    for byte in data[whole:]:
        value = value + byte * primes[4] & mask
        value = ((value << 11 | value >> 21) & mask) * primes[0] & mask
    value = (value ^ value >> 15) * primes[1] & mask
    value = (value ^ value >> 13) * primes[2] & mask
    return value ^ value >> 16


LIES: dict[str, tuple[CompressionType, bytes]] = {
    "gzip: a trailer of 4 GiB": (CompressionType.GZIP, zlib.compress(b"x", 9, wbits=31)[:-4] + b"\xff" * 4),
    "snappy: a preamble of 4 GiB": (CompressionType.SNAPPY, b"\xff\xff\xff\xff\x0f\x00a"),
    "snappy: a preamble just below the limit": (
        CompressionType.SNAPPY,
        b"\xff\xff\xff\x7f\x00a",
    ),
    "snappy: a block of 2 GiB": (
        CompressionType.SNAPPY,
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 2**31 - 1) + b"\x00a",
    ),
    "zstd: a content of 2 ** 60 bytes": (
        CompressionType.ZSTD,
        b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + b"\x09\x00\x00a",
    ),
    "zstd: a content just below the limit": (
        CompressionType.ZSTD,
        b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", DECOMPRESSED_BATCH_BYTES_MAX - 1) + b"\x09\x00\x00a",
    ),
    "zstd: a window of 2 GiB": (CompressionType.ZSTD, b"\x28\xb5\x2f\xfd\x00\xa8\x09\x00\x00a"),
    "lz4: a content of 2 ** 60 bytes": (CompressionType.LZ4, lz4_frame(1 << 60)),
    "none: a key of 2 GiB": (CompressionType.NONE, b"\x14\x00\x00\x00" + encode_varlong(2**31 - 1) + b"\x00" * 10),
    "none: a record of 2 GiB": (CompressionType.NONE, encode_varlong(2**31 - 1) + b"\x00" * 20),
    "none: 2 ** 31 - 1 headers": (CompressionType.NONE, b"\x14\x00\x00\x00\x01\x01" + encode_varlong(2**31 - 1)),
}


READERS = ("validate", "batch", "python", "numba")


def decode(
    folder: Path, inputs: list[bytes], room_mib: int, readers: tuple[str, ...] = READERS
) -> list[dict[str, str]]:
    """Return the outcome of each input by reader: an error code or "accepted"; fails if one kills the process."""
    (folder / "good").write_bytes(encode_batch([Record(0, 0, b"k", b"v", (("h", b"x"),))]))
    for number, data in enumerate(inputs):
        (folder / f"{number:03}").write_bytes(data)
    command = [sys.executable, "-c", DECODE, str(folder), str(room_mib), *readers]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"died at {run.stdout.splitlines()[-1:]}: {run.stderr[-1000:]}"
    outcomes: list[dict[str, str]] = [{} for _ in inputs]
    for line in run.stdout.splitlines():
        number, how, outcome = line.split()
        outcomes[int(number)][how] = outcome
    return outcomes


@pytest.mark.slow
def test_bombs_are_refused_by_the_limit(tmp_path: Path) -> None:
    """Slow: the bombs are decompressed up to the real limit, by each reader."""
    inputs = [batch_around(make(), codec) for codec, make in BOMBS.values()]
    assert max(map(len, inputs)) < DECOMPRESSED_BATCH_BYTES_MAX / 16
    outcomes = decode(tmp_path, inputs, REAL_MIB, ("validate", "batch", "numba"))
    # Validation does not decompress: the server never pays for a bomb.
    refused = {"validate": "accepted", "batch": "MESSAGE_TOO_LARGE", "numba": "MESSAGE_TOO_LARGE"}
    assert dict(zip(BOMBS, outcomes, strict=True)) == dict.fromkeys(BOMBS, refused)


def test_the_lies_below_are_refused_for_the_lie_alone() -> None:
    assert decompress(CompressionType.LZ4, lz4_frame(1)) == b"a"
    assert decompress(CompressionType.ZSTD, b"\x28\xb5\x2f\xfd\xa0\x01\x00\x00\x00\x09\x00\x00a") == b"a"
    assert decompress(CompressionType.SNAPPY, b"\x01\x00a") == b"a"


def test_promises_cost_nothing(tmp_path: Path) -> None:
    inputs = [batch_around(payload, codec) for codec, payload in LIES.values()]
    for lie, outcomes in zip(LIES, decode(tmp_path, inputs, LIE_MIB), strict=True):
        assert outcomes.pop("validate") == "accepted", "headers and CRC are right"
        assert set(outcomes.values()) <= {"MESSAGE_TOO_LARGE", "CORRUPT_MESSAGE", "INVALID_RECORD"}, (lie, outcomes)


def test_counts_of_two_thousand_million_records_cost_nothing(tmp_path: Path) -> None:
    inputs = [batch_around(bytes(20), codec, count=2**31 - 1) for codec in CompressionType]
    refused = dict.fromkeys(READERS, "INVALID_RECORD")
    assert decode(tmp_path, inputs, LIE_MIB) == [refused] * len(inputs)

"""The hash of record keys: MurmurHash2 (Austin Appleby) with the seed of Kafka's Java client, in 32-bit arithmetic.

    partition = (murmur2(key) & 0x7fffffff) % partitions

So a key has the same partition for every client. `columnar/kernels.py` has the same hash for columns.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash as an unsigned 32-bit integer."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k ^= k >> _R
        h = h * _M & _MASK ^ k * _M & _MASK
    if length > whole:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


def positive_hash(key: bytes) -> int:
    """Return the hash without its sign, from which Kafka computes the partition."""
    return murmur2(key) & 0x7FFFFFFF

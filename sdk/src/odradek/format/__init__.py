"""Bytes and names at rest, to and from the model: pure, documented in docs/formats, with round-trip tests."""

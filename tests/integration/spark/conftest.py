"""One Spark session for the tests of the source."""

from __future__ import annotations

from tests.support.spark.session import spark

__all__ = ["spark"]

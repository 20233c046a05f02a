"""One Spark session for the tests of stream SQL."""

from __future__ import annotations

from tests.support.spark.session import spark

__all__ = ["spark"]

"""The part of Lambda's context object that a handler uses."""

from __future__ import annotations

from typing import Any, Protocol


class LambdaContext(Protocol):
    """The attributes of Lambda's context that are used here."""

    @property
    def aws_request_id(self) -> str: ...

    @property
    def function_name(self) -> str: ...

    @property
    def memory_limit_in_mb(self) -> Any:
        """MB; AWS's runtime client gives a string."""
        ...

    def get_remaining_time_in_millis(self) -> int: ...

"""The context object that Lambda gives a handler, for the embedded service."""

from __future__ import annotations

from collections.abc import Callable


class LocalContext:
    """The context of one invocation, with the attributes of Lambda's.

    Args:
        function_name, memory_limit_in_mb, aws_request_id: as in Lambda's context.
        deadline_s: the end of the invocation, on the scale of `monotonic`.
        monotonic: seconds that never go back.
    """

    function_version = "$LATEST"

    def __init__(
        self,
        *,
        function_name: str,
        memory_limit_in_mb: int,
        aws_request_id: str,
        deadline_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self.function_name = function_name
        self.memory_limit_in_mb = str(memory_limit_in_mb)  # a string, as AWS's runtime client has it
        self.aws_request_id = aws_request_id
        self.invoked_function_arn = f"arn:aws:lambda:local:000000000000:function:{function_name}"
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = "local"
        self._deadline_s = deadline_s
        self._monotonic = monotonic

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline_s - self._monotonic()) * 1000))

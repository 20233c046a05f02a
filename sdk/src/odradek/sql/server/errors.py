"""Errors as ksqlDB answers them: an HTTP status, and a number that begins with it.

{"@type": "generic_error", "error_code": 40000, "message": "..."}
{"@type": "statement_error", "error_code": 40001, "message": "...", "statementText": "...", "entities": []}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.sql.position import SqlError

BAD_REQUEST = 40000
BAD_STATEMENT = 40001
QUERY_ENDPOINT = 40002
TOO_MANY_PUSH_QUERIES = 40003
UNAUTHORIZED = 40100
FORBIDDEN_KAFKA_ACCESS = 40301
NOT_FOUND = 40400
NOT_ACCEPTABLE = 40600
TOO_LARGE = 41300
ASSERTION_FAILED = 41700
TOO_MANY_REQUESTS = 42900
SERVER_ERROR = 50000
CATCH_UP_TIMEOUT = 50301
SHUTTING_DOWN = 50303

_FORBIDDEN = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_CALLERS = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.INVALID_RECORD,
)


class RestError(Exception):
    """A request that is refused.

    Attributes:
        code: ksqlDB's number; its first three digits are the HTTP status.
        statement: the statement that failed; None for an error of the request as a whole.
        entities: results of the statements before it.
    """

    def __init__(
        self, code: int, message: str, *, statement: str | None = None, entities: Sequence[dict[str, Any]] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.statement = statement
        self.entities = list(entities)

    @property
    def status(self) -> int:
        return self.code // 100

    def document(self) -> dict[str, Any]:
        """Return the body of the answer."""
        if self.statement is None:
            return {"@type": "generic_error", "error_code": self.code, "message": self.message}
        return {
            "@type": "statement_error",
            "error_code": self.code,
            "message": self.message,
            "statementText": self.statement,
            "entities": self.entities,
        }


def refused(error: KafkaError, statement: str | None = None, entities: Sequence[dict[str, Any]] = ()) -> RestError:
    """Return the answer to an error of the planner, of Spark or of the service."""
    if isinstance(error, SqlError):
        place = f"line {error.at.line}:{error.at.column}: " if error.at is not None else ""
        message = f"{place}{error.problem}"
    else:
        message = error.message
    code = BAD_STATEMENT if error.code in _CALLERS else SERVER_ERROR
    if error.code in _FORBIDDEN:
        code, statement = FORBIDDEN_KAFKA_ACCESS, None
    return RestError(code, message, statement=statement, entities=entities)

"""Records of messages that a program writes to the log with `pg_logical_emit_message`: op m, in a topic of their own.

    topic   <topic.prefix>.message
    key     {"prefix": ...}
    value   {"op": "m", "ts_ms": ..., "source": ..., "transaction": ...,
             "message": {"prefix": ..., "content": bytes}}

The form is Debezium's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from odradek.connect.config import java_regex
from odradek.connect.connectors.cdc.postgres.pgoutput import LogicalMessage
from odradek.connect.connectors.cdc.records import Emitter
from odradek.connect.connectors.cdc.tables import BLOCK
from odradek.connect.connectors.cdc.text_values import binary
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, struct
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError
from odradek.connect.record import Offset, SourceRecord

_PACKAGE = "io.debezium.connector.postgresql."
_KEY = struct({"prefix": schemas.OPTIONAL_STRING}, name=_PACKAGE + "MessageKey", version=1)
COUNTED_AS = "LOGICAL_DECODING_MESSAGE"  # in the records of transactions
INCLUDE, EXCLUDE = "message.prefix.include.list", "message.prefix.exclude.list"


class Messages:
    """Which messages become records, and their form. Raises ConfigError for a bad regular expression.

    Args:
        given: the connector's parsed configuration.
        source: the schema of the source block.
    """

    def __init__(self, options: Mapping[str, Any], source: Schema) -> None:
        if options[INCLUDE] and options[EXCLUDE]:
            raise ConfigError({EXCLUDE: [f"give either {INCLUDE} or {EXCLUDE}"]})
        self._include, self._exclude = (_patterns(name, options[name]) for name in (INCLUDE, EXCLUDE))
        self._topic = f"{options['topic.prefix']}{options['topic.delimiter']}message"
        content, self._form = binary(options["binary.handling.mode"])
        self._message = struct(
            {"prefix": schemas.OPTIONAL_STRING, "content": content.as_optional()}, name=_PACKAGE + "Message", version=1
        )
        self._value = struct(
            {
                "op": schemas.STRING,
                "ts_ms": schemas.OPTIONAL_INT64,
                "source": source,
                "transaction": BLOCK,
                "message": self._message,
            },
            name=_PACKAGE + "MessageValue",
            version=1,
        )

    def has(self, prefix: str) -> bool:
        """Return whether messages with a prefix become records."""
        if self._include:
            return any(pattern.fullmatch(prefix) for pattern in self._include)
        return not any(pattern.fullmatch(prefix) for pattern in self._exclude)

    def record(
        self, message: LogicalMessage, emitter: Emitter, source: Struct, offset: Offset, block: Struct | None,
        now_ms: int,
    ) -> SourceRecord:  # fmt: skip
        """Return the record of a message.

        Args:
            block: its place in its transaction, if that is wanted.
        """
        body = Struct(self._message, {"prefix": message.prefix, "content": self._form(message.content)})
        return SourceRecord(
            topic=self._topic,
            key=Struct(_KEY, {"prefix": message.prefix}),
            key_schema=_KEY,
            value=Struct.of_checked(
                self._value, {"op": "m", "ts_ms": now_ms, "source": source, "transaction": block, "message": body}
            ),
            value_schema=self._value,
            source_partition=emitter.partition,
            source_offset=offset,
        )


def _patterns(name: str, texts: list[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(java_regex(text.strip()), re.IGNORECASE) for text in texts]
    except re.error as error:
        raise ConfigError({name: [f"{name} must have regular expressions: {error}"]}) from None

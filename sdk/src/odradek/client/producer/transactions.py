"""The transactions of a producer: Kafka's state machine, over calls of the second protocol (KIP-890).

    UNINITIALIZED ──init──> READY ──begin──> OPEN ──commit, abort──> READY
                                              │ an error that an abort can resolve
                                              ▼
                                          ABORTABLE ──abort──> READY         any ──the producer was fenced──> FATAL

* If a record or offsets fail, the transaction becomes ABORTABLE: every later send and the commit raise the error; abort
  the transaction, then begin another.
* FATAL: another instance took over the transactional id. Close the producer; every call raises the error.
* A commit with an unknown outcome (no answer in time) leaves the transaction OPEN: commit again, and the server gives
  the same answer. An abort would be refused if the commit had been applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from odradek.client.connection import Connection, error_code
from odradek.client.messages.offsets import ConsumerGroupMetadata, check_positions
from odradek.client.messages.transactions import (
    EndTxnResponse,
    InitProducerIdResponse,
    ProduceResponse,
    TxnOffsetCommitResponse,
    end_request,
    init_request,
    offsets_request,
    transactional_produce_request,
)
from odradek.client.producer.sender import Sender
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class State(Enum):
    UNINITIALIZED = auto()
    READY = auto()
    OPEN = auto()
    ABORTABLE = auto()
    FATAL = auto()


class ProducerTransactions:
    """The transactional id of one producer. Lives on the producer's event loop."""

    def __init__(self, transactional_id: str, timeout_ms: int, connection: Connection, sender: Sender) -> None:
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._connection = connection
        self._sender = sender
        self._producer = (-1, -1)
        self._state = State.UNINITIALIZED
        self._error: KafkaError | None = None
        self._has_offsets = False
        self._lock = asyncio.Lock()
        self._log = connection.log
        sender.transactional_request = self._produce_request
        sender.on_failure = self.note_failure

    # --- the calls of the application -----------------------------------------------------------------------------

    async def init(self) -> None:
        """Take over the transactional id. Raises KafkaError."""
        async with self._lock:
            self._raise_fatal()
            if self._state is not State.UNINITIALIZED:
                raise _misused("init_transactions was already called: call it once")
            await self._initialize((-1, -1))

    def begin(self) -> None:
        """Open a transaction. Raises KafkaError(INVALID_TXN_STATE), or the error that made the producer unusable."""
        self._raise_fatal()
        if self._state is State.UNINITIALIZED:
            raise _misused("call init_transactions first")
        if self._state is not State.READY:
            raise _misused("a transaction is open: commit or abort it first")
        self._state = State.OPEN
        self._has_offsets = False
        self._sender.begin_transaction()

    def check_open(self) -> None:
        """Raise KafkaError unless records may be sent now. May be called from any thread."""
        if self._state is State.OPEN:
            return
        if self._error is not None:
            raise KafkaError(self._error.code, self._error.message)
        raise _misused("no transaction is open: call begin_transaction first")

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets with the transaction. Raises KafkaError."""
        async with self._lock:
            self.check_open()
            if not offsets:
                return
            positions = {
                TopicPartition(*partition): position
                if isinstance(position, OffsetAndMetadata)
                else OffsetAndMetadata(position)
                for partition, position in offsets.items()
            }
            check_positions(positions)
            member = ConsumerGroupMetadata(group) if isinstance(group, str) else group
            self._has_offsets = True
            request = offsets_request(self._id, self._producer, member, positions)
            try:
                await self._connection.call(request, TxnOffsetCommitResponse, "TxnOffsetCommit", check=_check_offsets)
            except KafkaError as error:
                self.note_failure(error)
                raise

    async def commit(self) -> None:
        """Flush, then make everything visible at once.

        Raises KafkaError: the reason why the transaction cannot be committed (abort it); REQUEST_TIMED_OUT if the
        outcome is unknown (commit again); the error that made the producer unusable.
        """
        async with self._lock:
            self.check_open()
            await self._sender.wait_complete(self._sender.seal())
            self._sender.take_unseen_failure()  # the error below reports it
            self.check_open()
            await self._end(commit=True)

    async def abort(self) -> None:
        """Discard the transaction: none of it will ever be visible. Raises KafkaError."""
        async with self._lock:
            self._raise_fatal()
            if self._state not in (State.OPEN, State.ABORTABLE):
                raise _misused("no transaction is open")
            cause = KafkaError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted")
            was_fenced = self._error is not None and self._error.code in _FENCED
            self._state = State.ABORTABLE
            self._error = self._error or cause
            self._sender.give_up_all(cause)
            self._sender.take_unseen_failure()
            if was_fenced:
                await self._initialize(self._producer)  # after a mere timeout the id is still ours
            else:
                await self._end(commit=False)

    @property
    def is_open(self) -> bool:
        """Return True if there is a transaction to abort."""
        return self._state in (State.OPEN, State.ABORTABLE)

    def note_failure(self, error: KafkaError) -> None:
        """Record that records or offsets of the transaction failed: it can only be aborted."""
        if error.code in _FATAL:
            self._fail(error)
        elif self._state is State.OPEN:
            self._state = State.ABORTABLE
            self._error = KafkaError(error.code, f"{error.message}; abort the transaction")
            self._log.warning("the transaction can only be aborted: %s", error)
        else:
            return
        # Waiting batches must not be sent: the server would add them to a transaction that can only be aborted.
        self._sender.give_up_all(error)

    def _produce_request(
        self, batches: Sequence[tuple[TopicPartition, bytes]], timeout_ms: int, chosen_by: Mapping[TopicPartition, int]
    ) -> tuple[object, type[object]]:
        request = transactional_produce_request(self._id, batches, timeout_ms=timeout_ms, chosen_by=chosen_by)
        return request, ProduceResponse

    # --- carried out ----------------------------------------------------------------------------------------------

    async def _initialize(self, kept: tuple[int, int]) -> None:
        request = init_request(self._id, self._timeout_ms, *kept)

        def check(response: InitProducerIdResponse) -> None:
            _check("InitProducerId", response.error_code)

        try:
            response = await self._connection.call(request, InitProducerIdResponse, "InitProducerId", check=check)
        except KafkaError as error:
            if error.code in _FENCED or error.code in _FATAL:
                self._fail(error)
            raise
        self._become_ready((int(response.producer_id), int(response.producer_epoch)))
        self._log.info("has producer id %d, epoch %d of its transactional id", *self._producer)

    async def _end(self, *, commit: bool) -> None:
        if not (self._sender.has_written or self._has_offsets):
            # Nothing of the transaction has reached the server. Batches that were given up had sequences already: the
            # next ones begin anew, as if these had never been.
            self._sender.take_transactional_producer(*self._producer)
            self._become_ready(self._producer)
            return

        def check(response: EndTxnResponse) -> None:
            _check("commit" if commit else "abort", response.error_code)

        request = end_request(self._id, self._producer, commit=commit)
        try:
            response = await self._connection.call(request, EndTxnResponse, "EndTxn", check=check)
        except KafkaError as error:
            if error.code in _FENCED and not commit:
                await self._initialize(self._producer)
                return
            if commit and error.code is ErrorCode.INVALID_TXN_STATE:  # it timed out
                self._state = State.ABORTABLE
                self._error = KafkaError(ErrorCode.TRANSACTION_ABORTABLE, _TIMED_OUT)
                raise self._error from error
            if error.code in _FENCED or error.code in _FATAL:
                # A transaction that timed out looks the same: the abort will find out who owns the id.
                if commit and error.code in _FENCED:
                    self._log.warning("the commit was refused; abort_transaction finds out why: %s", error)
                    self._state, self._error = State.ABORTABLE, error
                else:
                    self._fail(error)
            elif commit and error.code is ErrorCode.TRANSACTION_ABORTABLE:
                self._log.warning("the transaction can only be aborted: %s", error)
                self._state, self._error = State.ABORTABLE, error
                await self._sender.refresh_metadata()  # a topic may have grown, which the next attempt must know
            raise
        self._become_ready((int(response.producer_id), int(response.producer_epoch)))
        if not commit:
            self._log.info("aborted the transaction")

    def _become_ready(self, producer: tuple[int, int]) -> None:
        if producer != self._producer:
            self._producer = producer
            self._sender.take_transactional_producer(*producer)
        self._state = State.READY
        self._error = None

    def _fail(self, error: KafkaError) -> None:
        if self._state is not State.FATAL:
            self._log.error("is unusable, create a new producer: %s", error)
        self._state = State.FATAL
        self._error = error

    def _raise_fatal(self) -> None:
        if self._state is State.FATAL and self._error is not None:
            raise KafkaError(self._error.code, f"{self._error.message}; close this producer and create a new one")


def _check(operation: str, code: int) -> None:
    error = error_code(code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, f"{operation} was refused: {_EXPLAINED.get(error, error.name)}")


_TIMED_OUT = (
    "the transaction was open for longer than transaction_timeout_ms, and nothing of it is visible: abort it, and send "
    "it again"
)
_EXPLAINED = {
    ErrorCode.PRODUCER_FENCED: "another producer has taken over the transactional id, or the transaction timed out",
    ErrorCode.TRANSACTION_ABORTABLE: "the transaction cannot be committed and nothing of it is visible: abort it",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms exceeds the server's maximum",
}


def _check_offsets(response: TxnOffsetCommitResponse) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            _check(f"the offset of {topic.name}-{partition.partition_index}", partition.error_code)


def _misused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_TXN_STATE, message)

"""mirror: copies topics of one installation to another, with offset translation and the offsets of consumer groups.

    python -m odradek.glue_jobs.mirror.job --store embedded:.here --bootstrap-servers URL --topics flights,weather \\
        --target-store embedded:.there --target-bootstrap-servers URL --checkpoint-location DIR --groups "reports-.*"

Records keep key, value, headers, timestamp and partition, and are written once. Their offsets differ if the source has
lost records to retention or compaction: <checkpoint>/offset_syncs.json maps them (offsets.py). It is written after each
micro-batch; after a crash before that, the repeated micro-batch writes it. Topics missing in the target are created
with the same number of partitions. Nothing else may write to a mirrored topic of the target; each micro-batch checks
that.

With --groups, offsets that matching groups have committed in the source are translated and committed in the target,
while a group has no members there. This needs both coordinators: --bootstrap-servers and --target-bootstrap-servers.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek import Admin
from odradek.client.types import NewTopic
from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.mirror.groups import sync_groups
from odradek.glue_jobs.mirror.offsets import OffsetSync, Syncs, parse_syncs, syncs_document, with_sync
from odradek.glue_jobs.mirror.transform import as_mirrored, stretches
from odradek.spark.available_now import latest_offsets
from odradek.spark.exactly_once import write_once
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.files import read_text, write_text
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import run_streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "mirror"
COLUMNS = "key,value,topic,partition,offset,timestamp,headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module. The store of StoreArguments is the source."""

    topics: tuple[str, ...]  # names of the topics to mirror
    topic_prefix: str = ""  # of the names in the target, such as "here."
    target_store: str = ""  # as for the source
    target_log_table: str = ""  # as for the source
    target_catalog_table: str = ""  # as for the source
    target_bucket: str = ""  # as for the source
    target_prefix: str = ""  # as for the source
    target_region: str = ""  # as for the source
    target_endpoint_url: str = ""  # as for the source
    target_bootstrap_servers: str = ""  # as for the source
    groups: str = ""  # pattern of names; empty: none
    group_sync_seconds: float = 60.0  # time between two reads of the groups' offsets

    def target(self) -> StreamArguments:
        """Return the target's arguments in the form of a store's."""
        return StreamArguments(
            store=self.target_store,
            log_table=self.target_log_table,
            catalog_table=self.target_catalog_table,
            bucket=self.target_bucket,
            prefix=self.target_prefix,
            region=self.target_region,
            endpoint_url=self.target_endpoint_url,
            bootstrap_servers=self.target_bootstrap_servers,
            checkpoint_location=self.checkpoint_location,
        )


class Mirror:
    """The state of the driver between micro-batches."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._target = arguments.target()
        self._path = f"{arguments.checkpoint_location.rstrip('/')}/offset_syncs.json"
        self._groups_at = 0.0
        self.moved: Counter[str] = Counter()  # partitions by group, in this run
        self.syncs: Syncs = self._load()

    def _load(self) -> Syncs:
        try:
            return parse_syncs(json.loads(read_text(self._path)))
        except FileNotFoundError:
            return {}
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{self._path} is damaged") from None

    def write(self, records: DataFrame, batch_id: int) -> None:
        """Add a micro-batch to the target and record its offsets."""
        records = records.persist()
        try:
            rows = stretches(records).collect()
            if not rows:
                return
            mirrored = as_mirrored(records, topic_prefix=self._arguments.topic_prefix)
            write_once(mirrored, batch_id, self._target.sink())
        finally:
            records.unpersist()
        names = ",".join(sorted({self._arguments.topic_prefix + row.topic for row in rows}))
        ends = json.loads(latest_offsets(self._target.source(names)))
        for row in rows:
            topic = self._arguments.topic_prefix + row.topic
            end = int(ends[topic][str(row.partition)])
            sync = OffsetSync(row.source_start, row.source_end, end - row["count"], end)
            partitions = self.syncs.setdefault(row.topic, {})
            partition_syncs = partitions.get(row.partition, [])
            partitions[row.partition] = with_sync(partition_syncs, sync, topic_partition=f"{topic}-{row.partition}")
        write_text(self._path, json.dumps(syncs_document(self.syncs)))
        if time.monotonic() - self._groups_at > self._arguments.group_sync_seconds:
            self.carry_groups()

    def make_topics(self) -> None:
        """Create the topics missing in the target, if its coordinator's address is known. Raises KafkaError."""
        ends = json.loads(latest_offsets(self._arguments.source(",".join(self._arguments.topics))))
        if not self._arguments.target_bootstrap_servers:
            return
        with _admin(self._target) as admin:
            existing = set(admin.list_topics())
            missing = [
                NewTopic(self._arguments.topic_prefix + topic, len(partitions))
                for topic, partitions in ends.items()
                if self._arguments.topic_prefix + topic not in existing
            ]
            if missing:
                admin.create_topics(missing)

    def carry_groups(self) -> None:
        """Copy the offsets of groups. Raises KafkaError."""
        self._groups_at = time.monotonic()
        if not self._arguments.groups:
            return
        with ExitStack() as opened:
            source = opened.enter_context(_admin(self._arguments))
            target = opened.enter_context(_admin(self._target))
            self.moved.update(
                sync_groups(
                    source, target, self._arguments.groups, self.syncs, topic_prefix=self._arguments.topic_prefix
                )
            )


def _admin(arguments: StreamArguments) -> Admin:
    if not arguments.bootstrap_servers:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, "groups and topics need --bootstrap-servers and --target-bootstrap-servers"
        )
    config: dict[str, Any] = {"bootstrap_servers": arguments.bootstrap_servers}
    if arguments.store.startswith("embedded:"):
        from odradek.local import load_credentials

        credentials = load_credentials(Path(arguments.store.removeprefix("embedded:")))
        config |= {
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_region": credentials.region,
        }
    return Admin(**config)


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Copy existing records, or all until a stop; return a summary."""
    mirror = Mirror(arguments)
    mirror.make_topics()
    done = run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(",".join(arguments.topics), COLUMNS)],
        build=lambda records: records,
        write_batch=mirror.write,
    )
    mirror.carry_groups()
    return {**done, "groups": dict(mirror.moved)}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())

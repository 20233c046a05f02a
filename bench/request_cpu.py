"""How much of a processor does a warm request take? CPU time of a function's process for 1 MB produced and fetched.

The handlers that are deployed, with the store on AWS over TLS: moto, in a process of its own, plays DynamoDB and S3.
CPU time of the least of N requests, so that other load and the collector of garbage count for little.

    event     Lambda's runtime parses the JSON of the event, whose body is base64
    handler   ours: base64, frame, CRC of the batch, append or fetch, TLS, two calls of AWS
    answer    Lambda's runtime writes the JSON of the response
    log       bytes of log lines a request, averaged

`botocore` is the same with botocore's clients in place of the direct ones (docs/decisions/0074). Event and answer are
Lambda's and the function URL's, whatever the function does. The goal is 5 ms of handler for 1 MB.

The last line says how much memory the process with both functions and direct clients took at most, the bench's own
modules and responses included: an upper bound for the memory of a function, with the largest requests (`--mb 4`).

With `--partitions` the records are spread over so many, with the heads that a topic shares by default: what a producer
of keyed records sends, and a consumer of all of them asks for.

    python -m bench.request_cpu [--requests 40] [--quick] [--mb 1] [--partitions 1]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from wsgiref.util import setup_testing_defaults

from odradek.adapters.aws.direct import connections
from odradek.functions.environment import BUCKET, CATALOG_TABLE, ENDPOINT_URL, GROUPS_TABLE, LOG_TABLE, REGION
from odradek.functions.handler import FunctionHandler
from odradek.protocol.api import ApiKey, FunctionName

from tests.support.engine import batch
from tests.support.services.function_calls import FakeContext, body_of, decode, frame, function_event
from tests.support.stores.aws import CREDENTIALS, StoreNames, create_tables

RESULTS = Path(__file__).parent / "results" / "request_cpu.json"
GOAL_MS = 5.0
RECORDS_PER_MB, RECORD_BYTES = 1_000, 1_000
COLUMNS = ("event_ms", "handler_ms", "answer_ms")


class Kept(BaseHTTPRequestHandler):
    """Answers requests with a WSGI application over connections that stay open, as AWS's do; werkzeug's server closes
    each, and a TLS handshake costs more than a request."""

    protocol_version = "HTTP/1.1"
    application: Any

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        environ: dict[str, Any] = {}
        setup_testing_defaults(environ)
        path, _, query = self.path.partition("?")
        environ |= {"REQUEST_METHOD": self.command, "PATH_INFO": unquote(path), "QUERY_STRING": query}
        environ |= {"RAW_URI": self.path, "HTTP_HOST": self.headers["host"], "wsgi.url_scheme": "https"}
        environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in self.headers.items()}
        environ |= {"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": self.headers.get("content-type", "")}
        environ["wsgi.input"] = io.BytesIO(body)
        begun: list[Any] = []
        content = b"".join(type(self).application(environ, lambda *line: begun.extend(line)))
        self.send_response_only(int(begun[0].partition(" ")[0]))
        for name, value in begun[1]:
            if name.lower() not in ("content-length", "connection"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:
        return None


def serve_moto(certificate: str, key: str, port: Any) -> None:
    """Run moto over TLS, for good."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    Kept.application = staticmethod(DomainDispatcherApplication(create_backend_app))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Kept)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port.put(server.server_port)
    server.serve_forever()


@contextlib.contextmanager
def moto_over_tls(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the URL and the certificate of moto in another process."""
    certificate, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    process = context.Process(target=serve_moto, args=(certificate, key, port), daemon=True)
    process.start()
    try:
        yield f"https://127.0.0.1:{port.get(timeout=60)}", certificate
    finally:
        process.terminate()
        process.join()


def measure(transport: str, url: str, certificate: str, requests: int, megabytes: int, count: int) -> dict[str, Any]:
    """Produce to `count` partitions and fetch with one kind of clients; the columns by function."""
    os.environ.pop("AWS_CA_BUNDLE", None)
    if transport == "botocore":
        os.environ["AWS_CA_BUNDLE"] = certificate  # which the direct clients leave to botocore
    else:
        trusted = ssl.create_default_context(cafile=certificate)
        vars(connections)["amazon_tls"] = lambda: trusted
    from lambdas.serving import serve

    produce, fetch, coordinator = (
        serve(name) for name in (FunctionName.PRODUCE, FunctionName.FETCH, FunctionName.ADMIN)
    )
    topic = f"cpu-{transport}"
    fields = {"name": topic, "num_partitions": count, "replication_factor": 1, "assignments": (), "configs": ()}
    created = coordinator(
        function_event(frame(ApiKey.CREATE_TOPICS, 7, {"topics": (fields,), "timeout": 1000, "validate_only": False})),
        FakeContext(),
    )
    (made,) = decode(body_of(created), ApiKey.CREATE_TOPICS, 7).topics
    assert made.error_code == 0, made
    records = batch([os.urandom(RECORD_BYTES)] * max(1, RECORDS_PER_MB * megabytes // count))
    partitions = tuple({"index": number, "records": records} for number in range(count))
    produced = frame(
        ApiKey.PRODUCE,
        9,
        {
            "transactional_id": None,
            "acks": -1,
            "timeout": 1000,
            "topic_data": ({"name": topic, "partition_data": partitions},),
        },
    )
    results = {"produce": least(produce, produced, requests, check_produced)}
    fetched = frame(
        ApiKey.FETCH,
        12,
        {
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1_100_000 * megabytes,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": (
                {
                    "topic": topic,
                    "partitions": tuple(
                        {"partition": number, "fetch_offset": 0, "partition_max_bytes": len(records)}
                        for number in range(count)
                    ),
                },
            ),
            "forgotten_topics_data": (),
            "rack_id": "",
        },
    )
    results["fetch"] = least(fetch, fetched, requests, lambda body: check_fetched(body, len(records)))
    return results


def check_produced(body: bytes) -> None:
    (topic,) = decode(body, ApiKey.PRODUCE, 9).responses
    assert not any(partition_response.error_code for partition_response in topic.partition_responses)


def check_fetched(body: bytes, size: int) -> None:
    (topic,) = decode(body, ApiKey.FETCH, 12).responses
    assert all(len(partition.records or b"") >= size for partition in topic.partitions)


def least(handler: FunctionHandler, body: bytes, requests: int, check: Callable[[bytes], None]) -> dict[str, float]:
    """Call the handler as Lambda's runtime does; the least CPU time of each step, and the bytes that were logged."""
    event = json.dumps(function_event(body)).encode()
    steps: list[tuple[float, float, float]] = []
    log = io.StringIO()
    for number in range(requests + 3):  # the first ones connect, and specialize the code
        with contextlib.redirect_stdout(log):
            begun = time.process_time()
            parsed = json.loads(event)
            read = time.process_time()
            response = handler(parsed, FakeContext())
            answered = time.process_time()
            json.dumps(response).encode()
            written = time.process_time()
        if number < 3:
            check(body_of(response))
        else:
            steps.append((read - begun, answered - read, written - answered))
    figures = {column: min(step[at] for step in steps) * 1000 for at, column in enumerate(COLUMNS)}
    return figures | {"log_bytes": len(log.getvalue()) / (requests + 3)}


def run(requests: int, megabytes: int, partitions: int | None = None) -> dict[str, Any]:
    """Measure, print the table, write the JSON; returns what was written."""
    names = StoreNames()
    with (
        tempfile.TemporaryDirectory(prefix="odradek-request-cpu-") as folder,
        moto_over_tls(Path(folder)) as (url, certificate),
    ):
        os.environ |= CREDENTIALS | {
            ENDPOINT_URL: url,
            REGION: "us-east-1",
            LOG_TABLE: names.log_table,
            GROUPS_TABLE: names.groups_table,
            CATALOG_TABLE: names.catalog_table,
            BUCKET: names.bucket,
        }
        os.environ["AWS_CA_BUNDLE"] = certificate
        create_tables(url, names)
        count = partitions or megabytes
        rows = {"direct": measure("direct", url, certificate, requests, megabytes, count)}
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows["botocore"] = measure("botocore", url, certificate, requests, megabytes, count)
    results = {
        "bench": "request_cpu",
        "requests": requests,
        "megabytes": megabytes,
        "partitions": count,
        "peak_mb": peak_mb,
        "goal_ms": GOAL_MS,
        "python": sys.version.split()[0],
    } | rows
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(f"CPU time of a warm request of {megabytes} MB (partitions: {count}), least of {requests}, ms")
    print(f"{'':<20}" + "".join(f"{column:>12}" for column in (*COLUMNS, "goal", "log_bytes")))
    for transport, functions in rows.items():
        for name, row in functions.items():
            figures = "".join(f"{row[column]:>12.2f}" for column in COLUMNS)
            print(f"{name + ', ' + transport:<20}{figures}{GOAL_MS * megabytes:>12.1f}{row['log_bytes']:>12.0f}")
    print(f"memory of the process, direct clients: {peak_mb:.0f} MB at most")
    return results


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time of a warm produce and a warm fetch of 1 MB.")
    parser.add_argument("--requests", type=int, default=40, help="of each kind (40)")
    parser.add_argument("--quick", action="store_true", help="ten of each kind")
    parser.add_argument("--mb", type=int, default=1, choices=(1, 2, 3, 4), help="of records in a request (1)")
    parser.add_argument("--partitions", type=int, help="that the records are spread over (one a MB)")
    arguments = parser.parse_args(argv)
    if arguments.partitions is not None and not 1 <= arguments.partitions <= RECORDS_PER_MB:
        parser.error(f"--partitions: give 1 to {RECORDS_PER_MB}, a record for each")
    run(10 if arguments.quick else arguments.requests, arguments.mb, arguments.partitions)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`odradek connect rest`: Kafka Connect's REST API without a worker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from typing import Any


def test_the_api_is_served_without_running_connectors(service: Any) -> None:
    client = dict(service.client_config)
    environment = {
        **os.environ,
        "ODRADEK_BOOTSTRAP_SERVERS": client["bootstrap_servers"],
        "AWS_ACCESS_KEY_ID": client["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": client["aws_secret_access_key"],
        "AWS_REGION": client["aws_region"],
    }
    command = [sys.executable, "-m", "odradek.cli", "connect", "rest", "-g", "alone", "--config",
               "listeners=http://127.0.0.1:0"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, line

        def ask(path: str, body: Any = None) -> Any:
            data = None if body is None else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{found[0]}{path}", data, headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())

        config = {"connector.class": "Datagen", "kafka.topic": "t", "quickstart": "users"}
        assert ask("/connectors", {"name": "people", "config": config})["name"] == "people"
        assert ask("/connectors") == ["people"]
        assert ask("/connectors/people/status")["connector"]["state"] == "UNASSIGNED"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read().strip() == "stopping"
    assert process.returncode == 0

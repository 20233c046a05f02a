"""kcat, a command line over librdkafka: the tasks that it has options for."""

import subprocess
from functools import partial

from report import BASE_MS, CONFIG, COUNT, PREFIX, SERVERS, Absent, logins, run


def kcat(*words, stdin=None, servers=SERVERS["plain"], limit_s=20):
    ended = subprocess.run(
        ["kcat", "-b", servers, *words], input=stdin, capture_output=True, text=True, timeout=limit_s, check=False
    )
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip()[-300:])
    return ended.stdout


def produce(topic, codec="none", servers=SERVERS["plain"], count=COUNT, settings=()):
    lines = "".join(f"k{i}:{i}\n" for i in range(count))
    kcat("-P", "-t", topic, "-K:", "-z", codec, "-H", "h=v", *settings, stdin=lines, servers=servers)


def log_append_time():
    topic = f"{PREFIX}-log_append_time"
    produce(topic)
    stamps = kcat("-C", "-t", topic, "-e", "-q", "-f", "%T\n").split()
    assert len(stamps) == COUNT, stamps


def group():
    topic, taken = f"{PREFIX}-group", 0
    words = ["-G", f"{PREFIX}-g", "-X", "auto.offset.reset=earliest", "-e", "-q", "-f", "%o\n", topic]
    taken = len(kcat(*words, limit_s=40).split())
    assert taken == 40, f"{taken} records"


def login(servers, protocol, mechanism):
    settings = {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": CONFIG["user"],
        "sasl.password": CONFIG["password"],
        "ssl.ca.location": CONFIG["ca"],
        "message.timeout.ms": "6000",
    }
    words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    produce(f"{PREFIX}-login", servers=servers, count=1, settings=words)


def times():
    output = kcat("-Q", "-t", f"{PREFIX}-group:0:{BASE_MS + 10_000}")
    assert output.split()[-1] == "5", output


def absent():
    raise Absent("kcat has no option for it")


run(
    {
        **{codec: partial(produce, f"{PREFIX}-{codec}", codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")},
        "log_append_time": log_append_time,
        "group": group,
        "transaction": absent,
        **{name: partial(login, *login_arguments) for name, *login_arguments in logins()},
        "topics": absent,
        "configs": absent,
        "groups": absent,
        "times": times,
    }
)

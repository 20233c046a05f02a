"""Profiles: named sets of client settings in ~/.odradek/config.json, written by `odradek configure`.

    {"default": "prod", "profiles": {"prod": {"bootstrap_servers": "https://...", "region": "...", "outputs": {...}}}}

A profile holds addresses and names, never credentials: those come from the AWS environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odradek.errors import ErrorCode, KafkaError

FILE = Path("~/.odradek/config.json")


@dataclass(frozen=True, slots=True)
class Profile:
    """The addresses and names of one deployment."""

    name: str
    bootstrap_servers: str
    region: str
    outputs: Mapping[str, str] = field(default_factory=dict)  # of its stacks: names of tables, bucket, function


def save_profile(profile: Profile, path: Path) -> None:
    """Add or replace a profile and make it the default. Raises KafkaError(INVALID_CONFIG)."""
    document = _read(path)
    document.setdefault("profiles", {})[profile.name] = {
        "bootstrap_servers": profile.bootstrap_servers,
        "region": profile.region,
        "outputs": dict(profile.outputs),
    }
    document["default"] = profile.name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(document, indent=2) + "\n")  # names and addresses, no keys
        draft.replace(path)
    except OSError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"cannot write {path}: {error.strerror}") from None


def load_profile(path: Path, name: str | None = None) -> Profile | None:
    """Return the named or the default profile, None if there is none. Raises KafkaError(INVALID_CONFIG)."""
    document = _read(path)
    wanted = name or document.get("default")
    if wanted is None:
        return None
    entry = document.get("profiles", {}).get(wanted)
    if entry is None:
        if name is None:
            return None
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{path} has no profile {name!r}: run `odradek configure`")
    try:
        return Profile(wanted, entry["bootstrap_servers"], entry["region"], entry.get("outputs", {}))
    except (KeyError, TypeError):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{path}: profile {wanted!r} is damaged: run `odradek configure` again"
        ) from None


def profile_names(path: Path) -> list[str]:
    """Return the names of all profiles, sorted. Raises KafkaError(INVALID_CONFIG)."""
    profiles = _read(path).get("profiles", {})
    return sorted(profiles) if isinstance(profiles, dict) else []


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{path} is not a profile file")
    return document

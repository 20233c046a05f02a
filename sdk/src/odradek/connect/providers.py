"""Config providers: values of a connector's configuration that are kept elsewhere, such as passwords.

A value like `${file:/run/secrets/db.properties:password}` is stored and shown as it stands. It is replaced where a
connector or task is started, by the providers that the worker's configuration names:

    config.providers=file,aws
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/run/secrets

Whoever may create a connector can read what the providers can: none is there unless it is configured.

Source: KIP-297, KIP-421, KIP-993; Kafka's ConfigTransformer. The AWS ones are named as those for MSK Connect.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from odradek.connect.config import with_prefix
from odradek.connect.errors import ConfigError, ConnectError

_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*)\}")
_PREFIX = "config.providers."
SHOWN_CHARACTERS_MIN = 4


class ConfigProvider(ABC):
    """A place where values are kept.

    Args:
        params: `config.providers.<name>.param.*`.
        environ: of the process.
    """

    def __init__(self, params: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self.params, self.environ = params, environ

    @abstractmethod
    def get(self, path: str, key: str) -> str:
        """Return a value. Raises ConnectError that says what is missing, without any value."""

    def _allowed(self, path: str) -> Path:
        """Return a path that `allowed.paths` allows; without it, all are. Raises ConnectError."""
        allowed = [
            path_text.strip() for path_text in self.params.get("allowed.paths", "").split(",") if path_text.strip()
        ]
        resolved = Path(path).resolve()
        if allowed and not any(resolved.is_relative_to(Path(allowed_path).resolve()) for allowed_path in allowed):
            raise ConnectError(f"{path} is in none of the allowed.paths of the config provider")
        return resolved


class FileConfigProvider(ConfigProvider):
    """`${file:/path/of.properties:key}`: an entry of a properties file."""

    def get(self, path: str, key: str) -> str:
        try:
            text = self._allowed(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConnectError(f"the properties file {path} cannot be read: {error}") from None
        for line in text.splitlines():
            name, mark, value = _property(line)
            if mark and name == key:
                return value
        raise ConnectError(f"{path} has no entry {key}")


def _property(line: str) -> tuple[str, str, str]:
    """Return key, mark and value of a line of a properties file; no mark in a comment or an empty line."""
    if line.lstrip()[:1] in ("#", "!", ""):
        return "", "", ""
    match = re.match(r"\s*([^=:\s]+)\s*([=:\s])\s*(.*)$", line)
    return (match[1], match[2], match[3]) if match else ("", "", "")


class DirectoryConfigProvider(ConfigProvider):
    """`${directory:/run/secrets:password}`: the content of a file, as Kubernetes and Docker mount secrets."""

    def get(self, path: str, key: str) -> str:
        try:
            return self._allowed(str(Path(path) / key)).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConnectError(f"the file {key} of {path} cannot be read: {error}") from None


class EnvVarConfigProvider(ConfigProvider):
    """`${env:DB_PASSWORD}`: a variable of the worker's environment, if `allowlist.pattern` matches its name."""

    def get(self, path: str, key: str) -> str:
        if not re.fullmatch(self.params.get("allowlist.pattern") or ".*", key):
            raise ConnectError(f"the allowlist.pattern of the config provider does not match {key}")
        if key not in self.environ:
            raise ConnectError(f"the worker's environment has no variable {key}")
        return self.environ[key]


class _AwsConfigProvider(ConfigProvider):
    """Base of the AWS ones. A value is asked for at each start of a connector or task."""

    service: str

    def __init__(self, params: Mapping[str, str], environ: Mapping[str, str]) -> None:
        super().__init__(params, environ)
        self._client: Any = None

    def ask(self, subject: str, operation: str, **arguments: Any) -> Any:
        from odradek.connect.connectors.aws.client import AWS, client, translated

        if self._client is None:
            options = {"aws.region": self.params.get("region"), "aws.endpoint.url": self.params.get("endpoint")}
            self._client = client(self.service, AWS.parse({k: v for k, v in options.items() if v}))
        with translated(f"{subject} cannot be read"):
            return getattr(self._client, operation)(**arguments)


class SecretsManagerConfigProvider(_AwsConfigProvider):
    """`${secretsmanager:db/orders:password}`: a field of a secret of AWS Secrets Manager; without a key the whole."""

    service = "secretsmanager"

    def get(self, path: str, key: str) -> str:
        name, field = (path, key) if path else (key, "")
        response = self.ask(f"the secret {name}", "get_secret_value", SecretId=unquote(name))
        text = str(response.get("SecretString", ""))
        if not field:
            return text
        try:
            return str(json.loads(text)[field])
        except (ValueError, KeyError, TypeError):
            raise ConnectError(f"the secret {name} is not JSON with the field {field}") from None


class SsmParamStoreConfigProvider(_AwsConfigProvider):
    """`${ssm::/orders/password}`: a parameter of AWS Systems Manager, decrypted."""

    service = "ssm"

    def get(self, path: str, key: str) -> str:
        name = unquote(f"{path}:{key}" if path else key)
        response = self.ask(f"the parameter {name}", "get_parameter", Name=name, WithDecryption=True)
        return str(response["Parameter"]["Value"])


PROVIDERS: Mapping[str, type[ConfigProvider]] = {
    f"{package}.{provider_class.__name__}": provider_class
    for package, kinds in {
        "org.apache.kafka.common.config.provider": (
            FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider,
        ),
        "com.amazonaws.kafka.config.providers": (SecretsManagerConfigProvider, SsmParamStoreConfigProvider),
    }.items()
    for provider_class in kinds
}  # fmt: skip


class Providers:
    """The providers of a worker.

    Args:
        configs: of the worker, with `config.providers`.
        environ: of its process.

    Raises:
        ConfigError: for a provider that is configured wrongly.
    """

    def __init__(self, configs: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._providers: dict[str, ConfigProvider] = {}
        self._written: dict[str, str] = {}  # a value -> its variable, so that messages show that
        for name in (provider_name.strip() for provider_name in str(configs.get("config.providers") or "").split(",")):
            if name:
                provider_configs = with_prefix(configs, f"{_PREFIX}{name}.")
                params = {key: str(value) for key, value in with_prefix(provider_configs, "param.").items()}
                self._providers[name] = _class_of(name, str(provider_configs.get("class") or ""))(params, environ)

    def resolve(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Return configurations with their values. Variables of unknown providers stay as they are.

        Raises:
            ConfigError: names each configuration whose value cannot be had.
        """
        resolved: dict[str, str] = {}
        problems: dict[str, list[str]] = {}
        for name, value in configs.items():
            try:
                resolved[name] = _VARIABLE.sub(self._replaced, value) if isinstance(value, str) else value
            except ConnectError as error:
                problems[name] = [f"{name}: {error}"]
        if problems:
            raise ConfigError(problems)
        return resolved

    def _replaced(self, variable: re.Match[str]) -> str:
        provider = self._providers.get(variable[1])
        if provider is None:
            return variable[0]
        value = provider.get(variable[2] or "", variable[3])
        self._written[value] = variable[0]
        return value

    def as_written(self, text: str) -> str:
        """Return a message with variables in place of the values that they had, as `hidden` does for configurations.

        A shorter value than SHOWN_CHARACTERS_MIN is replaced only where the message quotes it: as a part of other words
        it tells nothing.
        """
        for value, variable in sorted(self._written.items(), key=lambda pair: -len(pair[0])):
            if len(value) >= SHOWN_CHARACTERS_MIN:
                for shown in {value, repr(value)[1:-1], json.dumps(value)[1:-1], value.strip()} - {""}:
                    text = text.replace(shown, variable)
            else:
                text = text.replace(repr(value), repr(variable))
        return text

    def hide_in_log(self, *handlers: logging.Handler) -> None:
        """Have handlers write log lines with variables in place of their values. May be repeated."""
        for handler in handlers:
            handler.addFilter(self._hide)

    def _hide(self, record: logging.LogRecord) -> bool:
        if self._written and record.name.startswith("odradek.connect"):
            record.msg, record.args = self.as_written(record.getMessage()), ()
            if record.exc_info:
                trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
                record.exc_text, record.exc_info = self.as_written(trace), None
            elif record.exc_text:  # by the handler of another worker in this process
                record.exc_text = self.as_written(record.exc_text)
        return True

    def hidden(self, made: Mapping[str, str], raw: Mapping[str, str]) -> dict[str, str]:
        """Return a task's configuration as it is stored: with the variables in place of their values."""
        variables = {name for name, value in raw.items() if has_variable(value)}
        resolved = self.resolve({name: raw[name] for name in variables})
        return {name: raw[name] if resolved.get(name) == value else value for name, value in made.items()}


def has_variable(value: object) -> bool:
    """Return True if a configuration's value has a variable."""
    return isinstance(value, str) and _VARIABLE.search(value) is not None


def _class_of(name: str, path: str) -> type[ConfigProvider]:
    key = f"{_PREFIX}{name}.class"
    for class_path, provider_class in PROVIDERS.items():
        if path in (class_path, provider_class.__name__):
            return provider_class
    if ":" in path:
        module, _, last = path.partition(":")
        try:
            loaded = getattr(import_module(module), last)
        except (ImportError, AttributeError) as error:
            raise ConfigError({key: [f"{key}: {path} cannot be loaded: {error}"]}) from None
        if isinstance(loaded, type) and issubclass(loaded, ConfigProvider):
            return loaded
    choices = ", ".join(provider_class.__name__ for provider_class in PROVIDERS.values())
    raise ConfigError({key: [f"{key} must be one of {choices}, or package.module:Class, not {path!r}"]})

"""Values that are kept elsewhere: files, folders, the environment, AWS; and that they are not stored or shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from odradek.connect.errors import ConfigError
from odradek.connect.providers import ConfigProvider, Providers

from tests.support.connect import aws


class Reversed(ConfigProvider):
    """One of one's own."""

    def get(self, path: str, key: str) -> str:
        return key[::-1]


def providers(environ: dict[str, str] | None = None, **named: Any) -> Providers:
    configs: dict[str, Any] = {"config.providers": ",".join(named)}
    for name, (kind, params) in named.items():
        configs[f"config.providers.{name}.class"] = kind
        configs |= {f"config.providers.{name}.param.{key}": value for key, value in params.items()}
    return Providers(configs, environ or {})


def test_files_folders_and_the_environment(tmp_path: Path) -> None:
    (tmp_path / "db.properties").write_text("# of the database\nuser=app\npassword = a:b=c \n\n! no\nurl: x\n")
    (tmp_path / "token").write_text("t0ken")
    found = providers(
        {"DB_HOST": "db.example.com", "HOME": "/root"},
        file=("org.apache.kafka.common.config.provider.FileConfigProvider", {"allowed.paths": str(tmp_path)}),
        directory=("DirectoryConfigProvider", {}),
        env=("EnvVarConfigProvider", {"allowlist.pattern": "DB_.*"}),
        own=(f"{__name__}:Reversed", {}),
    )
    file = f"${{file:{tmp_path}/db.properties"
    configs = {
        "url": f"postgres://{file}:user}}:{file}:password}}@${{env:DB_HOST}}/shop",
        "token": f"${{directory:{tmp_path}:token}}",
        "same": "${env::DB_HOST}",
        "own": "${own:abc}",
        "plain": "${topic}",
        "unknown": "${vault:a:b}",
    }
    resolved = found.resolve(configs)
    assert resolved == {
        "url": "postgres://app:a:b=c @db.example.com/shop", "token": "t0ken", "same": "db.example.com",
        "own": "cba", "plain": "${topic}", "unknown": "${vault:a:b}",
    }  # fmt: skip
    assert found.hidden({**resolved, "task": "0", "plain": "other"}, configs) == {
        **configs, "task": "0", "plain": "other",
    }  # fmt: skip
    wrong = {
        "a": f"{file}:missing}}", "b": "${file:/etc/passwd:root}", "c": "${env:HOME}", "d": "${env:DB_NONE}",
        "e": f"${{directory:{tmp_path}:none}}",
    }  # fmt: skip
    with pytest.raises(ConfigError) as refused:
        found.resolve(wrong)
    assert sorted(refused.value.problems) == list("abcde")
    assert "allowed.paths" in refused.value.problems["b"][0]
    assert "allowlist.pattern" in refused.value.problems["c"][0]


def test_secrets_manager_and_the_parameter_store() -> None:
    with aws.moto():
        secret = json.dumps({"password": "hunter2"})
        aws.client("secretsmanager").create_secret(Name="db/orders", SecretString=secret)
        aws.client("ssm").put_parameter(Name="/orders/key", Value="k3y", Type="SecureString")
        found = providers(
            secretsmanager=(
                "com.amazonaws.kafka.config.providers.SecretsManagerConfigProvider", {"region": aws.REGION},
            ),
            ssm=("SsmParamStoreConfigProvider", {"region": aws.REGION}),
        )  # fmt: skip
        configs = {
            "a": "${secretsmanager:db/orders:password}", "b": "${secretsmanager:db/orders}",
            "c": "${ssm::/orders/key}", "d": "${secretsmanager:db%2Forders:password}",
        }  # fmt: skip
        assert found.resolve(configs) == {"a": "hunter2", "b": secret, "c": "k3y", "d": "hunter2"}
        for wrong in ("${secretsmanager:db/orders:user}", "${secretsmanager:none:x}", "${ssm:/none}"):
            with pytest.raises(ConfigError):
                found.resolve({"x": wrong})


@pytest.mark.parametrize("path", ["", "Nothing", "no.such:Class", "pathlib:Path"])
def test_a_provider_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.providers\.x\.class"):
        providers(x=(path, {}))

"""A missing extra is one line that names it; any other missing module stays a bug that shows itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import _EXTRA_OF, MissingExtra, extra

from tools.extras_reference import EFFECTS, PAGES, extras, filled

WHEEL = tomllib.loads((Path(__file__).parents[2] / "sdk" / "pyproject.toml").read_text())["project"]


def test_a_library_that_is_missing_names_the_extra_of_the_feature() -> None:
    with (
        pytest.raises(MissingExtra, match=r"^this needs odradek\[table\]: pip install 'odradek\[table\]'$"),
        extra("table"),
    ):
        raise ModuleNotFoundError("No module named 'pyarrow.compute'", name="pyarrow.compute")


def test_the_feature_as_a_whole_names_its_extra_where_a_part_is_missing() -> None:
    with pytest.raises(MissingExtra, match="spark"), extra("spark"), extra("sql"):
        raise ModuleNotFoundError(name="lark")


def test_a_module_of_no_extra_stays_what_it_is() -> None:
    with pytest.raises(ModuleNotFoundError), extra("table"):
        raise ModuleNotFoundError(name="odradek.columnar.decode")


def test_it_is_an_import_error_and_a_wrong_configuration() -> None:
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(MissingExtra, KafkaError)
    assert MissingExtra("table").code is ErrorCode.INVALID_CONFIG


def test_every_extra_that_can_be_named_exists() -> None:
    assert set(_EXTRA_OF.values()) <= set(WHEEL["optional-dependencies"])


def test_every_extra_has_an_effect_and_no_effect_lacks_its_extra() -> None:
    assert sorted(EFFECTS) == sorted(extras())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_pages_list_every_extra(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in extras())
    assert text == filled(text), "make reference"

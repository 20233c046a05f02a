"""Every public name of `odradek` answers help(), and so does every public method of the clients."""

from __future__ import annotations

import inspect
from typing import Any

import odradek
import odradek.aio
import pytest
from odradek.client.documented import documented_by

CLIENTS = ("Producer", "Consumer", "Admin", "ShareConsumer")


def public_members(owner: type) -> list[tuple[str, Any]]:
    return [
        (name, member)
        for name, member in vars(owner).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    ]


@pytest.mark.parametrize("name", sorted(set(odradek.__all__) - {"local"}))
def test_every_public_name_has_help(name: str) -> None:
    assert inspect.getdoc(getattr(odradek, name))


@pytest.mark.parametrize("face", ["odradek", "odradek.aio"])
@pytest.mark.parametrize("name", CLIENTS)
def test_every_method_of_a_client_has_help(face: str, name: str) -> None:
    owner = getattr(odradek if face == "odradek" else odradek.aio, name)
    assert [member for member, value in public_members(owner) if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("name", CLIENTS)
def test_no_docstring_sends_the_reader_to_the_other_face(name: str) -> None:
    assert [
        member for member, value in public_members(getattr(odradek, name)) if "See aio" in (value.__doc__ or "")
    ] == []


def test_a_synchronous_method_has_the_text_of_the_asynchronous_one() -> None:
    assert odradek.Admin.create_topics.__doc__ == odradek.aio.Admin.create_topics.__doc__


def test_a_docstring_of_its_own_is_kept() -> None:
    class Slow:
        async def read(self) -> None:
            """Read, and await the answer."""

    @documented_by(Slow)
    class Face:
        def read(self) -> None:
            """Read."""

    assert Face.read.__doc__ == "Read."


def test_a_method_that_the_asynchronous_client_lacks_needs_its_own_docstring() -> None:
    class Slow: ...

    with pytest.raises(AttributeError):

        @documented_by(Slow)
        class Face:
            def read(self) -> None: ...

"""The house's frozen dataclasses against those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from dataclasses import field
from typing import Any

import msgspec
import pytest

from traceanalyzer.base import definitions, metric
from traceanalyzer.base.frozen import FEW, dataclass


def both(cls: type[Any], **options: bool) -> tuple[type[Any], type[Any]]:
    """The class as a dataclass of the house, and as one of the standard library."""
    made = [type(cls)(cls.__name__, cls.__bases__, dict(vars(cls))) for _ in range(2)]
    return dataclass(frozen=True, **options)(made[0]), dataclasses.dataclass(
        frozen=True, **options
    )(made[1])


class Plain:
    """Of every sort of field."""

    name: str
    size: float = 1.5
    parts: list[int] = field(default_factory=list)
    known: bool | None = field(default=None, metadata={"definition": "whether it is known"})
    last: int = field(default=7, kw_only=True)


class Alone:
    """Of one field."""

    value: float


class Nothing:
    """Of no field."""


CALLS = [
    ((), {}),
    (("a",), {}),
    (("a", 2.0, [1], True), {"last": 3}),
    (("a", 2.0, [1], True, 3), {}),
    ((), {"name": "b", "parts": [2]}),
    (("a",), {"name": "a"}),
    (("a",), {"other": 1}),
]


@pytest.mark.parametrize("made_before", [0, FEW])
@pytest.mark.parametrize(("arguments", "named"), CALLS)
def test_it_is_made_and_shown_alike(
    arguments: tuple[Any, ...], named: dict[str, Any], made_before: int
) -> None:
    outcomes = []
    for cls in both(Plain):
        for _ in range(made_before):
            cls("before")
        try:
            made = cls(*arguments, **named)
        except TypeError as error:
            outcomes.append(str(error).replace("_self", "self"))
        else:
            outcomes.append((repr(made), dataclasses.asdict(made), dataclasses.astuple(made)))
    assert outcomes[0] == outcomes[1]


def test_fields_and_signature_are_alike() -> None:
    ours, theirs = both(Plain)
    for read in (
        lambda f: (f.name, f.type, f.default, f.kw_only, f.metadata),
        lambda f: f.default_factory,
    ):
        assert [read(f) for f in dataclasses.fields(ours)] == [
            read(f) for f in dataclasses.fields(theirs)
        ]
    assert ours.__match_args__ == theirs.__match_args__
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert ours("a").parts is not ours("a").parts


def test_init_is_compiled_once_many_are_made() -> None:
    ours, _ = both(Plain)
    waiting = ours.__init__
    few = [ours("a", parts=[1]) for _ in range(FEW)]
    assert ours.__init__ is waiting
    later = ours("a", parts=[1])
    assert ours.__init__ is not waiting
    assert few == [later] * FEW


@pytest.mark.parametrize("cls", both(Alone) + both(Nothing, eq=False) + both(Plain, kw_only=True))
def test_it_does_not_change(cls: type[Any]) -> None:
    named = (
        {"name": "a"}
        if cls.__name__ == "Plain"
        else {"value": 1.0}
        if cls.__name__ == "Alone"
        else {}
    )
    made = cls(**named)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.value = 2
    for name in named:
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(made, name)
    assert dataclasses.replace(made, **named) is not made


@pytest.mark.parametrize("cls", both(Alone))
def test_equal_values_are_equal_and_hash_alike(cls: type[Any]) -> None:
    assert cls(1.0) == cls(1)
    assert hash(cls(1.0)) == hash(cls(1))
    assert cls(1.0) != cls(2.0)
    assert cls(1.0) != 1.0
    assert len({cls(1.0), cls(1.0), cls(3.0)}) == 2


def test_rows_with_the_same_nan_are_equal() -> None:
    ours, _ = both(Alone)
    assert ours(math.nan) == ours(math.nan)


def test_without_eq_each_is_itself() -> None:
    ours, _ = both(Alone, eq=False)
    one = ours(1.0)
    assert one == one
    assert one != ours(1.0)
    assert len({one, ours(1.0)}) == 2


@dataclass(frozen=True)
class Base:
    """That others extend, and that says in words of its own what it is."""

    a: int

    def __repr__(self) -> str:
        return "base"


@dataclass(frozen=True)
class Extended(Base):
    """By a field, of a value of another one."""

    inner: Base | None = None


def test_one_extends_another_and_keeps_its_own_methods() -> None:
    made = Extended(1, Base(2))
    assert repr(Base(1)) == "base"
    assert repr(made) == "Extended(a=1, inner=base)"
    assert made == Extended(1, Base(2)) != Base(1)


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        lambda made: pickle.loads(pickle.dumps(made)),  # noqa: S301 of our own
        lambda made: msgspec.json.decode(msgspec.json.encode(made), type=Extended),
    ],
)
def test_it_comes_back_from_a_copy_and_from_text(again: Any) -> None:
    assert again(Extended(1, Base(2))) == Extended(1, Base(2))


def test_what_can_be_changed_is_none() -> None:
    with pytest.raises(TypeError):
        dataclass(frozen=False)


def test_a_figure_has_the_unit_that_its_name_ends_with() -> None:
    @dataclass(frozen=True)
    class Row:
        total_ms: float = metric("time")
        share_of_step: float = metric("part of it", "share")
        idle_share: float = metric("part without work")
        count: int = metric("how many")
        ms: float = metric("time, too")

    units = {definition.name: definition.unit for definition in definitions(Row)}
    assert units == {
        "total_ms": "ms",
        "share_of_step": "share",
        "idle_share": "share",
        "count": "",
        "ms": "ms",
    }

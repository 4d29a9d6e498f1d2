"""Frozen dataclasses that are made in a third of the time: every command loads two hundred before
it begins.

`dataclasses.dataclass` compiles six methods for each class. Here `__init__` alone is compiled, once many
objects of the class are made; the others are shared, and know the names of the fields. What comes out
is a dataclass: `fields`, `replace`, `asdict` and all that reads fields see no difference. There is no
`__post_init__`, and every field is one of `__init__`, compared, hashed and shown."""

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # what it is to a type checker

    Field = dataclasses.Field[Any]

Class = TypeVar("Class", bound=type[Any])
FEW = 16  # objects of a class that are made without a compiled `__init__`
_WAITING: dict[Any, type[Any]] = {}
"""By what stands for an `__init__` that was not called yet: its class."""
UNITS = {"ms": "ms", "us": "us", "ns": "ns", "share": "share", "gbs": "GB/s"}
"""Units of figures, by what their names end with."""


def _frozen(*, frozen: bool, eq: bool = True, kw_only: bool = False) -> "Callable[[Class], Class]":
    """A decorator, as `dataclasses.dataclass(frozen=True)`."""
    if not frozen:
        raise TypeError("what can be changed is a dataclass of the standard library")

    def made(cls: Class) -> Class:
        own = set(vars(cls))
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        methods: dict[str, Any] = {
            "__init__": _init_when_called(cls),
            "__signature__": _OfInit(),
            "__repr__": _repr,
            "__setattr__": _refuse,
            "__delattr__": _refuse,
        }
        methods |= _comparing(cls) if eq else {}
        for f in dataclasses.fields(cls):
            unit = UNITS.get(f.name.rpartition("_")[2])
            if f.metadata.get("unit") == "" and unit is not None:
                f.metadata = MappingProxyType({**f.metadata, "unit": unit})
        for name in methods.keys() - own:
            setattr(cls, name, methods[name])
        return cls

    return made


if not TYPE_CHECKING:
    dataclass = _frozen


def _init_when_called(cls: type[Any]) -> "Callable[..., None]":
    """Stands for `__init__` until many objects are made: most commands make a few of each class, and to
    compile takes as long as to make sixty without."""
    fields: list[Field] = []
    objects = 0

    def __init__(_self: Any, /, *values: Any, **named: Any) -> None:  # noqa: N807 takes its place
        nonlocal fields, objects
        fields = fields or _in_order(cls)
        objects += 1
        given = _given(fields, values, named) if objects <= FEW else None
        if given is None:
            cls.__init__ = _init(cls)
            cls.__init__(_self, *values, **named)
            return
        for name, value in given.items():
            object.__setattr__(_self, name, value)

    _WAITING[__init__] = cls
    return __init__


def _in_order(cls: type[Any]) -> "list[Field]":
    """The fields of a class in the order of its `__init__`."""
    return sorted(dataclasses.fields(cls), key=lambda f: f.kw_only is True)


def _given(
    fields: "list[Field]", values: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any] | None:
    """The value of each field, by name; None where some are too many, missing or unknown: the compiled
    `__init__` says which."""
    positional = [f.name for f in fields if not f.kw_only]
    by_place = dict(zip(positional, values, strict=False))
    given = by_place | named
    if len(given) < len(values) + len(named):
        return None
    found = {}
    for f in fields:
        if f.name in given:
            found[f.name] = given.pop(f.name)
        elif f.default is not MISSING:
            found[f.name] = f.default
        elif f.default_factory is not MISSING:
            found[f.name] = f.default_factory()
        else:
            return None
    return None if given else found


class _OfInit:
    """Where `inspect` looks for a class's own signature. There is none, so it takes that of
    `__init__`, which is compiled for it."""

    def __get__(self, _: object, cls: type[Any]) -> NoReturn:
        waiting = _WAITING.get(cls.__init__)
        if waiting is not None:
            waiting.__init__ = _init(waiting)
        raise AttributeError("__signature__")


def _init(cls: type[Any]) -> "Callable[..., None]":
    fields = _in_order(cls)
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters = ["_self"]
    lines = []
    for f in fields:
        default = ""
        value = f.name
        if f.default is not MISSING:
            known[f"_of_{f.name}"] = f.default
            default = f" = _of_{f.name}"
        elif f.default_factory is not MISSING:
            known[f"_of_{f.name}"] = f.default_factory
            default = " = _missing"
            value = f"_of_{f.name}() if {f.name} is _missing else {f.name}"
        parameters += ["*"] if f.kw_only and "*" not in parameters else []
        parameters.append(f.name + default)
        lines.append(f" _set(_self, {f.name!r}, {value})\n")
    exec((f"def __init__({', '.join(parameters)}):\n{''.join(lines) or ' pass'}"), known)  # noqa: S102 names of fields
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {f.name: f.type for f in fields}
    return init


def _comparing(cls: type[Any]) -> "dict[str, Callable[..., Any]]":
    names = [f.name for f in dataclasses.fields(cls)]
    # of several names it gives a tuple, as is wanted: two of them are equal where both hold the
    # same NaN
    values: Callable[[Any], Any] = lambda one: tuple(getattr(one, name) for name in names)  # noqa: E731
    values = attrgetter(*names) if len(names) > 1 else values

    def eq(self: Any, other: object) -> bool:
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    return {"__eq__": eq, "__hash__": lambda self: hash(values(self))}


@recursive_repr()
def _repr(self: Any) -> str:
    told = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
    return f"{type(self).__qualname__}({', '.join(told)})"


def _refuse(_: object, name: str, *__: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot change field {name!r}")

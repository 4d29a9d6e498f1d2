"""What the keys of logs mean: `train/perf/data_s` is time that a step waits for data, in seconds.

A key is a path, a name and a unit; `names.toml` says which field a name stands for."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from traceanalyzer.base import dataclass, regex

TIME_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "usec": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "msecs": 1e-3,
    "milliseconds": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "min": 60.0,
    "mins": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hours": 3600.0,
}
"""In seconds."""
MEMORY_UNITS = {
    "b": 1.0,
    "bytes": 1.0,
    "kb": 2.0**10,
    "kib": 2.0**10,
    "m": 2.0**20,
    "mb": 2.0**20,
    "mib": 2.0**20,
    "g": 2.0**30,
    "gb": 2.0**30,
    "gib": 2.0**30,
}
"""In bytes. Most programs that print GB divide by 1024^3: which one it is, a line does not say."""
_UNITS_OF_NAMES = frozenset((*TIME_UNITS, "gb", "gib", "mb", "mib", "bytes"))
"""Units that the name of a value may end with."""
COUNT_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
UNKNOWN_UNIT = "?"
"""Ends the field of a time whose unit is not said."""
_TABLE: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("names.toml").read_text(encoding="utf-8")
)
_DECORATIONS = frozenset(_TABLE["decorations"])
_MEANS = frozenset(_TABLE["means"])
EVALUATION = frozenset(_TABLE["evaluation"])
_TIME_GROUPS = frozenset(_TABLE["time_groups"])
_OF_RUNS = frozenset(_TABLE["of_runs"])
_CAMEL = regex(r"(?<=[a-z])(?=[A-Z][a-z])")
_A_SECOND = regex(r"(?:/|_per_)(?:s|sec|secs|second|seconds)(?![a-z])")
_STEPS = "(?:it|iter|iteration|step|batch|global_step)(?![a-z])"
_A_STEP = regex(rf"(?:_per_|(?<![a-z_])(ns|us|ms|s|sec|secs|seconds)/){_STEPS}")
_IN_PARENTHESES = regex(r"(?<!\s)\s*+[\[(]([A-Za-zµμ%/]{1,12})[\])]\s*+$")
_OTHER = regex(r"[^a-zµμ0-9]+")
_LAST_WORD = regex(r"(?:^|_)(?:in_)?([a-zµμ]+)$")
_FIRST_WORD = regex(r"^([a-zµμ]+)(?=_per_step$)")
_PATH = regex(r"[/.:]")


def _per_step(text: str) -> str:
    """With one name for `s/it`, `s/batch`, `_per_iteration`."""
    return _A_STEP.sub(lambda found: f"{found[1] or ''}_per_step", text)


_COUNTS, _TIMES, _RATES, _MEMORY, _PHASES = (
    {_per_step(name): field for field, names in _TABLE[group].items() for name in names}
    for group in ("counts", "times", "rates", "memory", "phases")
)


@dataclass(frozen=True)
class Meaning:
    """The field that a value stands for, and the factor to its unit: seconds, bytes or one."""

    field: str
    factor: float = 1.0


@dataclass(frozen=True)
class _Name:
    """A key in one spelling."""

    path: tuple[str, ...]
    base: str
    unit: str  # as the key has it; empty for none


@cache
def meaning(key: str, unit: str = "") -> Meaning | None:
    """What the value of a key means; None where that is not known, or not of training. `unit` is
    what follows the value."""
    name = _spelled(key)
    if _is_of_no_step(key, name):
        return None
    after = unit.lower()
    many = COUNT_UNITS.get(after, 1.0) if name.unit in TIME_UNITS else 1.0
    unit = name.unit if many != 1.0 else after or name.unit
    by_unit = _by_unit(name, unit)
    if by_unit is not None:
        return by_unit
    for base in _candidates(name):
        found = _of_base(base, unit, timed=_is_timed(name))
        if found is not None:
            return Meaning(found.field, found.factor * many)
    if unit in TIME_UNITS and _is_timed(name) and name.base:
        return Meaning(f"phase:{_PHASES.get(name.base, name.base)}", TIME_UNITS[unit])
    return None


def _is_of_no_step(key: str, name: _Name) -> bool:
    """Whether a key is of an evaluation, a token or a whole run."""
    words = {word for part in (*name.path, name.base) for word in part.split("_")}
    return bool(words & EVALUATION) or "per_token" in key or name.base in _OF_RUNS


def _is_timed(name: _Name) -> bool:
    return bool(_TIME_GROUPS.intersection(name.path))


def _by_unit(name: _Name, unit: str) -> Meaning | None:
    """What a unit with a slash says by itself: `s/it`, `img/s`."""
    if "/" not in unit:
        return None
    spelled = _A_SECOND.sub("_per_s", _per_step(re.sub(r"/(?:gpu|device)$", "", unit)))
    if spelled in _RATES:
        return Meaning(_RATES[spelled])
    amount, _, each = spelled.partition("_per_")
    if each == "step" and amount in TIME_UNITS:
        is_mean = bool(_MEANS.intersection(name.base.split("_")))
        return Meaning("mean_s" if is_mean else "iter_s", TIME_UNITS[amount])
    return None


def _of_base(base: str, unit: str, *, timed: bool) -> Meaning | None:
    if unit in TIME_UNITS:
        return _of_time(base, unit, TIME_UNITS[unit])
    count_factor = COUNT_UNITS.get(unit) if unit else 1.0
    if base in _RATES and count_factor is not None:
        return Meaning(_RATES[base], count_factor)
    if base in _MEMORY:
        return _of_memory(base, unit)
    if unit == "m" and _TIMES.get(base) == "time":
        return Meaning("time_s", 60.0)
    if base in _COUNTS and not timed:
        if unit == "%":
            return Meaning("mfu", 0.01) if _COUNTS[base].startswith("mfu") else None
        if count_factor is not None:
            return Meaning(_COUNTS[base], count_factor)
    return None if unit else _of_time(base, UNKNOWN_UNIT, 1.0)


def _of_memory(base: str, unit: str) -> Meaning | None:
    if unit in MEMORY_UNITS:
        return Meaning("peak_memory_bytes", MEMORY_UNITS[unit])
    if "byte" in base:
        return Meaning("peak_memory_bytes")
    return None if unit else Meaning("memory" + UNKNOWN_UNIT)


def _of_time(base: str, unit: str, factor: float) -> Meaning | None:
    ending = UNKNOWN_UNIT if unit == UNKNOWN_UNIT else "_s"
    if base in _TIMES and (base or ending == "_s"):
        return Meaning(_TIMES[base] + ending, factor)
    plain = "_".join(word for word in base.split("_") if word not in _MEANS)
    if plain != base and _TIMES.get(plain) in ("iter", "time"):
        return Meaning("mean" + ending, factor)
    return None


def _candidates(name: _Name) -> Iterator[str]:
    """The names to look for, with ever less decoration."""
    base = name.base
    if name.path and base:
        yield f"{name.path[-1]}_{base}"
    yield base
    first, _, rest = base.partition("_")
    while rest and first in _DECORATIONS:
        yield rest
        first, _, rest = rest.partition("_")
    rest, _, last = base.rpartition("_")
    if rest and last in _DECORATIONS:
        yield rest


@cache
def _spelled(key: str) -> _Name:
    key, unit_in_parentheses = _without_parentheses(key)
    text = _CAMEL.sub("_", key.strip().strip("'\"")).lower()
    text = re.sub(r"(?:(?<!\s)\s++)?\bper\b\s*+", "_per_", text).replace("__", "_")
    text = _A_SECOND.sub("_per_s", _per_step(text))
    *path, last = (_OTHER.sub("_", part).strip("_") for part in _PATH.split(text))
    base, unit_in_name = _without_unit(last, in_path=bool(path))
    groups = (part for part in path if part in _TIME_GROUPS and "_" in part)
    units = (unit_in_parentheses, *(group.rpartition("_")[2] for group in groups), unit_in_name)
    unit = next(filter(None, units), "")
    return _Name(tuple(part for part in path if part), base, unit)


def _without_parentheses(key: str) -> tuple[str, str]:
    """The key, and the unit that it has in parentheses; what else stands there is a part of it."""
    found = _IN_PARENTHESES.search(key)
    if found is None:
        return key, ""
    inside = found[1].lower()
    before = key[: found.start()]
    return (before, inside) if _is_unit(inside) else (f"{before}_{inside}", "")


def _without_unit(name: str, *, in_path: bool) -> tuple[str, str]:
    """The last part of a key without the unit that it ends with, or begins with, and this unit."""
    last = _LAST_WORD.search(name)
    if last and last[1] in _UNITS_OF_NAMES:
        before = name[: last.start()]
        is_alone = not before and (in_path or last[1] not in ("seconds", "secs", "sec"))
        is_unit = not before.endswith("_per") and name not in _RATES and not is_alone
        return (before, last[1]) if is_unit else (name, "")
    first = _FIRST_WORD.search(name)
    if first and first[1] in TIME_UNITS:
        return "per_step", first[1]
    return name, ""


def _is_unit(text: str) -> bool:
    return text in TIME_UNITS or text in MEMORY_UNITS or "/" in text or text == "%"

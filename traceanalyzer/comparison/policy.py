"""A policy file: the limits of a project, in TOML, to be kept beside its code.

baseline = "main.json"          # what `--baseline` takes; relative to this file
allow_missing = false           # what `--allow-missing` and `--strict` say
strict = false

[max]
step_time_ms.median = "+3%"
gpu_idle_share = 0.10

[min]
roofline.mfu = "-5%"
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from traceanalyzer.comparison.limits import Bound, Limit
from traceanalyzer.errors import UnreadableInputError
from traceanalyzer.files import read_whole
from traceanalyzer.frozen import dataclass

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Policy:
    """What a policy file says."""

    limits: tuple[Limit, ...] = ()
    baseline: str | None = None
    allow_missing: bool = False
    strict: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    baseline: str | None = None
    allow_missing: bool = False
    strict: bool = False
    max: dict[str, Any] = msgspec.field(default_factory=dict)
    min: dict[str, Any] = msgspec.field(default_factory=dict)


def read_policy(path: Path) -> Policy:
    """The policy in a file. Raises UnreadableInputError where it is no policy, LimitError for a limit that makes no
    sense."""
    try:
        said = msgspec.convert(tomllib.loads(read_whole(path).decode()), _File)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise UnreadableInputError(f"{path}: not a policy: {error}") from error
    baseline = None if said.baseline is None else str(path.parent / said.baseline)
    limits = (*_limits("max", said.max), *_limits("min", said.min))
    return Policy(limits, baseline, said.allow_missing, said.strict)


def _limits(bound: Bound, table: dict[str, Any], prefix: str = "") -> list[Limit]:
    """Limits of a table; a name with dots that is not in quotation marks is a table of tables in TOML."""
    found: list[Limit] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _limits(bound, value, f"{prefix}{name}.")
        else:
            found.append(Limit.of(prefix + name, bound, value))
    return found

"""What kind of work a kernel does, from its name, by the rules of `kernel_classes.toml`."""

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from traceanalyzer.analysis.algebra import first_alike
from traceanalyzer.analysis.names.kernel_names import own_name
from traceanalyzer.base import UnreadableInputError, dataclass
from traceanalyzer.base.files import read_whole
from traceanalyzer.trace import I32, DeviceOpKind, Trace, distinct_places

OTHER = "other"
MAX_NAME = 400
"""Characters of a name that are looked at: templates write out their arguments several times over
(names of 10,000 characters exist), and what a kernel does stands near the front."""
_BY_KIND = {
    DeviceOpKind.MEMCPY: "memcpy",
    DeviceOpKind.MEMSET: "memset",
    DeviceOpKind.GRAPH: "graph",
}
UNKNOWN = "unknown"
_BOUNDS = ("compute", "memory", UNKNOWN)


@dataclass(frozen=True)
class KernelClasses:
    """An ordered list of classes. Index 0 is `other`; copies, memsets and whole graphs have classes
    of their own."""

    names: tuple[str, ...]
    titles: tuple[str, ...]
    is_communication: tuple[bool, ...]
    bound: tuple[str, ...]
    """`compute`, `memory` or `unknown`: what usually limits a kernel of the class, until a roofline
    says better."""
    rules: tuple[tuple[str, int], ...]
    """Regular expression and class index, in order: the first pattern found in a name decides."""

    @classmethod
    def load(cls, extra: Path | None = None) -> "KernelClasses":
        """The built-in rules, preceded by those of a user's file (UnreadableInputError if it is not
        valid)."""
        if extra is None:
            return _builtin()
        try:
            return _assemble(tomllib.loads(read_whole(extra).decode()), _builtin())
        except (
            OSError,
            KeyError,
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            re.error,
        ) as error:
            raise UnreadableInputError(
                f"{extra}: not a valid file of kernel classes: {error}"
            ) from error

    def index(self, name: str) -> int:
        """The index of the class with this name."""
        return self.names.index(name)

    def class_of(self, kernel: str) -> int:
        """The class index of a kernel by its name, without its parameters; 0 where no rule knows
        it."""
        head = own_name(kernel)[:MAX_NAME]
        return next((index for pattern, index in self.rules if _compiled(pattern).search(head)), 0)

    def classify(self, trace: Trace) -> I32:
        """The class index of each device op; each distinct kernel name is looked at once, of many
        those that are equal but for the numbers in them."""
        ops = trace.device_ops
        result = np.zeros(len(ops), np.int32)
        for kind, name in _BY_KIND.items():
            result[ops.kind == kind] = self.index(name)
        kernels = ops.kind == DeviceOpKind.KERNEL
        alike = first_alike(trace.strings)
        codes, inverse = distinct_places(alike.take(ops.name[kernels]))
        classes = [
            self.class_of(trace.strings[code]) if code >= 0 else 0 for code in codes.tolist()
        ]
        result[kernels] = np.array(classes, np.int32)[inverse]
        return result


NO_CLASSES = KernelClasses((), (), (), (), ())


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Most recordings need few of the rules, and a kept answer none: compiling all takes longer
    than loading them."""
    return re.compile(pattern)


@lru_cache(maxsize=1)
def _builtin() -> KernelClasses:
    text = Path(__file__).with_name("kernel_classes.toml").read_text(encoding="utf-8")
    return _assemble(tomllib.loads(text), NO_CLASSES)


def _assemble(data: dict[str, Any], base: KernelClasses) -> KernelClasses:
    """Classes and rules of a parsed file on top of `base`. Raises ValueError where they make no
    sense, and re.error."""
    rows = [*zip(base.names, base.titles, base.is_communication, base.bound, strict=True)]
    for c in data.get("class", []):
        if c["name"] not in base.names:
            if c["bound"] not in _BOUNDS:
                raise ValueError(
                    f"class {c['name']}: bound is {c['bound']!r}, not one of {', '.join(_BOUNDS)}"
                )
            communicates = bool(c.get("communication", False))
            rows.append((c["name"], c["title"], communicates, c["bound"]))
    names, titles, is_communication, bound = zip(*rows, strict=True)
    rules = []
    for rule in data.get("rule", []):
        if rule["class"] not in names:
            raise ValueError(f"rule for the unknown class {rule['class']!r}")
        pattern = "|".join(f"(?:{p})" for p in rule["patterns"])
        if base is not NO_CLASSES:
            re.compile(pattern)
        rules.append((pattern, names.index(rule["class"])))
    return KernelClasses(names, titles, is_communication, bound, (*rules, *base.rules))

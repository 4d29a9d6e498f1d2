"""The commands: those in sight, in three groups, and the old names that still work."""

from traceanalyzer.base import dataclass
from traceanalyzer.report.table_entries import BY_COMMAND


@dataclass(frozen=True)
class CommandGroup:
    """Commands that `--help` lists together."""

    title: str
    commands: tuple[str, ...]


GROUPS = (
    CommandGroup("Ask", ("analyze", "gaps", "show", "whatif", "compare", "explain")),
    CommandGroup("Keep", ("check", "history", "export", "attach")),
    CommandGroup("Run", ("collect", "try", "doctor", "mcp")),
)
TOOLS = ("collect", "try", "doctor", "mcp", "explain", "schema", "cache", "completion")
"""Commands about no recording; the modules of the others are in `answers`."""
COMMANDS = tuple(name for group in GROUPS for name in group.commands)
"""In the order of `--help`."""
OLD = {
    **{name: f"show {name}" for name in BY_COMMAND if name not in COMMANDS},
    "memory": "analyze SNAPSHOT",
    "compile": "analyze LOG",
    "hang": "analyze DIR",
    "fleet": "analyze DIR",
    "digest": "export PATH... --digests -o DIR",
    "overlay": "export PATH... -o FILE.json",
    "open": "export PATH... --open",
    "reproduce": "export TRACE --operator NAME -o FILE.py",
    "schema": "doctor schema",
    "cache": "doctor cache",
    "completion": "doctor completion",
}
"""Names of earlier versions, which go on to work, each with what to type now."""


def package_of(name: str) -> str:
    """The package that has the command's module."""
    return "tools" if name in TOOLS else "answers"

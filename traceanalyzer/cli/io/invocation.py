"""What the running command was given."""

import click

QUIET = "traceanalyzer.quiet"


def is_quiet() -> bool:
    """Whether `-q` was given to the command that runs."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def arguments_of(context: click.Context) -> list[str]:
    """The arguments that a command was given."""
    values = [context.params[param.name] for param in context.command.params if isinstance(param, click.Argument)]
    return [str(text) for value in values if value for text in (value if isinstance(value, tuple) else (value,))]

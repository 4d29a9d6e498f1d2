"""`traceanalyzer mcp`."""

import importlib.util
from pathlib import Path

import click

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.cli.options import Hidden, command, redact_options


@command("mcp")
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Read recordings below this folder only; may be repeated. Default: any that you can read.",
)
@redact_options()
def mcp(roots: tuple[Path, ...], hidden: Hidden) -> None:
    """Answer an agent's questions over the Model Context Protocol."""
    if importlib.util.find_spec("mcp") is None:
        raise TraceAnalyzerError(f"the MCP SDK is not installed: {how_to_install('mcp')}")
    from traceanalyzer.agent.server import make_server
    from traceanalyzer.agent.sources import Sources

    make_server(Sources(roots), hidden).run()

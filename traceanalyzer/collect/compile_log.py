"""The log of torch.compile in a capture: PyTorch writes it where `TORCH_TRACE` says, one file a rank.

It holds the program's code, paths and shapes, and costs time only while something is compiled.
"""

from traceanalyzer.collect.plan import Plan

FOLDER = "compile"
"""Of the capture; the logs are read from there."""
VARIABLE = "TORCH_TRACE"


def variables(plan: Plan) -> dict[str, str]:
    """What the command's environment needs for it; empty where it is not asked for."""
    return {VARIABLE: str(plan.path / FOLDER)} if plan.compile_log else {}

"""What HTA is asked to do: load a trace, temporal breakdown, idle breakdown. Run by the Python of
its own environment.

The last line it prints is JSON: seconds at the end of each stage, and what stopped a stage if
something did.
"""

import importlib.metadata
import json
import sys
import time


def main(path: str) -> dict[str, object]:
    """Run the stages; one that fails does not keep the next from being tried, as long as the trace
    was loaded."""
    begun = time.perf_counter()
    ended: dict[str, float] = {}
    failed: dict[str, str] = {}

    def stage(name: str, work) -> object:
        try:
            return work()
        except Exception as error:
            failed[name] = f"{type(error).__name__} {error}".splitlines()[0].strip()
            return None
        finally:
            ended[name] = time.perf_counter() - begun

    analysis = stage("load", lambda: _load(path))
    if analysis is not None:
        stage("temporal breakdown", lambda: analysis.get_temporal_breakdown(visualize=False))
        stage("idle breakdown", lambda: analysis.get_idle_time_breakdown(visualize=False))
    version = importlib.metadata.version("HolisticTraceAnalysis")
    return {"version": version, "ended": ended, "failed": failed}


def _load(path: str) -> object:
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(trace_files={0: path}, trace_dir="")


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

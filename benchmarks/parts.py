"""Where the CPU time of one `analyze` goes: `python -m benchmarks.parts RECORDING`.

Parts are timed in the order of the pipeline; each is what it adds to the parts before it, since
what one has worked out the next one finds. Beside them `orjson.loads` of an uncompressed trace, in
the same run: on a shared machine only ratios say anything.
"""

import argparse
import importlib
import resource
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measured import MB, compile_package

KIB = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument(
        "--orjson",
        action="store_true",
        help="also decode the file with orjson, which takes much memory",
    )
    asked = parser.parse_args()
    compile_package()
    found = parts(asked.recording)
    total = sum(cost for _, cost, _ in found)
    for name, cost, peak in found:
        print(f"{name:22} {cost:7.2f} CPU-s {cost / total:6.1%}  peak {peak:5.0f} MB so far")
    print(f"{'all':22} {total:7.2f} CPU-s")
    if asked.orjson:
        print(f"{'orjson.loads':22} {decoded(asked.recording):7.2f} CPU-s")


def parts(recording: Path) -> list[tuple[str, float, float]]:
    """Name, CPU seconds and peak memory after each part."""
    found: list[tuple[str, float, float]] = []

    def part(name: str, work: Callable[[], object]) -> object:
        begun = time.process_time()
        made = work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB / MB
        found.append((name, time.process_time() - begun, peak))
        return made

    part("start-up (imports)", _import)
    from traceanalyzer.cli.io.process import keep_freed_memory

    keep_freed_memory()
    from traceanalyzer.diagnosis.diagnose import diagnose
    from traceanalyzer.diagnosis.selection import measured
    from traceanalyzer.ingest import load
    from traceanalyzer.report.build import report_of
    from traceanalyzer.report.json import render_json
    from traceanalyzer.report.tables import report_tables

    run = part("reading", lambda: load([recording]))
    of = part("steps, ranks", lambda: measured(run))
    m = of.critical
    part(
        "host tree, timeline",
        lambda: (m.linked.tree, m.timed.timeline, m.joined.launch_node, m.joined.blocks),
    )
    part("causes, gaps, path", lambda: (m.causes.gaps, m.path, m.budgets))
    part("roofline", lambda: m.rated.roofline)
    part("replay, unprofiled", lambda: (m.replay, m.unprofiled))
    part("diagnosis, remedies", lambda: diagnose(m))
    part("path, step parts", lambda: (m.path_time, m.step_parts))
    part("tables", lambda: report_tables(of, 30))
    report = report_of(of)  # for the last part; what it does once more is no cost of `analyze`
    part("JSON", lambda: render_json(report))
    return found


def _import() -> None:
    for name in (
        "cli.answers.analyze",
        "ingest",
        "diagnosis.selection",
        "report.build",
        "report.page",
    ):
        importlib.import_module(f"traceanalyzer.{name}")


def decoded(recording: Path) -> float:
    """CPU seconds of `orjson.loads` on the whole file."""
    import orjson

    data = recording.read_bytes()
    begun = time.process_time()
    orjson.loads(data)
    return time.process_time() - begun


if __name__ == "__main__":
    main()

"""The command line as a process: what is imported, pipes, odd terminals."""

import os
import subprocess
import sys

from tests.recorded import ROOT

SAMPLE = ROOT / "sample_traces" / "host_bound" / "trace.rank0.json.gz"
HEAVY = ("numpy", "pandas", "rich", "torch", "plotly", "orjson", "msgspec", "sqlite_utils")
HELP = [sys.executable, "-m", "traceanalyzer", "--help"]
PRINT_REPORT = """
import sys
from tests.report.reports import {report}
from traceanalyzer.cli.io.output import write
from traceanalyzer.report.terminal.screen import render_terminal
write(render_terminal({report}()) * {times}, None)
"""


def python(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, **options)


def test_help_imports_nothing_heavy():
    code = f"""
import sys
import traceanalyzer.cli
try:
    traceanalyzer.cli.main(["--help"])
except SystemExit:
    pass
print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    done = python(code)
    assert done.stderr.strip() == b"[]"
    assert b"analyze" in done.stdout


def test_a_short_answer_loads_what_it_has_use_for(tmp_path):
    """Each of these takes as long to load as a small recording takes to read."""
    unused = (
        *("multiprocessing", "numpy.ma", "pandas", "secrets", "statistics"),
        *("traceanalyzer.analysis.memory.measure", "traceanalyzer.replay.compile.measure"),
    )
    code = f"""
import sys
from traceanalyzer.cli import main
try:
    main(["analyze", {str(SAMPLE)!r}, "--no-cache", "-o", {str(tmp_path / "report.json")!r}])
except SystemExit:
    pass
print([name for name in {unused} if name in sys.modules], file=sys.stderr)
"""
    done = python(code)
    assert (done.stdout, done.stderr.strip()) == (b"", b"[]")


def test_what_was_printed_before_is_printed_without_what_reads_or_measures(tmp_path):
    unused = ("msgspec", "numpy", "rich", "tempfile", "zipfile")
    code = f"""
import sys
from traceanalyzer.cli import main
from traceanalyzer.ingest.cache import identity
identity.SETTLED_S = -1
try:
    main(["analyze", {str(SAMPLE)!r}, "--format", "json"])
except SystemExit:
    pass
print([name for name in {unused} if name in sys.modules], file=sys.stderr)
"""
    kept = {**os.environ, "TRACEANALYZER_CACHE": str(tmp_path)}
    first, again = (python(code, env=kept) for _ in range(2))
    assert again.stdout == first.stdout
    assert again.stderr.strip() == b"[]"


def test_the_module_runs():
    done = subprocess.run(HELP, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Usage: traceanalyzer ")


def test_a_missing_file_is_one_line():
    command = [sys.executable, "-m", "traceanalyzer", "analyze", "no such file.json"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("traceanalyzer: error: no such file.json: ")
    assert done.stderr.count("\n") == 1


def test_a_terminal_without_unicode_gets_something_readable():
    done = python(
        PRINT_REPORT.format(report="hostile", times=1),
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Findings\n--------\n" in done.stdout


def test_closed_standard_streams_are_no_traceback(tmp_path):
    def started(*arguments, closed):
        return subprocess.run(
            [
                "/bin/sh",
                "-c",
                f'exec "$@" {closed}',
                "sh",
                sys.executable,
                "-m",
                "traceanalyzer",
                *arguments,
            ],
            capture_output=True,
            check=False,
        )

    done = started("doctor", "schema", closed=">&-")
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"standard output is closed" in done.stderr
    done = started("explain", "launch-bound", closed="2>&-")
    assert done.returncode == 0
    done = started("doctor", "schema", "-o", str(tmp_path / "schema.json"), closed=">&- 2>&-")
    assert done.returncode == 0


def test_a_reader_that_leaves_is_no_error():
    code = PRINT_REPORT.format(report="full", times=100)
    # Unbuffered, Python drops the rest of a write that a closed pipe cut short, and nobody learns
    # of it.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], env=buffered, **pipes) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_numpy_starts_no_threads_for_a_command_and_leaves_the_environment_as_it_is():
    code = """
import os
from pathlib import Path
from traceanalyzer.cli.io.process import load_numpy
before = dict(os.environ)
load_numpy()
import numpy
print(dict(os.environ) == before, len(list(Path("/proc/self/task").glob("*"))) if Path("/proc").is_dir() else 1)
"""
    done = python(
        code,
        env={name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"},
    )
    assert (done.stderr, done.stdout.split()) == (b"", [b"True", b"1"])


def test_the_user_says_how_many_threads_numpy_has():
    code = """
import os
from traceanalyzer.cli.io.process import load_numpy
load_numpy()
print(os.environ["OPENBLAS_NUM_THREADS"])
"""
    assert python(code, env={**os.environ, "OPENBLAS_NUM_THREADS": "2"}).stdout == b"2\n"

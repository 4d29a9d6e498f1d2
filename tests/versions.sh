#!/usr/bin/env bash
# The lowest versions that pyproject.toml admits on the oldest Python, the newest versions on the newest Python there is:
# installs both, and passes the tests that touch what is installed (ALL=1: all but those of PyTorch), with the licences of
# what is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/uv ] || .venv/bin/pip install --quiet --disable-pip-version-check uv
export SSL_CERT_FILE="${SSL_CERT_FILE:-${PIP_CERT:-$(.venv/bin/python -m pip config get global.cert 2> /dev/null || true)}}"
[ -n "$SSL_CERT_FILE" ] || unset SSL_CERT_FILE
tests=(tests/agent tests/cli tests/history tests/export tests/report/terminal tests/report/markdown tests/test_notebook.py
  tests/ingest/kineto/test_kineto.py tests/ingest/test_ncu.py tests/ingest/nsys/test_nsys.py tests/ingest/test_timing_log.py
  tests/fleet/test_digests.py tests/fleet/test_remote.py tests/history/days/test_days.py
  tests/fleet/test_cluster.py::test_nobody_else_gets_into_a_cluster_of_this_machine
  --ignore=tests/cli/io/test_process.py --ignore=tests/export/perfetto/test_serve.py)
[ -z "${ALL:-}" ] || tests=(tests --ignore=tests/test_house.py)

python_of() { # the first of these versions that runs here
  for version in "$@"; do
    for python in "python$version" "$HOME"/.pyenv/versions/"$version"*/bin/python; do
      if "$python" -c '' 2> /dev/null; then command -v "$python" && return; fi
    done
  done
  return 1
}

check() { # resolution, python
  .venv/bin/uv venv --quiet --clear --python "$2" "build/$1"
  .venv/bin/uv pip install --quiet --python "build/$1" --resolution "$1" -e '.[mcp,fleet]' 'fsspec>=2024.6'
  .venv/bin/uv pip install --quiet --python "build/$1" hypothesis jsonschema pytest pytest-xdist
  "build/$1/bin/python" --version
  .venv/bin/uv pip list --quiet --python "build/$1" | grep -E '^(click|cryptography|distributed|duckdb|fsspec|isal|markdown-it-py|mcp|msgspec|numpy|orjson|pandas|plotly|pyarrow|rich|sqlite-utils) '
  "build/$1/bin/python" -m tests.licences
  "build/$1/bin/python" -m pytest -n 2 "${tests[@]}"
}

check lowest-direct "$(python_of 3.11 3.12)"
check highest "$(python_of 3.14 3.13 3.12 3.11)"

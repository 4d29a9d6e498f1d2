#!/usr/bin/env bash
# The main job on a fresh machine: makes .venv, installs the project, analyses a sample trace.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check -e .
.venv/bin/traceanalyzer analyze sample_traces/sync_bound "$@"

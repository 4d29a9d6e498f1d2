#!/usr/bin/env bash
# Passes the tests on a fresh machine: makes .venv, installs the project with its development tools, then
# style, types, layers and tests. WITH_TORCH=1 also installs PyTorch (large), for the comparison with its own profiler;
# without it those tests are skipped. CHECKED=1 leaves out style, types and layers, which have passed.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || python3 -m venv .venv
bash tests/install.sh -e '.[dev]'
[ -z "${WITH_TORCH:-}" ] || bash tests/install.sh torch==2.13.0 transformers accelerate lightning wandb \
  mlflow-skinny tensorboard ipython
if [ -z "${CHECKED:-}" ]; then
  .venv/bin/python -m pytest -qq --collect-only "$@" > /dev/null & # compiles tests on the core that mypy leaves idle
  .venv/bin/ruff check .
  .venv/bin/ruff format --check .
  .venv/bin/mypy
  .venv/bin/lint-imports
  wait
fi
.venv/bin/python -m pytest -n 2 "$@"

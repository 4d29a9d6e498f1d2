#!/usr/bin/env bash
# Builds the wheel and the sdist into the folder named (build/package by default), as SOURCE_DATE_EPOCH says the same
# bytes every time, and uses each in an empty environment.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${1:-build/package}"
uv="$(command -v .venv/bin/uv || command -v uv || true)"
[ -n "$uv" ] || { echo "tests/package.sh needs uv: pip install uv" >&2; exit 1; }
export SSL_CERT_FILE="${SSL_CERT_FILE:-${PIP_CERT:-$(python3 -m pip config get global.cert 2> /dev/null || true)}}"
[ -n "$SSL_CERT_FILE" ] || unset SSL_CERT_FILE
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-1700000000}"
again="$(mktemp -d)"
trap 'rm -rf "$again"' EXIT
rm -rf "$target"
"$uv" build --quiet --out-dir "$target"
sleep 2
"$uv" build --quiet --wheel --out-dir "$again"
cmp "$target"/*.whl "$again"/*.whl
test "$(stat --format %s "$target"/*.tar.gz)" -lt 3000000
for built in "$target"/*.whl "$target"/*.tar.gz; do
  "$uv" venv --quiet --clear "$again/venv"
  "$uv" pip install --quiet --python "$again/venv" "$built"
  sample="$PWD/sample_traces"
  (cd "$again" && venv/bin/traceanalyzer analyze "$sample/sync_bound" -q -o report.html && test -s report.html)
  (cd "$again" && venv/bin/traceanalyzer gaps "$sample/nsys_sync_bound" --format json | grep '"cause"' > /dev/null)
  echo "$(basename "$built"): installs and works in an empty environment"
  [ "${built##*.}" = gz ] || "$again/venv/bin/python" -P tests/installed.py
done

#!/usr/bin/env bash
# What the action does, by its inputs in the environment (action.yml). Exit status 3: a limit is breached.
set -euo pipefail

mkdir -p "$OUTPUT"
report="$OUTPUT/report.json"
base=()
[ -z "$BASELINE" ] || [ ! -e "${BASELINE%%#*}" ] || base=("$BASELINE")

comment() { # the one comment on the pull request: made, or edited
  [ "$COMMENT" = true ] && [ -n "${PULL_REQUEST:-}" ] || return 0
  words=(--issue "$PULL_REQUEST" --publish)
  [ -z "$NAME" ] || words+=(--name "$NAME")
  [ -z "$REDACT_NAME" ] || words+=(--redact-name "$REDACT_NAME")
  [ -z "${PAGES:-}" ] || words+=(--link "$PAGES")
  [ ${#base[@]} = 0 ] || words+=(--compare "${base[0]}")
  # Pull requests from forks get a token that may not comment: the summary has it all.
  traceanalyzer attach "${words[@]}" -- "$report" || echo "::warning::no comment was made; the job's summary has the report"
}
if [ "${1:-}" = link ]; then
  comment
  exit 0
fi

matches() { # the files of a pattern in `found`; a name that has a line break is one name
  local IFS=
  shopt -s nullglob
  # shellcheck disable=SC2206
  found=($1)
  shopt -u nullglob
  # A pattern that matches nothing is a name as it stands: a stored run, or one line of what is wrong.
  [ ${#found[@]} -gt 0 ] || found=("$1")
}

traces=()
while IFS= read -r line; do
  [ -n "$line" ] || continue
  matches "$line"
  traces+=("${found[@]}")
done <<< "$TRACE"

# Behind `--` a file of a pull request that is called like an option is a file.
traceanalyzer analyze --format json -o "$report" -- "${traces[@]}"
# A saved report has no timeline, so the page is made where there is a recording.
traceanalyzer analyze -o "$OUTPUT/report.html" -- "${traces[@]}" || echo "::warning::no page: $TRACE is no recording"
[ -z "$BASELINE" ] || [ ${#base[@]} -gt 0 ] || echo "::notice::no baseline yet: $BASELINE"

if [ ${#base[@]} -gt 0 ]; then
  traceanalyzer compare --format markdown -o "$OUTPUT/report.md" -- "${base[0]}" "$report"
  traceanalyzer compare -o "$OUTPUT/compare.html" -- "${base[0]}" "$report"
else
  traceanalyzer analyze --format markdown -o "$OUTPUT/report.md" -- "${traces[@]}"
fi
cat "$OUTPUT/report.md" >> "$GITHUB_STEP_SUMMARY"

limits=()
against=0
while IFS= read -r line; do
  [ -n "$line" ] || continue
  case "$line" in *=[+-]*%) against=1; [ ${#base[@]} -gt 0 ] || continue ;; esac
  limits+=(--max "$line")
done <<< "$AT_MOST"
while IFS= read -r line; do
  [ -n "$line" ] || continue
  case "$line" in *=[+-]*%) against=1; [ ${#base[@]} -gt 0 ] || continue ;; esac
  limits+=(--min "$line")
done <<< "$AT_LEAST"
[ $against = 0 ] || [ ${#base[@]} -gt 0 ] || echo "::notice::limits against a baseline are not checked: there is none"
[ -z "$POLICY" ] || limits+=(--policy "$POLICY")

status=0
if [ ${#limits[@]} -gt 0 ]; then
  [ ${#base[@]} = 0 ] || limits+=(--baseline "${base[0]}")
  traceanalyzer check "${limits[@]}" --format github -- "$report" || status=$?
  traceanalyzer check "${limits[@]}" --format junit -o "$OUTPUT/check.xml" -- "$report" || true
fi
[ $status = 0 ] || [ $status = 3 ] || exit $status

comment

{
  echo "passed=$([ $status = 0 ] && echo true || echo false)"
  echo "headline=$(traceanalyzer analyze -q -- "${traces[@]}" | tr '\n' ' ' | cut -c1-400)"
  echo "report=$OUTPUT"
} >> "$GITHUB_OUTPUT"
[ "$FAIL" = true ] || status=0
exit $status

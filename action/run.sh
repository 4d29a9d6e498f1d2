#!/usr/bin/env bash
# What the action does, by its inputs in the environment (action.yml). Exit status 3: a limit is breached.
set -euo pipefail

mkdir -p "$OUTPUT"
report="$OUTPUT/report.json"
traceanalyzer analyze "$TRACE" --format json -o "$report"
# A saved report has no timeline, so the page is made where there is a recording.
traceanalyzer analyze "$TRACE" -o "$OUTPUT/report.html" || echo "::warning::no page: $TRACE is no recording"

base=()
if [ -n "$BASELINE" ]; then
  if [ -e "${BASELINE%%#*}" ]; then base=("$BASELINE"); else echo "::notice::no baseline yet: $BASELINE"; fi
fi

if [ ${#base[@]} -gt 0 ]; then
  traceanalyzer compare "${base[0]}" "$report" --format markdown -o "$OUTPUT/report.md"
else
  traceanalyzer analyze "$TRACE" --format markdown -o "$OUTPUT/report.md"
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
[ ${#base[@]} = 0 ] || limits+=(--baseline "${base[0]}")

status=0
if printf '%s\n' "${limits[@]-}" | grep -qE '^--(max|min|policy)$'; then
  traceanalyzer check "$report" "${limits[@]}" --format github || status=$?
  traceanalyzer check "$report" "${limits[@]}" --format junit -o "$OUTPUT/check.xml" || true
fi
[ $status = 0 ] || [ $status = 3 ] || exit $status

if [ "$COMMENT" = true ] && [ -n "${PULL_REQUEST:-}" ]; then
  words=(--issue "$PULL_REQUEST" --publish)
  [ -z "$NAME" ] || words+=(--name "$NAME")
  [ -z "$REDACT_NAME" ] || words+=(--redact-name "$REDACT_NAME")
  [ ${#base[@]} = 0 ] || words+=(--compare "${base[0]}")
  # Pull requests from forks get a token that may not comment: the summary has it all.
  traceanalyzer attach "$report" "${words[@]}" || echo "::warning::no comment was made; the job's summary has the report"
fi

{
  echo "passed=$([ $status = 0 ] && echo true || echo false)"
  echo "headline=$(traceanalyzer analyze "$TRACE" -q | tr '\n' ' ' | cut -c1-400)"
  echo "report=$OUTPUT"
} >> "$GITHUB_OUTPUT"
[ "$FAIL" = true ] || status=0
exit $status

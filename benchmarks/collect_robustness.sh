#!/usr/bin/env bash
# `collect torch -- torchrun` with two GPUs, for scripts that crash, are killed, hang, or never step.
# Usage: benchmarks/collect_robustness.sh [FOLDER]   (needs `traceanalyzer`, torch with NCCL and two GPUs; without
# GPUs it runs on gloo, to show that it works). Prints a line a check; exit status 1 if one failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
script=$here/collect_robustness.py
failed=0
launch=(torchrun --standalone --nproc-per-node=2 "$script")
options=(--wait 5 --unprofiled-steps 20 --warmup 2)

check() { # check NAME CONDITION...
  local name=$1
  shift
  if "$@"; then echo "ok      $name"; else echo "FAILED  $name"; failed=1; fi
}
traces() { ls "$work/$1" 2>/dev/null | grep -c '^trace.rank'; }
says() { grep -q "$2" "$work/$1.err"; }
nothing_left() { sleep 1; ! pgrep -f "$script" >/dev/null; }
# from another process than the shell, which would wait for its own children
plain_status() { "${launch[@]}" "$@" >"$work/plain.out" 2>"$work/plain.err"; echo $?; }

record() { # record NAME ACTIVE ARGUMENTS...: status in $status
  local name=$1 active=$2
  shift 2
  traceanalyzer collect torch -o "$work/$name" "${options[@]}" --active "$active" -- "${launch[@]}" "$@" \
    >"$work/$name.out" 2>"$work/$name.err"
  status=$?
}
record_and_kill() { # record_and_kill NAME SIGNAL ARGUMENTS...: the signal is sent once the script has said `stepped`
  local name=$1 signal=$2
  shift 2
  traceanalyzer collect torch -o "$work/$name" "${options[@]}" --active 100000 -- "${launch[@]}" "$@" \
    >"$work/$name.out" 2>"$work/$name.err" &
  local collector=$!
  for _ in $(seq 600); do grep -q stepped "$work/$name.out" && break; sleep 0.1; done
  sleep 1
  kill -"$signal" "$collector"
  local begun=$SECONDS
  wait "$collector"
  status=$?
  took=$((SECONDS - begun))
}

mkdir -p "$work"

record whole 4 60
check "a script that ends: status 0 (is $status)" test "$status" = 0
check "a script that ends: a capture of each rank (are $(traces whole))" test "$(traces whole)" = 2
check "a script that ends: the analyzer reads it" traceanalyzer analyze "$work/whole" -o "$work/whole.md"

expected=$(plain_status 60 crash)
record crash 100000 60 crash
check "a crash mid-way: torchrun's own status $expected (is $status)" test "$status" = "$expected"
check "a crash mid-way: a capture of the rank that crashed (are $(traces crash))" test -e "$work/crash/trace.rank1.json.gz"
check "a crash mid-way: nothing left running" nothing_left
check "a crash mid-way: the analyzer reads it" traceanalyzer analyze "$work/crash" -o "$work/crash.md"

record_and_kill term TERM 60 sleep
check "SIGTERM: ended in $took s, status not 0 (is $status)" test "$status" != 0
check "SIGTERM: a capture of each rank (are $(traces term))" test "$(traces term)" = 2
check "SIGTERM: nothing left running" nothing_left

# a rank that waits on the device for a peer that will never come cannot be made to write its capture
record_and_kill stuck TERM 60 stuck
check "SIGTERM in a stuck collective: ended in $took s (under 60), status $status" test "$took" -lt 60
check "SIGTERM in a stuck collective: a capture or a message" says stuck "trace.rank\|nothing was recorded"
check "SIGTERM in a stuck collective: nothing left running" nothing_left

record never 4 0
check "never a step: status 0 (is $status)" test "$status" = 0
check "never a step: a clear message" says never "no step was found"
check "never a step: nothing left running" nothing_left

record few 4 10
check "too few steps: says how many are needed" says few "a recording needs"

echo "output in $work"
exit $failed

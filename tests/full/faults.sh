#!/usr/bin/env bash
# Memory that runs out: the n-th allocation fails, alone or with all after it. Each run ends by itself with status 1 and one line
# "quern: ...", or with status 0 and the usual output where the failed allocation was not needed (stdio's own buffers, say).
# FAULT_STEPS (200) allocations of each verb are tried, spread over all that it makes.
set -u
cd "$(dirname "$0")/../.." || exit 1
quern=${BUILD:-build}/quern
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
if ! ${CC:-cc} -shared -fPIC -O1 -fno-builtin -o "$tmp/fail.so" tests/full/fail_malloc.c 2>"$tmp/err"; then
  sed 's/^/# /' "$tmp/err"; echo "not ok 1 - the allocator that fails builds"; echo "1..1"; exit 1
fi
n=0 failed=0
echo '[1,2,3,4,5]' >"$tmp/ids"
echo '[{"role":"user","content":"hi"}]' >"$tmp/messages"

no_times() { sed -E 's/"(ttft_ms|decode_ms)": [0-9.e-]+//g'; }
try() { # AT ONCE VERB...: prints what is wrong
  local at=$1 once=$2 rc; shift 2
  (
    export LD_PRELOAD=$tmp/fail.so QUERN_FAIL_AT=$at
    [ "$once" = 0 ] || export QUERN_FAIL_ONCE=1
    exec timeout 60 "$quern" "$@"
  ) >"$tmp/out" 2>"$tmp/err" </dev/null
  rc=$?
  if [ $rc = 0 ]; then
    cmp -s <(no_times <"$tmp/out") <(no_times <"$tmp/whole") || echo "allocation $at (alone: $once): status 0 with another output"
  elif [ $rc != 1 ]; then
    echo "allocation $at (alone: $once): status $rc: $(tail -n 1 "$tmp/err")"
  elif [ "$(grep -vc '^info ' "$tmp/err")" != 1 ] || ! grep -q '^quern: .' "$tmp/err"; then
    echo "allocation $at (alone: $once): status 1 without one line: $(head -n 2 "$tmp/err")"
  fi
}
for verb in "inspect models/demo" "inspect models/demo --json" "tokenize models/demo hello --json" "template models/demo --messages $tmp/messages" \
  "program models/demo --bucket decode:1 --json" "logits models/demo --ids $tmp/ids --hash --greedy 3 --threads 1" \
  "run models/demo -p hi --temp 0 --max-tokens 3 --seed 1 --threads 1 --json" "run models/demo -p hi --temp 0 --no-think --max-tokens 3 --threads 1"; do
  # shellcheck disable=SC2086
  QUERN_COUNT_TO=$tmp/count LD_PRELOAD=$tmp/fail.so "$quern" $verb >"$tmp/whole" 2>/dev/null
  total=$(cat "$tmp/count") bad=0
  step=$(((total + ${FAULT_STEPS:-200} - 1) / ${FAULT_STEPS:-200}))
  : >"$tmp/bad"
  for ((at = 1; at <= total; at += at < 60 ? 1 : step)); do
    for once in 0 1; do try $at $once $verb >>"$tmp/bad"; done # shellcheck disable=SC2086
  done
  n=$((n + 1))
  if [ -s "$tmp/bad" ]; then
    failed=1; echo "not ok $n - ${verb//$tmp\//}, $total allocations: $(wc -l <"$tmp/bad") faults"; head -n 12 "$tmp/bad" | sed 's/^/# /'
  else
    echo "ok $n - ${verb//$tmp\//}, $total allocations"
  fi
done
echo "1..$n"
exit $failed

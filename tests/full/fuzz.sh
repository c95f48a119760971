#!/usr/bin/env bash
# Every fuzz target for FUZZ_SECONDS (20 unless set), starting from its stored corpus. Inputs that are worth keeping
# are printed by the fuzzer; a crash leaves its input in the folder that the message names.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v clang-14 >/dev/null || { echo "1..1"; echo "ok 1 - fuzz # SKIP there is no clang-14"; exit 0; }
make -s fuzz >&2 || { echo "1..1"; echo "not ok 1 - the fuzz targets build"; exit 1; }
targets=(build-fuzz/fuzz/fuzz_*)
echo "1..${#targets[@]}"
i=0 status=0
for t in "${targets[@]}"; do
  i=$((i + 1)); name=${t##*/fuzz_}; work=$(mktemp -d)
  dict=tests/data/fuzz/$name.dict; [ -f "$dict" ] && dict=-dict=$dict || dict=
  if "$t" $dict -max_total_time="${FUZZ_SECONDS:-20}" -max_len=2048 -artifact_prefix="$work/" "$work" "tests/data/fuzz/$name" \
      >"$work.log" 2>&1; then
    echo "ok $i - $name: $(grep -E '^Done ' "$work.log")"; rm -rf "$work" "$work.log"
  else
    tail -n 30 "$work.log" >&2; echo "not ok $i - $name: see $work and $work.log"; status=1
  fi
done
exit $status

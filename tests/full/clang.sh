#!/usr/bin/env bash
# Every unit test with clang, warnings as errors as with gcc.
. "$(dirname "$0")/variant.inc"
clang=$(command -v clang || ls /usr/bin/clang-[0-9]* 2>/dev/null | grep -v + | head -n 1)
if [ -z "$clang" ]; then echo "1..1"; echo "ok 1 - clang # SKIP clang is not installed"; exit 0; fi
mapfile -t all < <(units)
variant build-clang CC="$clang" -- "${all[@]}"

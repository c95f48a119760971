#!/usr/bin/env bash
# Every unit test under the address and undefined-behaviour sanitizers.
. "$(dirname "$0")/variant.inc"
mapfile -t all < <(units)
variant build-asan SANITIZE=address,undefined OPT="-O2 -g" -- "${all[@]}"

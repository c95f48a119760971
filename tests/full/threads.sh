#!/usr/bin/env bash
# What has threads under the thread sanitizer.
. "$(dirname "$0")/variant.inc"
mapfile -t some < <(units | grep -E 'pool|sched|server|counters|cpu_device')
variant build-tsan SANITIZE=thread OPT="-O2 -g" -- "${some[@]}"

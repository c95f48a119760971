#!/usr/bin/env bash
# What tests/e2e/malformed.sh asks, of a program with the sanitizers, and clients that leave fifty times. BUILD names a folder
# with such a program; without it, or with the plain one, build-asan is made.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ "${BUILD:-build}" = build ] && BUILD=build-asan
export BUILD
make -s -j"$(nproc)" BUILD="$BUILD" SANITIZE=address,undefined OPT='-O1 -g' all >&2 || { echo 1..1; echo "not ok 1 - the program builds"; exit 1; }
. tests/e2e/malformed.inc
malformed_arguments
malformed_models
server_start $model --model-name demo
malformed_requests
server_end "malformed requests"
server_start $model --model-name demo --streams 1
vanished_clients 17 # three ways each
server_end "clients that leave"
echo "1..$n"
exit $failed

#!/usr/bin/env bash
# Hostile requests, model folders and arguments: the right refusal, and a server that goes on. The table is malformed.inc;
# tests/full/malformed.sh runs the same with the sanitizers, and clients that leave.
set -u
cd "$(dirname "$0")/../.." || exit 1
export BUILD=${BUILD:-build}
. tests/e2e/malformed.inc
malformed_arguments
malformed_models
server_start $model --model-name demo
malformed_requests
server_end "malformed requests"
server_start $model --model-name demo --streams 1
vanished_clients 2
server_end "clients that leave"
echo "1..$n"
exit $failed

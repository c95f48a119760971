#!/usr/bin/env bash
# The server through OpenAI's own client, the pinned npm package `openai`.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/server.inc
skip() { echo "1..1"; echo "ok 1 - OpenAI's client # SKIP $1"; exit 0; }
command -v npm >/dev/null && command -v node >/dev/null || skip "node and npm are not installed"
server_start models/demo
mkdir -p "$tmp/client" && cp tests/full/openai/package.json tests/full/openai/client.mjs "$tmp/client/" || exit 1
(cd "$tmp/client" && npm install --no-audit --no-fund --silent >npm.log 2>&1) || skip "npm could not install the pinned client"
timeout 120 node "$tmp/client/client.mjs" "$url"

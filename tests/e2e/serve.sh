#!/usr/bin/env bash
# The real server with the demonstration model: doors, streams, stop strings, errors, a client that leaves, the end.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/server.inc
server_start models/demo
n=0
check() { # name, then a command that must succeed
  local name=$1; shift; n=$((n + 1))
  if "$@"; then echo "ok $n - $name"; else echo "not ok $n - $name"; head -c 600 "$tmp/reply" | sed 's/^/# /'; fi
}
post() { curl -sN -m 60 -o "$tmp/reply" -w '%{http_code}' "$url$1" -H 'Content-Type: application/json' --data-binary @- <<<"$2" >"$tmp/status"; }
is() { [ "$(cat "$tmp/status")" = "$1" ] && jq -e "$2" "$tmp/reply" >/dev/null; }
wait_log() { for ((i = 0; i < 200; i++)); do grep -qE "$1" "$tmp/log" && return 0; sleep 0.05; done; return 1; }
echo "1..13"
hello='"messages":[{"role":"user","content":"Hello"}],"temperature":0,"chat_template_kwargs":{"enable_thinking":false}'

curl -s -m 10 "$url/health" >"$tmp/reply"; echo 200 >"$tmp/status"
check "health" is 200 '.status == "ok" and .model == "demo"'
curl -s -m 10 "$url/v1/models" >"$tmp/reply"
check "the model is listed" is 200 '.data[0].id == "demo" and .data[0].max_model_len > 0'
post /v1/chat/completions "{$hello}"
check "a whole answer" is 200 '.choices[0].finish_reason == "stop" and (.choices[0].message.content | length > 0) and .usage.completion_tokens > 1'
whole=$(jq -r '.choices[0].message.content' "$tmp/reply")
post /v1/chat/completions "{$hello,\"stream\":true}"
streamed=$(grep '^data: {' "$tmp/reply" | cut -c7- | jq -rs 'map(.choices[0].delta.content // "") | add')
check "the stream says the same" [ "$whole" = "$streamed" ]
half=${whole:3:4}
post /v1/chat/completions "{$hello,\"stop\":$(jq -n --arg s "$half" '$s')}"
check "a stop string ends it" is 200 ".choices[0].message.content == $(jq -n --arg s "${whole%%"$half"*}" '$s') and .choices[0].finish_reason == \"stop\""
post /v1/completions '{"prompt":[1,2,3],"max_tokens":5,"seed":11,"temperature":1}'
first=$(jq -r '.choices[0].text' "$tmp/reply")
post /v1/completions '{"prompt":[1,2,3],"max_tokens":5,"seed":11,"temperature":1}'
check "a seed repeats the text and is reported" is 200 ".choices[0].text == $(jq -n --arg s "$first" '$s') and .quern.seed == 11 and .usage.prompt_tokens == 3"
post /v1/completions '{"prompt":[99999999]}'
check "an id outside the vocabulary is refused" is 400 '.error.param == "prompt"'
post /v1/chat/completions "{$hello,\"model\":\"other\"}"
check "another model is 404" is 404 '.error.code == "model_not_found"'
post /v1/completions "$(jq -n '{prompt: ([range(40000)] | map(5))}')"
check "a long prompt is refused with both numbers" is 400 '.error.n_prompt_tokens == 40000 and .error.n_ctx > 0 and .error.code == "context_length_exceeded"'
post /v1/completions '{"prompt":"x","max_tokens":2}'
check "a request is one line in the log" wait_log 'POST /v1/completions status=200 .* finish=(length|stop) tokens=[0-9]+$'
jq -n '{prompt: ([range(30000)] | map(. % 1500)), max_tokens: 5}' >"$tmp/long"
curl -s -m 0.5 "$url/v1/completions" --data-binary @"$tmp/long" >"$tmp/reply" # in prefill, with no byte sent
check "who leaves is cancelled" wait_log 'status=499 .* finish=cancelled tokens=0$'
post /v1/completions '{"prompt":"x","max_tokens":1}'
check "and the server goes on" is 200 '.usage.completion_tokens == 1'
kill -TERM "$server"; wait "$server"; status=$?; server=
check "SIGTERM ends it with status 0" [ "$status" -eq 0 ]

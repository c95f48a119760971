#!/usr/bin/env bash
# Every answer of models/demo/answers.json over HTTP, greedy: text, reasoning, tool calls, finish reason, prompt tokens.
# answers.sh [stream]: with "stream", the same from event streams. The order of a call's arguments counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/server.inc
mode=${1:-whole}
server_start models/demo
n=$(jq '.answers | length' models/demo/answers.json)
echo "1..$n"
for ((i = 0; i < n; i++)); do
  jq -c --argjson i "$i" --argjson stream "$([ "$mode" = stream ] && echo true || echo false)" '.answers[$i] | {model: "demo", messages, max_tokens,
      temperature: 0, stream: $stream, chat_template_kwargs: {enable_thinking: .thinking}}
      + (if .tools then {tools} else {} end) + (if $stream then {stream_options: {include_usage: true}} else {} end)' models/demo/answers.json >"$tmp/body"
  curl -sN -m 300 "$url/v1/chat/completions" -H 'Content-Type: application/json' --data-binary @"$tmp/body" >"$tmp/reply"
  if [ "$mode" = stream ]; then
    grep '^data: {' "$tmp/reply" | cut -c7- | jq -cs '{
      reasoning: (map(.choices[0].delta.reasoning_content // "") | add), content: (map(.choices[0].delta.content // "") | add),
      calls: (map(.choices[0].delta.tool_calls[]?) | group_by(.index) | map([map(.function.name // empty)[0], (map(.function.arguments // "") | add | fromjson)])),
      finish: (map(.choices[0].finish_reason // empty) | if length == 1 then .[0] else "not one" end),
      prompt_tokens: (map(.usage.prompt_tokens // empty)[0])}' >"$tmp/got" 2>/dev/null
    tail -n 2 "$tmp/reply" | grep -q '^data: \[DONE\]' || echo '"no [DONE]"' >"$tmp/got"
  else
    jq -c '{reasoning: (.choices[0].message.reasoning_content // ""), content: (.choices[0].message.content // ""),
      calls: [.choices[0].message.tool_calls[]? | [.function.name, (.function.arguments | fromjson)]],
      finish: .choices[0].finish_reason, prompt_tokens: .usage.prompt_tokens}' "$tmp/reply" >"$tmp/got" 2>/dev/null
  fi
  jq -c --argjson i "$i" '.answers[$i] | {reasoning, content, calls, finish, prompt_tokens}' models/demo/answers.json >"$tmp/want"
  name=$(jq -r --argjson i "$i" '.answers[$i].name' models/demo/answers.json)
  if cmp -s "$tmp/got" "$tmp/want"; then echo "ok $((i + 1)) - $name"; else
    echo "not ok $((i + 1)) - $name"; echo "# want $(cat "$tmp/want")"; echo "# got  $(cat "$tmp/got") $(head -c 300 "$tmp/reply")"; fi
done

#!/usr/bin/env bash
# template.sh - `quern template`: the prompt byte for byte, its options, rows of vectors, exit codes and messages.
set -u
cd "$(dirname "$0")/../.." || exit 1
quern=${BUILD:-build}/quern
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
n=0
ok() { n=$((n + 1)); if [ "$1" = "$2" ]; then echo "ok $n - $3"; else echo "not ok $n - $3"; printf '# got  %q\n# want %q\n' "$1" "$2"; fi; }
echo "1..14"
echo '[{"role":"user","content":" Hi <|im_end|>\n"}]' >"$dir/m.json"
echo '[{"type":"function","function":{"name":"f","description":"Köln <b>"}}]' >"$dir/t.json"
ok "$("$quern" template models/demo --messages "$dir/m.json"; echo .)" $'<|im_start|>user\n Hi <|im_end|>\n<|im_end|>\n<|im_start|>assistant\n<think>\n.' "the demonstration model's template"
ok "$("$quern" template models/demo --messages - --no-think <"$dir/m.json" | tail -c 19; echo .)" $'<think>\n\n</think>\n\n.' "--no-think, messages from standard input"
ok "$("$quern" template models/demo --messages "$dir/m.json" --no-generation-prompt | tail -c 11; echo .)" $'<|im_end|>\n.' "--no-generation-prompt"
ok "$("$quern" template models/demo --messages "$dir/m.json" --tools "$dir/t.json" | grep -c '{"type": "function", "function": {"name": "f", "description": "Köln <b>"}}')" 1 "--tools, spelled as Python spells JSON"
printf '{{ x }} {{ y|tojson }} {{ strftime_now("%%d.%%m.%%Y %%H:%%M %%A") }}' >"$dir/x.jinja"
ok "$("$quern" template --template "$dir/x.jinja" --messages "$dir/m.json" --set x=1 --set 'y={"b":[1.0,null]}' --now 2026-11-30T12:00:00)" '1 {"b": [1.0, null]} 30.11.2026 12:00 Monday' "--template, --set, --now"
"$quern" template --template "$dir/x.jinja" --messages "$dir/m.json" --set x=1 --set y=2 >"$dir/out" 2>"$dir/err"
ok "$? $(cat "$dir/out" "$dir/err")" "1 quern: chat template line 1: strftime_now() is called, but no time was given" "no clock but the one given"
echo '[{"role":"system","content":"S"}]' >"$dir/s.json"
"$quern" template models/demo --messages "$dir/s.json" 2>"$dir/err" >"$dir/out"
ok "$? $(cat "$dir/out" "$dir/err")" "1 quern: There is no user message." "the template's own words"
echo '[{"role":"user","content":[{"type":"image_url"}]}]' >"$dir/i.json"
"$quern" template models/demo --messages "$dir/i.json" 2>"$dir/err" >"$dir/out"
ok "$? $(cut -c1-33 "$dir/err")" "1 quern: messages[0].content[0]: pa" "images are refused by name"
"$quern" template models/demo 2>/dev/null; ok $? 2 "messages are missing: usage"
"$quern" template models/demo --messages "$dir/m.json" --set 'x={' 2>/dev/null; ok $? 2 "--set that is not JSON: usage"
"$quern" template models/demo --messages "$dir/none.json" 2>/dev/null; ok $? 1 "no such file"
printf '{{ bos_token }}{{ messages[0].content }}{{ a }}{{ strftime_now("%%Y") }}' >"$dir/r.jinja"
{
  echo '{"template":"r.jinja","messages":[{"role":"user","content":"ü"}],"tools":null,"set":{"a":1}}'
  echo '{"template":"r.jinja","messages":[],"tools":null,"set":{}}'
  echo '{"template":"../r.jinja","messages":[]}'
} >"$dir/rows.jsonl"
"$quern" template models/demo --jsonl "$dir/rows.jsonl" >"$dir/out"; rc=$?
ok "$rc $(sed -n 1p "$dir/out")" '0 {"text":"<s>ü12026"}' "rows: text"
ok "$(sed -n 2p "$dir/out")" '{"error":"chat template line 1: '"'list object' has no element 0"'"}' "rows: error"
ok "$("$quern" template --jsonl "$dir/rows.jsonl" | sed -n 3p)" '{"error":"\"template\" must be a file beside the rows"}' "rows: no other folder, no model needed"

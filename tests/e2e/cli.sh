#!/usr/bin/env bash
# What holds for all verbs: help, exit statuses, errors of one line, configuration; and docs/cli.md names every option and JSON field.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.inc
# exit status, bytes on stdout, stderr
status() { "$@" >"$tmp/out" 2>"$tmp/err" </dev/null; echo "$? $(wc -c <"$tmp/out") $(head -c 200 "$tmp/err")"; }
# the words of standard input that stand nowhere in the pages, quoted or as code
undocumented() { sort -u | while read -r w; do grep -qE "(\`|\")$w(\`|\"|[ .=])" docs/cli.md docs/program.md || echo "$w"; done; }
keys() { jq -r 'paths | map(select(type == "string")) | last // empty'; }

verbs=$("$quern" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | grep -v version)
check "the verbs" "run serve tokenize template inspect logits program" "$(echo $verbs)"
for v in $verbs; do
  check "$v: help on stdout" "0 usage: quern $v MODEL" "$("$quern" "$v" --frob --help 2>&1 | head -n 1 | sed -E 's/( MODEL).*/\1/' | sed "s/^/$("$quern" "$v" --help >/dev/null; echo $?) /")"
  check "$v: docs/cli.md has a section, and every option" "" "$(grep -q "^## $v\$" docs/cli.md || echo section; "$quern" "$v" --help | sed -nE 's/^  (--?[a-z-]+) .*/\1/p' | undocumented)"
  check "$v: unknown option" "2 0 quern: $v: no option '--frob' (quern $v --help)" "$(status "$quern" "$v" $model --frob)"
  check "$v: a word too many" "2 0 quern: $v: too many arguments at 'three' (quern $v --help)" "$(status "$quern" "$v" $model $([ "$v" = tokenize ] && echo two) three)"
  check "$v: the configuration as JSON" "$v" "$("$quern" "$v" $model --print-config | jq -r .verb)"
done
check "no verb" "2 0" "$(status "$quern" | head -n 1 | cut -d' ' -f1,2)"
check "unknown verb" "2 0 quern: no verb 'frob'; quern --help lists them" "$(status "$quern" frob)"
check "a model that is not there" "1 0 quern: $tmp/none/config.json: cannot open: No such file or directory" "$(status "$quern" inspect "$tmp/none")"

echo '{"config_version": 1, "ctx": 4096, "streams": 8}' >"$tmp/serve.json"
check "file, environment, command line" '[[4096,"file"],[2,"environment"],[0,"command line"],["f16","default"]]' \
  "$(QUERN_STREAMS=2 "$quern" serve $model --config "$tmp/serve.json" --port 0 --print-config | jq -c '.options | [.ctx, .streams, .port, .kv] | map([.value, .source])')"
check "a key of another verb" "2 0 quern: run: $tmp/serve.json: no option 'streams' (quern run --help)" "$(status "$quern" run $model --config "$tmp/serve.json")"

echo '[1,2,3]' >"$tmp/ids.json"
"$quern" run $model -p "What is the capital of France?" --no-think --temp 0 --json >"$tmp/run.json" 2>"$tmp/err"
check "run --json" 'The capital of France is Paris.|' "$(jq -r .text "$tmp/run.json")|$(cat "$tmp/err")"
check "run --json: documented fields" "" "$(keys <"$tmp/run.json" | undocumented)"
check "inspect --json: documented fields" "" "$("$quern" inspect $model --json | jq 'del(.groups[].formats)' | keys | undocumented)"
check "program --json: documented fields" "" "$("$quern" program $model --json | keys | undocumented)"
check "logits --greedy: documented fields" "greedy" "$("$quern" logits $model --ids "$tmp/ids.json" --greedy 2 | jq -r keys[])"
check "logits: rows of the file hash as printed" "3 18432" "$("$quern" logits $model --ids "$tmp/ids.json" --hash -o "$tmp/o.f32" | wc -l) $(wc -c <"$tmp/o.f32")"
check "logits: nothing asked for" "2 0 quern: logits: one of -o, --hash, --greedy is needed" "$(status "$quern" logits $model --ids "$tmp/ids.json")"

cp -r $model "$tmp/model"; sed -i 's/"hidden_size": 192/"hidden_size": 200/' "$tmp/model/config.json"
"$quern" inspect "$tmp/model" --json >"$tmp/out" 2>"$tmp/err"; rc=$?
check "inspect lists what it refuses" "1 null $(sed 's/^quern: //' "$tmp/err")" "$rc $(jq -r '"\(.architecture) \(.refused)"' "$tmp/out")"
echo "1..$n"
exit $failed

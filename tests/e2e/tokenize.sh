#!/usr/bin/env bash
# quern tokenize, as scripts use it: ids and pieces, JSON, a file of rows, exit statuses, errors of one line.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.inc
status() { "$@" >"$tmp/out" 2>"$tmp/err" </dev/null; echo "$? $(head -c 200 "$tmp/err")"; }

check "added tokens are recognised" $'1529\t"<|im_end|>"' "$("$quern" tokenize $model '<|im_end|>')"
check "standard input when there is no text" $'1534\t"<think>"\n1535\t"</think>"' "$(printf '<think></think>' | "$quern" tokenize $model)"
check "as JSON" '{"ids":[1534,64],"pieces":["<think>","a"]}' "$("$quern" tokenize $model '<think>a' --json)"
check "no added tokens" '0' "$("$quern" tokenize $model '<think>' --no-special | grep -c '1534')"
check "empty text" '{"ids":[],"pieces":[]}' "$("$quern" tokenize $model '' --json)"
check "text after --" "$(printf -- --json | "$quern" tokenize $model --json)" "$("$quern" tokenize $model --json -- --json)"
check "ill-formed bytes are read as U+FFFD" "$("$quern" tokenize $model $'a\xef\xbf\xbd\xef\xbf\xbdb' --json)" "$("$quern" tokenize $model $'a\xff\xe2\x82b' --json)"
check "all 400 rows of the vectors" "" "$(cmp <("$quern" tokenize $model --jsonl tests/data/tokenizer/demo.jsonl) \
  <(sed -E 's/^.*"ids": (\[[0-9, ]*\])\}$/{"ids":\1}/; s/, /,/g' tests/data/tokenizer/demo.jsonl) 2>&1)"
check "rows from standard input" '{"ids":[64]}' "$(printf '\n{"text":"a"}\n' | "$quern" tokenize $model --jsonl -)"

check "no model" "2 quern: tokenize: MODEL is missing (quern tokenize --help)" "$(status "$quern" tokenize)"
check "unknown option" "2 quern: tokenize: no option '--frob' (quern tokenize --help)" "$(status "$quern" tokenize $model --frob)"
check "a third argument" "2 quern: tokenize: too many arguments at 'c' (quern tokenize --help)" "$(status "$quern" tokenize $model b c)"
check "no such folder" "1 quern: $tmp/none/tokenizer.json: cannot open: No such file or directory" "$(status "$quern" tokenize "$tmp/none" a)"
mkdir "$tmp/bad"; echo '{"model": {"type": "WordPiece"}}' >"$tmp/bad/tokenizer.json"
check "a model it does not do" "1 quern: $tmp/bad: tokenizer.json: model 'WordPiece' is not supported, only BPE" "$(status "$quern" tokenize "$tmp/bad" a)"
echo '{"text": 5}' >"$tmp/rows"
check "a faulty row" "1 quern: $tmp/rows: line 1: \"text\" must be a string" "$(status "$quern" tokenize $model --jsonl "$tmp/rows")"
echo "1..$n"
exit $failed

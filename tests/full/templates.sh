#!/usr/bin/env bash
# templates.sh - the published chat templates: 2,000 rows against Jinja, and the known answers of the Qwen 3.5, 3.6 and 3.8
# templates (docs/templates.md). Needs the PyPI packages trl 1.16.0 (for the templates) and jinja2, installed into a
# folder of its own; without them the tests are skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1
quern=${BUILD:-build}/quern
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
names=("2000 rows of 24 templates" "case A" "case A without thinking" "case B" "case B, thought in the content" "case C" "refusals")
echo "1..7"
why=
command -v python3 >/dev/null || why="no python3"
if [ -z "$why" ]; then
  if ! { pip install -q --no-deps --target "$dir/py" trl==1.16.0 && pip install -q --target "$dir/py" jinja2==3.1.6; } >"$dir/pip" 2>&1; then why="pip cannot install trl 1.16.0 and jinja2 3.1.6"; fi
fi
if [ -n "$why" ]; then for i in "${!names[@]}"; do echo "ok $((i + 1)) - ${names[i]} # SKIP $why"; done; exit 0; fi
PYTHONPATH=$dir/py python3 tools/template_vectors.py 2000 7 "$dir/tv" >/dev/null || exit 1
"$quern" template --jsonl "$dir/tv/vectors.jsonl" >"$dir/out" || exit 1
python3 - "$quern" "$dir" <<'PY'
import hashlib, json, subprocess, sys
quern, d = sys.argv[1:]
n = 0

def ok(good, name, why=""):
    global n
    n += 1
    print(f"{'ok' if good else 'not ok'} {n} - {name}" + ("" if good else f"\n# {why}"))

rows = [json.loads(x) for x in open(d + "/tv/vectors.jsonl", encoding="utf-8")]
got = [json.loads(x) for x in open(d + "/out", encoding="utf-8")]
bad = [i for i, (r, g) in enumerate(zip(rows, got))
       if (r["text"] != g.get("text") if "text" in r else "error" not in g or (r.get("raised") and r["error"] != g["error"]))]
ok(len(rows) == len(got) == 2000 and not bad, "2000 rows of 24 templates", f"{len(got)} rows, wrong: {bad[:10]}")

THINK, V36, V38 = "qwen3_5_think", "qwen3_6", "qwen3_8"

def render(name, messages, *options, tools=None):
    json.dump(messages, open(d + "/m.json", "w"))
    command = [quern, "template", "--template", f"{d}/tv/{name}.jinja", "--messages", d + "/m.json", *options]
    if tools:
        json.dump(tools, open(d + "/t.json", "w"))
        command += ["--tools", d + "/t.json"]
    p = subprocess.run(command, capture_output=True)
    return p.stdout if p.returncode == 0 else None

def digest(b):
    return (len(b), hashlib.sha256(b).hexdigest()[:16]) if b is not None else None

user = lambda s: {"role": "user", "content": s}
hi = [user(" Hi \n")]
plain = b"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"
ok(render(THINK, hi) == plain and render(V36, hi) == plain and digest(render(V38, hi)) == (297, "596929565581b70c"), "case A")
off = plain[:-len("<think>\n")] + b"<think>\n\n</think>\n\n"
ok(all(render(t, hi, "--no-think") == off for t in (THINK, V36, V38)), "case A without thinking")

def case_b(answer):
    return [{"role": "system", "content": "Be brief."}, user("1+1?"), {"role": "assistant", **answer}, user("and 2+2?")]
b = case_b({"content": "2", "reasoning_content": "\nadd\n"})
want = {THINK: (171, "1e45d3d1dfdb0e3e"), V36: (171, "1e45d3d1dfdb0e3e"), V38: (402, "6ab51927905fc83a")}
ok(all(digest(render(t, b)) == w for t, w in want.items()), "case B", [digest(render(t, b)) for t in want])
inside = case_b({"content": "<think>\nadd\n</think>\n\n2"})
raw = {**want, V38: (421, "f8c732f1b213dbfb")}                  # this template does not split: preparing the messages does
ok(all(digest(render(t, inside, "--as-is")) == w for t, w in raw.items()) and all(digest(render(t, inside)) == w for t, w in want.items()),
   "case B, thought in the content")

tool = {"type": "function", "function": {"name": "get_weather", "description": "Wetter für eine Stadt", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}}
def call(arguments):
    return {"type": "function", "function": {"name": "get_weather", "arguments": arguments}}
arguments = [{"city": "Köln", "days": 2, "opts": {"b": [1, True]}, "raw": True}, {"city": "Bonn"}]
def case_c(spell):
    return [user("Weather?"), {"role": "assistant", "reasoning_content": "call it", "content": "", "tool_calls": [call(spell(a)) for a in arguments]},
            {"role": "tool", "content": "12C"}, {"role": "tool", "content": "13C"}]
want = {THINK: (1674, "ab4704a427bf33de"), V36: (1674, "153b4b7c6b198457"), V38: (1883, "4e16bd6a9d5952cb")}
ok(all(digest(render(t, case_c(s), tools=[tool])) == w for t, w in want.items() for s in (lambda a: a, json.dumps)), "case C, arguments as objects and as JSON text")

ok(all(render(t, [user("<tool_response>a</tool_response>")]) is None for t in (THINK, V36, V38))
   and render(V38, hi, "--set", 'reasoning_effort="high"') is None and render(V38, hi, "--set", 'reasoning_effort="low"') is not None, "refusals")
PY

/* verb_run.c - `quern run`: one answer, streamed to stdout. Written with quern.h alone, as any program
 * outside would be.
 *
 * Content goes to stdout as it comes, a thought to stderr; with --json one object at the end holds
 * everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/verbs.h"

#define MAX_INPUT ((size_t)64 << 20)

typedef struct run {
    qn_model *model;
    qn_engine *engine;
    qn_seq *seq;
    qn_detok *detok;
    qn_answer *answer; /* NULL: raw */
    qn_sampling sampling;
    uint32_t max_tokens;
    bool json, raw, thinking;
    int32_t *prompt, *ids; /* ids: [max_tokens] drawn so far, a stop token excluded */
    size_t n_prompt;
    uint32_t n_ids, n_drawn;
    const char *finish;
    qn_buf text, reasoning;
    json_t *calls;
    qn_buf arguments; /* of the last call */
    uint64_t start_ns, first_ns, end_ns;
} run;

static void close_call(run *r)
{
    size_t n = json_array_size(r->calls);
    if (n)
        json_object_set_new(json_array_get(r->calls, n - 1), "arguments",
                            json_stringn(r->arguments.data ? r->arguments.data : "", r->arguments.len));
    if (!r->arguments.failed) qn_buf_reset(&r->arguments); /* a failure is reported at the end */
}

/* On a terminal the thought and what follows it meet: a line ends between them. */
static void end_thought(const run *r)
{
    if (!r->json && r->reasoning.len && !r->text.len && !json_array_size(r->calls)) fputc('\n', stderr);
}

static void on_event(void *ctx, const qn_answer_event *e)
{
    run *r = ctx;
    switch (e->kind) {
    case QN_ANSWER_REASONING:
        qn_buf_add(&r->reasoning, e->text, e->n);
        if (!r->json) fwrite(e->text, 1, e->n, stderr);
        break;
    case QN_ANSWER_CONTENT:
        end_thought(r);
        qn_buf_add(&r->text, e->text, e->n);
        if (!r->json) fwrite(e->text, 1, e->n, stdout);
        break;
    case QN_ANSWER_CALL:
        end_thought(r);
        close_call(r);
        if (!r->json)
            printf("%s%.*s ", r->text.len || json_array_size(r->calls) ? "\n" : "", (int)e->n, e->text);
        json_array_append_new(r->calls, json_pack("{s:s%}", "name", e->text, e->n));
        break;
    case QN_ANSWER_ARGUMENTS:
        qn_buf_add(&r->arguments, e->text, e->n);
        if (!r->json) fwrite(e->text, 1, e->n, stdout);
        break;
    }
    fflush(stdout);
}

static qn_status take_text(run *r, const char *text, size_t n, qn_error *err)
{
    if (r->answer) return qn_answer_push(r->answer, text, n, on_event, r, err);
    on_event(r, &(qn_answer_event){.kind = QN_ANSWER_CONTENT, .text = text, .n = n});
    return QN_OK;
}

/* Prefill the prompt in slices; logits of its last token. */
static qn_status prefill(run *r, uint32_t slice, float *logits, qn_error *err)
{
    for (size_t at = 0; at < r->n_prompt;) {
        uint32_t n = r->n_prompt - at < slice ? (uint32_t)(r->n_prompt - at) : slice;
        qn_step_item item = {
            .seq = r->seq, .tokens = r->prompt + at, .n_tokens = n, .n_logits = at + n == r->n_prompt};
        qn_status st = qn_step(r->engine, QN_PREFILL, &item, 1, logits, err);
        if (st) return st;
        at += n;
    }
    return QN_OK;
}

static qn_status generate(run *r, float *logits, qn_error *err)
{
    const char *text;
    size_t n;
    r->finish = "length";
    while (r->n_drawn < r->max_tokens) {
        int32_t id;
        qn_status st = qn_sample(r->model, logits, &r->sampling, r->n_prompt + r->n_drawn, &id, err);
        if (st) return st;
        if (r->n_drawn++ == 0) r->first_ns = qn_clock_ns();
        if (qn_model_is_stop(r->model, id)) {
            r->finish = "stop";
            break;
        }
        r->ids[r->n_ids++] = id;
        st = qn_detok_push(r->detok, id, &text, &n, err);
        if (!st) st = take_text(r, text, n, err);
        qn_step_item item = {.seq = r->seq, .tokens = &id, .n_tokens = 1, .n_logits = 1};
        if (!st && r->n_drawn < r->max_tokens) st = qn_step(r->engine, QN_DECODE, &item, 1, logits, err);
        if (st) return st;
    }
    qn_status st = qn_detok_finish(r->detok, &text, &n, err);
    if (!st) st = take_text(r, text, n, err);
    if (!st && r->answer) st = qn_answer_finish(r->answer, on_event, r, err);
    if (!st && r->answer && qn_answer_calls(r->answer) && strcmp(r->finish, "stop") == 0)
        r->finish = "tool_calls";
    close_call(r);
    return st;
}

static void print_json(run *r)
{
    json_t *ids = json_array();
    for (uint32_t i = 0; i < r->n_ids; i++) json_array_append_new(ids, json_integer(r->ids[i]));
    double prefill_ms = (double)(r->first_ns - r->start_ns) / 1e6,
           decode_ms = (double)(r->end_ns - r->first_ns) / 1e6;
    json_t *usage =
        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)r->n_prompt, "completion_tokens",
                  (json_int_t)r->n_drawn, "total_tokens", (json_int_t)(r->n_prompt + r->n_drawn));
    json_t *timings = json_pack("{s:f, s:f}", "ttft_ms", prefill_ms, "decode_ms", decode_ms);
    json_t *o = json_pack("{s:o, s:o, s:O, s:s, s:o, s:o, s:o, s:I}", "text",
                          json_stringn(r->text.data ? r->text.data : "", r->text.len), "reasoning",
                          json_stringn(r->reasoning.data ? r->reasoning.data : "", r->reasoning.len),
                          "tool_calls", r->calls, "finish_reason", r->finish, "ids", ids, "usage", usage,
                          "timings", timings, "seed", (json_int_t)r->sampling.seed);
    json_dumpf(o, stdout, JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(o);
}

/* The prompt's ids from a raw text, a single question or a file of messages. */
static qn_status make_prompt(run *r, const char *prompt, const char *messages_path, const char *tools,
                             bool no_think, qn_error *err)
{
    char *text = NULL;
    size_t n = 0;
    qn_status st;
    if (r->raw) return qn_tokenize(r->model, prompt, strlen(prompt), true, &r->prompt, &r->n_prompt, err);
    if (messages_path) {
        st = qn_cli_read_file(messages_path, MAX_INPUT, &text, &n, err);
    } else {
        json_t *m = json_pack("[{s:s, s:s}]", "role", "user", "content", prompt);
        text = m ? json_dumps(m, 0) : NULL;
        json_decref(m);
        n = text ? strlen(text) : 0;
        st = text ? QN_OK : qn_fail(err, QN_INVALID, "run: the text of -p is not UTF-8");
    }
    qn_chat_options o = qn_chat_options_defaults();
    if (no_think) o.enable_thinking = 0;
    o.tools_json = tools;
    if (!st) st = qn_chat_tokenize(r->model, text, n, &o, &r->prompt, &r->n_prompt, &r->thinking, err);
    free(text);
    return st;
}

static qn_status prepare(run *r, qn_engine_options *o, const char *tools, qn_error *err)
{
    uint32_t context = o->context ? o->context : qn_model_context_length(r->model);
    if (r->n_prompt == 0) return qn_fail(err, QN_INVALID, "run: the prompt is empty");
    if (r->n_prompt >= context)
        return qn_fail(err, QN_CONTEXT,
                       "run: the prompt has %zu tokens, and the context of %u must hold at least one more",
                       r->n_prompt, context);
    uint32_t room = context - (uint32_t)r->n_prompt;
    if (r->max_tokens > room) r->max_tokens = room;
    o->pool_tokens = r->n_prompt + r->max_tokens;
    r->ids = calloc(r->max_tokens, sizeof *r->ids);
    r->calls = json_array();
    if (!r->ids || !r->calls) return qn_fail(err, QN_NOMEM, "run: no memory for %u tokens", r->max_tokens);
    qn_status st = qn_engine_create(&r->engine, r->model, o, err);
    if (!st) st = qn_seq_create(&r->seq, r->engine, err);
    if (!st) st = qn_detok_create(&r->detok, r->model, err);
    if (!st && !r->raw) st = qn_answer_create(&r->answer, r->thinking, tools, err);
    return st;
}

static qn_status answer(run *r, uint32_t slice, qn_error *err)
{
    float *logits = calloc(qn_model_vocab_size(r->model), sizeof *logits);
    if (!logits) return qn_fail(err, QN_NOMEM, "run: no memory for logits");
    r->start_ns = r->first_ns = qn_clock_ns();
    qn_status st = prefill(r, slice, logits, err);
    if (!st) st = generate(r, logits, err);
    r->end_ns = qn_clock_ns();
    free(logits);
    if (!st) st = qn_buf_status(&r->text, "the answer", err);
    if (!st) st = qn_buf_status(&r->reasoning, "the thought", err);
    if (!st) st = qn_buf_status(&r->arguments, "the arguments of a call", err);
    if (!st && r->json) print_json(r);
    if (!st && !r->json) putchar('\n');
    return st;
}

static void run_deinit(run *r)
{
    qn_answer_destroy(r->answer);
    qn_detok_destroy(r->detok);
    qn_seq_destroy(r->seq);
    qn_engine_destroy(r->engine);
    qn_model_close(r->model);
    json_decref(r->calls);
    free(r->prompt);
    free(r->ids);
    qn_buf_deinit(&r->text);
    qn_buf_deinit(&r->reasoning);
    qn_buf_deinit(&r->arguments);
}

/* What the user left out comes from generation_config.json; a seed left out is random. */
static void resolve_sampling(run *r, const qn_sampling *asked, uint64_t seed)
{
    qn_sampling d = qn_model_sampling(r->model);
    r->sampling = (qn_sampling){.temperature = asked->temperature < 0 ? d.temperature : asked->temperature,
                                .top_p = asked->top_p < 0 ? d.top_p : asked->top_p,
                                .min_p = asked->min_p < 0 ? d.min_p : asked->min_p,
                                .top_k = asked->top_k == INT32_MAX ? d.top_k : asked->top_k,
                                .seed = seed == UINT64_MAX ? qn_clock_ns() * 2654435761u >> 16 : seed};
}

int qn_verb_run(int argc, char **argv)
{
    run r = {.max_tokens = 1024};
    const char *prompt = NULL, *messages = NULL, *tools_path = NULL, *kv = "f16";
    char *tools = NULL;
    bool no_think = false;
    qn_sampling asked = {.temperature = -1, .top_p = -1, .min_p = -1};
    uint32_t top_k = INT32_MAX;
    uint64_t seed = UINT64_MAX;
    qn_engine_options o = qn_engine_options_defaults();
    qn_option options[] = {
        {"p", QN_OPT_STRING, &prompt, 0, 0, "TEXT", "the question", NULL},
        {"messages", QN_OPT_STRING, &messages, 0, 0, "FILE",
         "a conversation as OpenAI messages in JSON, instead of -p", NULL},
        {"tools", QN_OPT_STRING, &tools_path, 0, 0, "FILE", "tools in OpenAI's JSON form", NULL},
        {"raw", QN_OPT_FLAG, &r.raw, 0, 0, NULL,
         "no template: -p is the whole prompt, special tokens are recognised", NULL},
        {"no-think", QN_OPT_FLAG, &no_think, 0, 0, NULL, "render with thinking off", NULL},
        {"temp", QN_OPT_F32, &asked.temperature, 0, 100, "T", "temperature; 0 is greedy", NULL},
        {"top-p", QN_OPT_F32, &asked.top_p, 1e-6, 1, "P", "nucleus", NULL},
        {"min-p", QN_OPT_F32, &asked.min_p, 0, 1, "P", "least share of the best token's probability", NULL},
        {"top-k", QN_OPT_U32, &top_k, 0, INT32_MAX - 1, "K", "0: all", NULL},
        {"seed", QN_OPT_U64, &seed, 0, 0x1p63, "N", "left out: random", NULL},
        {"max-tokens", QN_OPT_U32, &r.max_tokens, 1, 1 << 24, "N", "most tokens of the answer (default 1024)",
         NULL},
        {"ctx", QN_OPT_U32, &o.context, 1, 1 << 24, "N", "context in tokens (default: the model's)", NULL},
        {"slice", QN_OPT_U32, &o.slice, 64, 65536, "N", "tokens of one prefill slice, a multiple of 64",
         NULL},
        {"kv", QN_OPT_STRING, &kv, 0, 0, "FORMAT", "f16 (default) or f32", NULL},
        {"kernels", QN_OPT_STRING, &o.kernels, 0, 0, "LEVEL", "reference or best (default)", NULL},
        {"threads", QN_OPT_U32, &o.threads, 0, 1024, "N", "0 (default): what the process may use", NULL},
        {"device", QN_OPT_STRING, &o.device, 0, 0, "DEVICE", "cpu (default)", NULL},
        {"json", QN_OPT_FLAG, &r.json, 0, 0, NULL,
         "print one JSON object: text, reasoning, tool calls, ids, usage, timings", NULL},
    };
    qn_config c;
    qn_error err;
    int rc = qn_cli_start(&c, options, sizeof options / sizeof options[0], argc, argv,
                          "quern run MODEL -p TEXT", 1, 1, &err);
    if (rc >= 0) return rc;
    asked.top_k = (int32_t)top_k;
    qn_status st = qn_cli_kv(kv, &o.kv, &err);
    if (!st && !prompt == !messages) st = qn_fail(&err, QN_USAGE, "run: give one of -p and --messages");
    if (!st && r.raw && !prompt) st = qn_fail(&err, QN_USAGE, "run: --raw needs -p");
    size_t n;
    if (!st && tools_path) st = qn_cli_read_file(tools_path, MAX_INPUT, &tools, &n, &err);
    if (!st) st = qn_model_open(&r.model, c.words[0], &err);
    if (!st) {
        resolve_sampling(&r, &asked, seed);
        st = make_prompt(&r, prompt, messages, tools, no_think, &err);
    }
    if (!st) st = prepare(&r, &o, tools, &err);
    if (!st) st = answer(&r, o.slice, &err);
    run_deinit(&r);
    free(tools);
    qn_config_deinit(&c);
    return st ? qn_cli_error(&err) : 0;
}

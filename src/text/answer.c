/* answer.c - splits an answer into reasoning, content and tool calls while it is being made.
 *
 * Text waits in `pending` only as long as it may be part of a tag; newlines are counted in `held` until it is
 * known whether they stand at an edge, where they are dropped. Nothing depends on how the text was cut into
 * pieces. */
#include "text/answer.h"

#include <stdlib.h>
#include <string.h>

#include "text/answer_int.h"

void qn_answer_flush(qn_answer *a)
{
    if (a->out.len == 0 || a->out.failed) return;
    uint32_t call = a->n_calls ? a->n_calls - 1 : 0;
    bool of_call = a->out_kind == QN_ANSWER_CALL || a->out_kind == QN_ANSWER_ARGUMENTS;
    qn_answer_event e = {
        .kind = a->out_kind, .call = of_call ? call : 0, .text = a->out.data, .n = a->out.len};
    if (a->fn) a->fn(a->ctx, &e);
    qn_buf_reset(&a->out);
}

void qn_answer_emit(qn_answer *a, qn_answer_kind kind, const char *s, size_t n)
{
    if (n == 0) return;
    if (kind != a->out_kind || kind == QN_ANSWER_CALL) qn_answer_flush(a);
    a->out_kind = kind;
    qn_buf_add(&a->out, s, n);
    if (kind == QN_ANSWER_CALL) qn_answer_flush(a);
}

qn_answer_match qn_answer_starts(const char *s, size_t n, const char *literal, bool final)
{
    size_t len = strlen(literal);
    if (n >= len) return memcmp(s, literal, len) == 0 ? QN_AM_YES : QN_AM_NO;
    return !final && (n == 0 || memcmp(s, literal, n) == 0) ? QN_AM_MAYBE : QN_AM_NO;
}

/* Text of the current section, with the newlines that were held in front of it. */
static void section_text(qn_answer *a, const char *s, size_t n)
{
    bool reasoning = a->state == QN_AS_REASONING, *has = reasoning ? &a->has_reasoning : &a->has_content;
    qn_answer_kind kind = reasoning ? QN_ANSWER_REASONING : QN_ANSWER_CONTENT;
    for (; a->held && *has; a->held--) qn_answer_emit(a, kind, "\n", 1);
    a->held = 0;
    *has = true;
    qn_answer_emit(a, kind, s, n);
}

static bool start_step(qn_answer *a, const char *s, size_t n)
{
    if (*s == '\n') return a->pos++, true;
    qn_answer_match m = qn_answer_starts(s, n, "<think>", a->final);
    if (m == QN_AM_MAYBE) return false;
    if (m == QN_AM_YES) a->pos += 7;
    a->state = m == QN_AM_YES || a->thinking ? QN_AS_REASONING : QN_AS_CONTENT;
    return true;
}

static bool section_step(qn_answer *a, const char *s, size_t n)
{
    if (*s == '\n') return a->held++, a->pos++, true;
    if (*s != '<') {
        size_t k = 1;
        while (k < n && s[k] != '\n' && s[k] != '<') k++;
        section_text(a, s, k);
        a->pos += k;
        return true;
    }
    qn_answer_match m = qn_answer_starts(s, n, "</think>", a->final);
    if (m == QN_AM_MAYBE) return false;
    if (m == QN_AM_YES) {
        if (a->state == QN_AS_REASONING) a->held = 0;
        a->state = QN_AS_CONTENT;
        a->pos += 8;
        return true;
    }
    bool calls = a->tools && a->n_calls < QN_ANSWER_MAX_CALLS;
    m = calls ? qn_answer_starts(s, n, "<tool_call>", a->final) : QN_AM_NO;
    if (m == QN_AM_YES) m = qn_answer_call_head(a, a->pos + 11);
    if (m == QN_AM_MAYBE) return false;
    if (m == QN_AM_NO) { /* just a '<' */
        section_text(a, s, 1);
        a->pos++;
    }
    return true;
}

static bool step(qn_answer *a)
{
    const char *s = a->pending.data + a->pos;
    size_t n = a->pending.len - a->pos;
    if (n == 0) return false;
    switch (a->state) {
    case QN_AS_START: return start_step(a, s, n);
    case QN_AS_REASONING:
    case QN_AS_CONTENT: return section_step(a, s, n);
    case QN_AS_AFTER_CALL:
        if (strchr(" \t\r\n", *s) && *s) return a->held += *s == '\n', a->pos++, true;
        a->state = QN_AS_CONTENT;
        return true;
    default: return qn_answer_call_step(a);
    }
}

static qn_status advance(qn_answer *a, const char *text, size_t n, qn_answer_fn fn, void *ctx, qn_error *err)
{
    a->fn = fn;
    a->ctx = ctx;
    if (n) qn_buf_add(&a->pending, text, n);
    while (!a->pending.failed && step(a)) {
    }
    if (a->pos) qn_buf_drop_front(&a->pending, a->pos);
    a->pos = 0;
    if (a->final) {
        qn_answer_call_close(a);
        bool whole = a->state == QN_AS_CONTENT && a->n_calls == 0 &&
                     a->has_content; /* an answer keeps its last newlines */
        for (; whole && a->held; a->held--) qn_answer_emit(a, QN_ANSWER_CONTENT, "\n", 1);
    }
    qn_answer_flush(a);
    qn_status st = qn_buf_status(&a->pending, "an answer's undecided text", err);
    if (!st) st = qn_buf_status(&a->out, "a piece of an answer", err);
    if (!st) st = qn_buf_status(&a->value, "an argument of a tool call", err);
    if (!st) st = qn_buf_status(&a->keys, "the parameter names of a tool call", err);
    return st;
}

qn_status qn_answer_create(qn_answer **out, bool thinking, const char *tools_json, qn_error *err)
{
    json_error_t bad;
    *out = NULL;
    qn_answer *a = calloc(1, sizeof *a);
    if (!a) return qn_fail(err, QN_NOMEM, "no memory for an answer");
    a->thinking = thinking;
    if (tools_json) {
        a->tools = json_loads(tools_json, JSON_DECODE_ANY, &bad);
        if (!json_is_array(a->tools) && !json_is_null(a->tools)) {
            qn_status st = qn_fail(err, QN_INVALID, "tools: %s", a->tools ? "must be an array" : bad.text);
            qn_error_field(err, "tools");
            qn_answer_destroy(a);
            return st;
        }
        if (json_array_size(a->tools) == 0) json_decref(a->tools), a->tools = NULL;
    }
    *out = a;
    return QN_OK;
}

void qn_answer_destroy(qn_answer *a)
{
    if (!a) return;
    json_decref(a->tools);
    qn_buf_deinit(&a->pending);
    qn_buf_deinit(&a->keys);
    qn_buf_deinit(&a->value);
    qn_buf_deinit(&a->out);
    free(a);
}

qn_status qn_answer_push(qn_answer *a, const char *text, size_t n, qn_answer_fn fn, void *ctx, qn_error *err)
{
    if (a->finished) return qn_fail(err, QN_INVALID, "text for an answer that is finished");
    return advance(a, text, n, fn, ctx, err);
}

qn_status qn_answer_finish(qn_answer *a, qn_answer_fn fn, void *ctx, qn_error *err)
{
    if (a->finished) return QN_OK;
    a->final = a->finished = true;
    return advance(a, NULL, 0, fn, ctx, err);
}

uint32_t qn_answer_calls(const qn_answer *a)
{
    return a->n_calls;
}

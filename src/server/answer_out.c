/* answer_out.c - from token ids to the bytes of an answer: detokenise, take apart, match stop strings, write
 * JSON.
 *
 *     id -> detok -> text --chat--> answer parser -> reasoning, calls ------------------> out
 *                        \                       \-> content -> stop strings --> shown -> out
 *                         \--completions--------------------> stop strings --> shown -> out
 *
 * Stop strings look at what the client sees as content (for completions: at the whole text), never at
 * thoughts or at calls, and no match reaches across a call. */
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "server/server_int.h"

/* ---- one piece out ----------------------------------------------------------------------------------------
 */

static void chunk_end(qn_exchange *x, const char *finish)
{
    qn_reply_chunk_end(&x->out, finish, finish ? &x->req.sampling.seed : NULL, x->req.include_usage);
    x->last_out_ns = qn_clock_ns();
}

/* {"NAME":"text"} as a delta, with a second name for the same text when it is not NULL */
static void delta_text(qn_exchange *x, const char *name, const char *alias, const char *text, size_t n)
{
    qn_reply_chunk_begin(&x->out, &x->head);
    if (x->req.chat) {
        qn_buf_printf(&x->out, "{\"%s\":", name);
        qn_json_string(&x->out, text, n);
        if (alias) {
            qn_buf_printf(&x->out, ",\"%s\":", alias);
            qn_json_string(&x->out, text, n);
        }
        qn_buf_byte(&x->out, '}');
    } else {
        qn_json_string(&x->out, text, n);
    }
    chunk_end(x, NULL);
}

static void put_content(qn_exchange *x, const char *text, size_t n)
{
    if (n == 0) return;
    if (x->req.stream)
        delta_text(x, "content", NULL, text, n);
    else
        qn_buf_add(&x->content, text, n);
}

static void put_reasoning(qn_exchange *x, const char *text, size_t n)
{
    if (n == 0) return;
    if (x->req.stream)
        delta_text(x, "reasoning_content", "reasoning", text, n);
    else
        qn_buf_add(&x->reasoning, text, n);
}

static void put_call(qn_exchange *x, const qn_answer_event *e)
{
    qn_buf *b = x->req.stream ? &x->out : &x->calls;
    unsigned char random[12] = {0};
    while (getrandom(random, sizeof random, 0) < 0) continue; /* interrupted */
    if (x->req.stream) {
        qn_reply_chunk_begin(b, &x->head);
        qn_buf_printf(b, "{\"tool_calls\":[{\"index\":%u,", e->call);
    } else {
        qn_buf_str(b, e->call ? "\"}},{" : "{");
    }
    qn_buf_str(b, "\"id\":\"call_");
    for (size_t i = 0; i < sizeof random; i++) qn_buf_printf(b, "%02x", random[i]);
    qn_buf_str(b, "\",\"type\":\"function\",\"function\":{\"name\":");
    qn_json_string(b, e->text, e->n);
    qn_buf_str(b, ",\"arguments\":\"");
    if (!x->req.stream) return; /* the arguments follow, closed by the next call or the end */
    qn_buf_str(b, "\"}}]}");
    chunk_end(x, NULL);
}

static void put_arguments(qn_exchange *x, const qn_answer_event *e)
{
    if (!x->req.stream) {
        qn_json_string_text(&x->calls, e->text, e->n);
        return;
    }
    qn_reply_chunk_begin(&x->out, &x->head);
    qn_buf_printf(&x->out, "{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", e->call);
    qn_json_string(&x->out, e->text, e->n);
    qn_buf_str(&x->out, "}}]}");
    chunk_end(x, NULL);
}

/* ---- text in ----------------------------------------------------------------------------------------------
 */

static void content(qn_exchange *x, const char *text, size_t n)
{
    const char *shown;
    size_t n_shown;
    x->sink_status = qn_stop_push(x->stop, text, n, &shown, &n_shown, &x->stop_hit, &x->error);
    if (!x->sink_status) put_content(x, shown, n_shown);
}

static void flush_content(qn_exchange *x)
{
    const char *shown;
    size_t n;
    qn_stop_flush(x->stop, &shown, &n);
    put_content(x, shown, n);
}

static void on_answer(void *ctx, const qn_answer_event *e)
{
    qn_exchange *x = ctx;
    if (x->stop_hit || x->sink_status) return;
    x->in_thought = e->kind == QN_ANSWER_REASONING;
    switch (e->kind) {
    case QN_ANSWER_REASONING: put_reasoning(x, e->text, e->n); break;
    case QN_ANSWER_CONTENT: content(x, e->text, e->n); break;
    case QN_ANSWER_CALL:
        flush_content(x);
        if (x->n_calls == 1 && !x->req.parallel_calls) {
            x->stop_hit = true; /* one call is all that was asked for */
            break;
        }
        x->n_calls++;
        put_call(x, e);
        break;
    case QN_ANSWER_ARGUMENTS: put_arguments(x, e); break;
    }
}

static qn_status take_text(qn_exchange *x, const char *text, size_t n, qn_error *err)
{
    qn_status st = QN_OK;
    if (n == 0) return QN_OK;
    if (x->answer)
        st = x->backend->answer_push(x->answer, text, n, on_answer, x, err);
    else
        content(x, text, n);
    if (!st && x->sink_status) {
        *err = x->error;
        st = x->sink_status;
    }
    return st;
}

/* ---- the life of an answer
 * --------------------------------------------------------------------------------- */

qn_status qn_answer_out_open(qn_exchange *x, bool thinking, qn_error *err)
{
    const qn_server_backend *b = x->backend;
    x->in_thought = thinking;
    qn_status st = b->detok_create(b->self, &x->detok, err);
    if (!st && x->req.chat) st = b->answer_create(&x->answer, thinking, x->req.tools, err);
    if (!st) st = qn_stop_create(&x->stop, x->req.stop, x->req.stop_len, x->req.n_stop, err);
    return st;
}

void qn_answer_out_close(qn_exchange *x)
{
    if (!x->backend) return;
    if (x->detok) x->backend->detok_destroy(x->detok);
    if (x->answer) x->backend->answer_destroy(x->answer);
    qn_stop_destroy(x->stop);
    x->detok = NULL;
    x->answer = NULL;
    x->stop = NULL;
}

void qn_answer_out_begin(qn_exchange *x)
{
    x->last_out_ns = qn_clock_ns();
    if (!x->req.chat) return;
    qn_reply_chunk_begin(&x->out, &x->head);
    qn_buf_str(&x->out, "{\"role\":\"assistant\",\"content\":\"\"}");
    chunk_end(x, NULL);
}

qn_status qn_answer_out_token(qn_exchange *x, int32_t id, qn_error *err)
{
    const char *text;
    size_t n;
    qn_status st = x->backend->detok_push(x->detok, id, &text, &n, err);
    if (!st) st = take_text(x, text, n, err);
    if (!st && x->in_thought) x->n_reasoning++;
    return st;
}

static const char *finish_reason(const qn_exchange *x, qn_job_finish how)
{
    if (how == QN_FINISH_LENGTH) return "length";
    return x->n_calls ? "tool_calls" : "stop";
}

qn_status qn_answer_out_finish(qn_exchange *x, qn_job_finish how, qn_error *err)
{
    const char *text;
    size_t n;
    qn_status st = QN_OK;
    if (!x->stop_hit) {
        st = x->backend->detok_finish(x->detok, &text, &n, err);
        if (!st) st = take_text(x, text, n, err);
    }
    if (!st && !x->stop_hit && x->answer) st = x->backend->answer_finish(x->answer, on_answer, x, err);
    if (!st && x->sink_status) {
        *err = x->error;
        st = x->sink_status;
    }
    if (st) return st;
    if (!x->stop_hit) flush_content(x);
    x->finish = x->stop_hit ? finish_reason(x, QN_FINISH_STOP) : finish_reason(x, how);

    qn_reply_usage usage = {x->n_prompt, x->n_cached, x->n_completion, x->n_reasoning};
    if (x->req.stream) {
        qn_reply_chunk_begin(&x->out, &x->head);
        qn_buf_str(&x->out, x->req.chat ? "{}" : "\"\"");
        chunk_end(x, x->finish);
        if (x->req.include_usage) qn_reply_chunk_usage(&x->out, &x->head, &usage);
        qn_buf_str(&x->out, "data: [DONE]\n\n");
        x->out_end = true;
        return qn_buf_status(&x->out, "the stream", err);
    }
    if (x->n_calls) qn_buf_str(&x->calls, "\"}}");
    if (!st) st = qn_buf_status(&x->content, "the answer's content", err);
    if (!st) st = qn_buf_status(&x->reasoning, "the answer's thoughts", err);
    if (!st) st = qn_buf_status(&x->calls, "the answer's tool calls", err);
    if (st) return st;
    qn_reply_whole(&x->reply, &x->head,
                   &(qn_reply_answer){.content = &x->content,
                                      .reasoning = &x->reasoning,
                                      .calls = &x->calls,
                                      .finish = x->finish,
                                      .usage = usage,
                                      .seed = x->req.sampling.seed});
    x->status = 200;
    return qn_buf_status(&x->reply, "the answer", err);
}

void qn_answer_out_fail(qn_exchange *x, const qn_error *err)
{
    qn_buf_str(&x->out, "data: ");
    qn_reply_error(&x->out, err, 0, 0);
    qn_buf_str(&x->out, "\n\ndata: [DONE]\n\n");
    x->out_end = true;
}

/* exchange.c - the life of one request: route, check, submit, take its events, end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/server_int.h"

static uint64_t random_bits(void)
{
    uint64_t r = 0;
    while (getrandom(&r, sizeof r, 0) < 0) continue; /* interrupted */
    return r;
}

qn_exchange *qn_exchange_create(qn_server *s, qn_conn *c, struct MHD_Connection *http, const char *method,
                                const char *url)
{
    qn_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->srv = s;
    x->conn = c;
    x->http = http;
    x->gone = c->gone;
    x->start_ns = qn_clock_ns();
    x->created = (int64_t)time(NULL);
    qn_printable(x->method, sizeof x->method, method, strlen(method));
    qn_printable(x->path, sizeof x->path, url, strlen(url));
    bool chat = strcmp(url, "/v1/chat/completions") == 0, text = strcmp(url, "/v1/completions") == 0;
    snprintf(x->id, sizeof x->id, "%s-%016" PRIx64 "%08" PRIx32,
             chat   ? "chatcmpl"
             : text ? "cmpl"
                    : "req",
             random_bits(), (uint32_t)++s->ids);
    qn_buf_init(&x->body, s->o.max_body_bytes);
    x->next = s->exchanges;
    if (x->next) x->next->prev = x;
    s->exchanges = x;
    qn_counter_add(s->n_requests, 1);
    return x;
}

static void free_body(qn_exchange *x)
{
    x->srv->bodies_bytes -= x->body.len;
    qn_buf_deinit(&x->body);
}

static uint64_t ms(uint64_t from, uint64_t to)
{
    return to > from ? (to - from) / 1000000 : 0;
}

static void log_line(const qn_exchange *x)
{
    bool quiet = !x->backend && x->status < 400; /* health and model lists */
    const char *finish = x->finish ? x->finish : x->gone ? "cancelled" : x->status < 400 ? "stop" : "error";
    uint64_t now = qn_clock_ns();
    qn_log(quiet ? QN_LOG_DEBUG : QN_LOG_INFO, "server",
           "%s %s %s status=%d prompt=%" PRIu32 " cached=%" PRIu32 " queue_ms=%" PRIu64 " ttft_ms=%" PRIu64
           " total_ms=%" PRIu64 " finish=%s tokens=%" PRIu32,
           x->id, x->method, x->path, x->status, x->n_prompt, x->n_cached, ms(x->start_ns, x->admitted_ns),
           ms(x->start_ns, x->first_token_ns), ms(x->start_ns, now), finish, x->n_completion);
}

static void maybe_free(qn_exchange *x)
{
    if (x->http || (x->submitted && !x->job_done)) return;
    log_line(x);
    if (x->prev)
        x->prev->next = x->next;
    else
        x->srv->exchanges = x->next;
    if (x->next) x->next->prev = x->prev;
    qn_answer_out_close(x);
    qn_api_request_deinit(&x->req);
    free_body(x);
    qn_buf_deinit(&x->reply);
    qn_buf_deinit(&x->out);
    qn_buf_deinit(&x->content);
    qn_buf_deinit(&x->reasoning);
    qn_buf_deinit(&x->calls);
    free(x->taken);
    free(x->mail.tokens);
    free(x);
}

static void cancel_job(qn_exchange *x)
{
    if (!x->submitted || x->job_done || x->cancelled) return;
    x->cancelled = true;
    x->backend->cancel(x->backend->self, x->job);
}

/* ---- ends
 * -------------------------------------------------------------------------------------------------- */

static void refuse(qn_exchange *x, const qn_error *err, size_t n_ctx)
{
    if (!x->status) x->status = qn_status_http(err->status);
    qn_buf_reset(&x->reply);
    qn_reply_error(&x->reply, err, x->n_prompt, n_ctx);
    x->state = QN_X_REPLY;
    x->ended = true;
    if (!x->finish) x->finish = "error";
    qn_counter_add(x->srv->n_refused, 1);
    free_body(x);
    qn_http_continue(x);
}

void qn_exchange_refuse(qn_exchange *x, const qn_error *err)
{
    refuse(x, err, 0);
}

/* A failure after the request was accepted: inside a stream, or as the whole answer. */
static void fail(qn_exchange *x, const qn_error *err, const char *finish)
{
    x->finish = finish;
    cancel_job(x);
    if (x->state != QN_X_STREAMING) {
        x->status = 0;
        refuse(x, err, 0);
        return;
    }
    x->ended = true;
    qn_answer_out_fail(x, err);
    qn_http_continue(x);
}

void qn_exchange_leave(qn_exchange *x)
{
    if (x->gone) return;
    x->gone = true;
    qn_counter_add(x->srv->n_gone, 1);
    if (!x->ended && x->state != QN_X_READING) {
        x->ended = true;
        x->finish = "cancelled";
        if (!x->status) x->status = 499;
        cancel_job(x);
    }
    qn_http_continue(x);
}

void qn_exchange_release(qn_exchange *x)
{
    x->http = NULL;
    if (x->conn) x->conn->current = NULL;
    x->conn = NULL;
    if (!x->ended &&
        (x->submitted || !x->replied)) { /* the connection broke before the answer was complete */
        x->gone = x->ended = true;
        x->finish = "cancelled";
        if (!x->status) x->status = 499;
        cancel_job(x);
    }
    maybe_free(x);
}

void qn_exchange_cancel(qn_exchange *x)
{
    qn_error err = {0};
    if (x->ended || x->state == QN_X_READING) return;
    qn_fail(&err, QN_UNAVAILABLE, "the server is shutting down");
    fail(x, &err, "cancelled");
}

void qn_exchange_tick(qn_exchange *x, uint64_t now_ns)
{
    if (x->state != QN_X_STREAMING || x->ended || x->gone) return;
    if (now_ns < x->last_out_ns + (uint64_t)x->srv->o.keepalive_ms * 1000000u) return;
    if (x->out.len == 0)
        qn_buf_str(&x->out, ": keep-alive\n\n"); /* a reader that takes nothing needs no more of them */
    x->last_out_ns = now_ns;
    qn_http_continue(x);
}

/* ---- generation
 * -------------------------------------------------------------------------------------------- */

static void on_job(void *ctx, const qn_job_event *e) /* the scheduler's thread */
{
    qn_exchange *x = ctx;
    qn_server *s = x->srv;
    qn_mailbox *m = &x->mail;
    if (e->kind == QN_JOB_PROGRESS) return;
    pthread_mutex_lock(&s->mail_lock);
    m->n_cached = e->n_cached;
    m->n_generated = e->n_generated;
    if (e->kind == QN_JOB_ADMITTED) {
        m->admitted = true;
        m->admitted_ns = e->time_ns;
    } else if (e->kind == QN_JOB_TOKEN) {
        if (!m->first_token_ns) m->first_token_ns = e->time_ns;
        if (m->n_tokens == m->cap) {
            size_t cap = m->cap ? m->cap * 2 : 64;
            int32_t *p = realloc(m->tokens, cap * sizeof *p);
            if (p)
                m->tokens = p, m->cap = cap;
            else
                m->lost = true;
        }
        if (!m->lost) m->tokens[m->n_tokens++] = e->token;
    } else if (e->kind == QN_JOB_DONE) {
        m->done = true;
        m->finish = e->finish;
        if (e->error) m->error = *e->error;
    }
    bool wake = false;
    if (!m->listed) {
        wake = s->mail == NULL;
        m->listed = true;
        m->next = NULL;
        *(s->mail ? &s->mail_last->mail.next : &s->mail) = x;
        s->mail_last = x;
    }
    pthread_mutex_unlock(&s->mail_lock);
    uint64_t one = 1;
    if (wake && write(s->wake_fd, &one, sizeof one) < 0) return; /* full: a wake-up is pending */
}

/* Completed text: end the answer. */
static void finish(qn_exchange *x, qn_job_finish how)
{
    qn_error err = {0};
    if (qn_answer_out_finish(x, how, &err)) {
        fail(x, &err, "error");
        return;
    }
    x->ended = true;
    if (!x->req.stream) x->state = QN_X_REPLY;
    qn_http_continue(x);
}

static void take_tokens(qn_exchange *x, const int32_t *tokens, size_t n)
{
    qn_error err = {0};
    for (size_t i = 0; i < n && !x->ended; i++) {
        x->n_seen++;
        x->n_completion = x->n_seen;
        if (qn_answer_out_token(x, tokens[i], &err)) {
            fail(x, &err, "error");
        } else if (x->stop_hit) {
            cancel_job(x);
            finish(x, QN_FINISH_STOP);
        }
    }
}

static void job_done(qn_exchange *x, const qn_mailbox *m)
{
    qn_error err = m->error;
    x->job_done = true;
    if (!x->ended || x->gone) x->n_completion = m->n_generated;
    if (x->ended) return;
    switch (m->finish) {
    case QN_FINISH_STOP:
    case QN_FINISH_LENGTH: finish(x, m->finish); return;
    case QN_FINISH_CANCELLED: qn_fail(&err, QN_UNAVAILABLE, "the server is shutting down"); break;
    case QN_FINISH_ERROR:
        if (err.status == QN_OK) qn_fail(&err, QN_INTERNAL, "the answer failed without a reason");
        break;
    }
    fail(x, &err, m->finish == QN_FINISH_CANCELLED ? "cancelled" : "error");
}

static void handle_mail(qn_exchange *x, const qn_mailbox *m, const int32_t *tokens)
{
    x->n_cached = m->n_cached;
    x->admitted_ns = m->admitted_ns;
    x->first_token_ns = m->first_token_ns;
    if (m->admitted && !x->started && !x->ended) {
        x->started = true;
        if (x->req.stream) {
            x->state = QN_X_STREAMING;
            x->status = 200;
            qn_answer_out_begin(x);
            qn_http_continue(x); /* the headers go out now, with or without a first chunk */
        }
    }
    take_tokens(x, tokens, m->n_tokens);
    if (m->lost && !x->ended) {
        qn_error err = {0};
        qn_fail(&err, QN_NOMEM, "no memory for the tokens of the answer");
        fail(x, &err, "error");
    }
    if (!x->ended && x->out.len > x->srv->o.max_pending_bytes) {
        qn_log(QN_LOG_WARN, "server", "%s: the client leaves %zu bytes of its stream unread; giving up",
               x->id, x->out.len);
        qn_counter_add(x->srv->n_slow, 1);
        qn_exchange_leave(x);
    }
    if (m->done) job_done(x, m);
    if (x->out.len || x->out_end) qn_http_continue(x);
    maybe_free(x);
}

bool qn_exchange_next_mail(qn_server *s)
{
    pthread_mutex_lock(&s->mail_lock);
    qn_exchange *x = s->mail;
    qn_mailbox m = {0};
    if (x) { /* unlisting and emptying are one step: after DONE nothing may bring the exchange back into the
                list */
        m = x->mail;
        s->mail = m.next;
        x->mail.tokens = x->taken;
        x->mail.cap = x->taken_cap;
        x->mail.n_tokens = 0;
        x->mail.listed = false;
    }
    pthread_mutex_unlock(&s->mail_lock);
    if (!x) return false;
    x->taken = m.tokens;
    x->taken_cap = m.cap;
    handle_mail(x, &m, m.tokens);
    return true;
}

static qn_status make_prompt(qn_exchange *x, bool *thinking, qn_error *err)
{
    qn_api_request *r = &x->req;
    const qn_server_backend *b = x->backend;
    qn_status st = QN_OK;
    if (r->chat) {
        qn_chat_options o = {.tools_json = r->tools,
                             .template_vars_json = r->template_vars,
                             .enable_thinking = r->enable_thinking,
                             .add_generation_prompt = true};
        st = b->chat_tokenize(b->self, r->messages, r->n_messages, &o, &r->ids, &r->n_ids, thinking, err);
    } else if (r->prompt) {
        st = b->tokenize(b->self, r->prompt, r->n_prompt, r->special_tokens, &r->ids, &r->n_ids, err);
    }
    if (st && !err->field[0]) qn_error_field(err, r->chat ? "messages" : "prompt");
    if (st == QN_NOT_FOUND)
        st = err->status = QN_UNSUPPORTED; /* no tokenizer or template: 404 would blame the path */
    if (!st && r->n_ids == 0) {
        st = qn_fail(err, QN_INVALID, "the prompt has no tokens");
        qn_error_field(err, r->chat ? "messages" : "prompt");
    }
    if (!st) x->n_prompt = (uint32_t)(r->n_ids < UINT32_MAX ? r->n_ids : UINT32_MAX);
    if (!st && r->n_ids >= b->context) {
        st =
            qn_fail(err, QN_CONTEXT,
                    "the prompt has %zu tokens, the context has %" PRIu32 " and one is needed for the answer",
                    r->n_ids, b->context);
        qn_error_field(err, r->chat ? "messages" : "prompt");
    }
    return st;
}

static qn_status submit(qn_exchange *x, qn_error *err)
{
    qn_api_request *r = &x->req;
    uint64_t room = x->backend->context - x->n_prompt;
    qn_job_params p = {.prompt = r->ids,
                       .n_prompt = x->n_prompt,
                       .max_tokens = (uint32_t)(r->max_tokens && r->max_tokens < room ? r->max_tokens : room),
                       .sampling = r->sampling,
                       .fn = on_job,
                       .ctx = x};
    x->state = QN_X_WAITING;
    qn_status st = x->backend->submit(x->backend->self, &p, &x->job, err);
    x->submitted = !st;
    return st;
}

static void generate(qn_exchange *x, bool chat)
{
    qn_error err = {0};
    bool thinking = false;
    qn_server *s = x->srv;
    const qn_server_backend *b = atomic_load(&s->backend);
    qn_status st = QN_OK;
    if (x->gone) { /* left before the request was complete: nothing is answered */
        x->ended = true;
        x->finish = "cancelled";
        x->status = 499;
        return;
    }
    if (!b)
        st = qn_fail(&err, QN_UNAVAILABLE, "the model is still loading");
    else if (s->draining)
        st = qn_fail(&err, QN_UNAVAILABLE, "the server is shutting down");
    if (st) {
        refuse(x, &err, 0);
        return;
    }
    x->backend = b;
    qn_api_rules rules = {.model_id = qn_server_model_id(s),
                          .any_model = s->o.any_model,
                          .vocab = b->vocab,
                          .sampling = b->sampling};
    x->head = (qn_reply_head){.id = x->id, .model = rules.model_id, .created = x->created, .chat = chat};
    st = qn_api_request_parse(&x->req, chat, x->body.data ? x->body.data : "", x->body.len, &rules, &err);
    free_body(x);
    qn_counter_add(s->n_unknown_fields, x->req.n_unknown);
    if (!x->req.seed_given)
        x->req.sampling.seed = random_bits() >> 11; /* 53 bits survive every JSON reader */
    if (!st) st = make_prompt(x, &thinking, &err);
    if (!st) st = qn_answer_out_open(x, thinking, &err);
    if (!st) st = submit(x, &err);
    if (st) {
        refuse(x, &err, st == QN_CONTEXT ? b->context : 0);
        return;
    }
    free(x->req.ids); /* what is left of the request until its end: options and tools */
    free(x->req.messages);
    x->req.ids = NULL;
    x->req.messages = NULL;
    json_decref(x->req.root);
    x->req.root = NULL;
}

/* ---- doors
 * ------------------------------------------------------------------------------------------------- */

static void reply(qn_exchange *x, int status)
{
    x->status = status;
    x->state = QN_X_REPLY;
    x->ended = true;
    free_body(x);
}

static void get_health(qn_exchange *x)
{
    const qn_server_backend *b = atomic_load(&x->srv->backend);
    qn_sched_stats st = {0};
    if (b) b->stats(b->self, &st);
    qn_buf_printf(&x->reply, "{\"status\":\"%s\",\"version\":\"" QN_VERSION "\",\"started\":%" PRId64,
                  !b                 ? "loading"
                  : x->srv->draining ? "stopping"
                                     : "ok",
                  x->srv->start_time);
    if (b) {
        qn_buf_str(&x->reply, ",\"model\":");
        qn_json_string(&x->reply, qn_server_model_id(x->srv), strlen(qn_server_model_id(x->srv)));
        qn_buf_printf(&x->reply,
                      ",\"active\":%" PRIu32 ",\"queued\":%" PRIu32 ",\"done\":%" PRIu64
                      ",\"cancelled\":%" PRIu64 ",\"failed\":%" PRIu64,
                      st.n_active, st.n_queued, st.n_done, st.n_cancelled, st.n_failed);
    }
    qn_buf_byte(&x->reply, '}');
    reply(x, b && !x->srv->draining ? 200 : 503);
}

static void model_json(qn_exchange *x, const qn_server_backend *b)
{
    const char *id = qn_server_model_id(x->srv);
    qn_buf_str(&x->reply, "{\"id\":");
    qn_json_string(&x->reply, id, strlen(id));
    qn_buf_printf(&x->reply,
                  ",\"object\":\"model\",\"created\":%" PRId64
                  ",\"owned_by\":\"quern\",\"max_model_len\":%" PRIu32 ",\"vocab_size\":%" PRIu32 "}",
                  x->srv->start_time, b->context, b->vocab);
}

static void get_models(qn_exchange *x, const char *id)
{
    qn_error err = {0};
    const qn_server_backend *b = atomic_load(&x->srv->backend);
    if (!b) {
        qn_fail(&err, QN_UNAVAILABLE, "the model is still loading");
        refuse(x, &err, 0);
    } else if (!id) {
        qn_buf_str(&x->reply, "{\"object\":\"list\",\"data\":[");
        model_json(x, b);
        qn_buf_str(&x->reply, "]}");
        reply(x, 200);
    } else if (strcmp(id, qn_server_model_id(x->srv)) == 0) {
        model_json(x, b);
        reply(x, 200);
    } else {
        char name[96];
        qn_fail(&err, QN_NOT_FOUND, "the model '%s' does not exist; this server has '%s'",
                qn_printable(name, sizeof name, id, strlen(id)), qn_server_model_id(x->srv));
        qn_error_field(&err, "model");
        refuse(x, &err, 0);
    }
}

void qn_exchange_dispatch(qn_exchange *x, const char *method, const char *url)
{
    static const char models[] = "/v1/models/";
    enum { HEALTH, MODELS, MODEL, CHAT, TEXT, NONE } door = NONE;
    qn_error err = {0};
    if (strcmp(url, "/health") == 0)
        door = HEALTH;
    else if (strcmp(url, "/v1/models") == 0)
        door = MODELS;
    else if (strncmp(url, models, sizeof models - 1) == 0 && url[sizeof models - 1])
        door = MODEL;
    else if (strcmp(url, "/v1/chat/completions") == 0)
        door = CHAT;
    else if (strcmp(url, "/v1/completions") == 0)
        door = TEXT;
    bool post = door == CHAT || door == TEXT;
    if (door == NONE) {
        qn_fail(&err, QN_NOT_FOUND, "there is no %s here", x->path);
    } else if (post ? strcmp(method, "POST") != 0
                    : strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        x->status = 405;
        x->allow = post ? "POST" : "GET, HEAD";
        qn_fail(&err, QN_INVALID, "%s does not take %s; it takes %s", x->path, x->method, x->allow);
    }
    if (err.status) {
        refuse(x, &err, 0);
        return;
    }
    switch (door) {
    case HEALTH: get_health(x); break;
    case MODELS: get_models(x, NULL); break;
    case MODEL: get_models(x, url + sizeof models - 1); break;
    default: generate(x, door == CHAT); break;
    }
}

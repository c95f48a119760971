/* quern.h - the public interface of libquern: open a model, turn text into tokens and conversations into
 * prompts, evaluate sequences, sample, take answers apart.
 *
 * `quern run` is written with this header alone. The interface is at version 0: it may change between
 * releases, and QN_VERSION says which one this is.
 *
 * Threads: a qn_model is immutable after qn_model_open and may be shared by any number of threads. A
 * qn_engine and everything made from it (sequences) belongs to one thread at a time. A qn_answer and a
 * qn_detok belong to one thread at a time.
 *
 * Errors: fallible functions return a qn_status and describe the failure in the last argument, which may be
 * NULL. On success the error is untouched. Output pointers are NULL after a failure.
 *
 * Lifetimes: engine < model, sequence < engine: the right-hand one must outlive the left-hand one. Strings
 * handed out through `char **` are freed with free(). */
#ifndef QUERN_H
#define QUERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_VERSION "0.1.0"

/* ---- errors ----------------------------------------------------------------------------------------------
 */

typedef enum qn_status {
    QN_OK = 0,
    QN_USAGE,       /* wrong command line or wrong use of an option */
    QN_INVALID,     /* a value that was passed in is not acceptable */
    QN_CORRUPT,     /* a file does not hold what its format promises */
    QN_UNSUPPORTED, /* well formed, but not something quern does */
    QN_NOT_FOUND,   /* no such file, model, tensor */
    QN_TOO_LARGE,   /* over a stated limit */
    QN_CONTEXT,     /* prompt longer than the context */
    QN_BUSY,        /* full now, try again later */
    QN_NOMEM,       /* memory ran out */
    QN_IO,          /* the operating system refused to read or write */
    QN_CANCELLED,   /* given up on request */
    QN_UNAVAILABLE, /* not ready: loading or shutting down */
    QN_INTERNAL     /* our own mistake */
} qn_status;

typedef struct qn_error {
    qn_status status;
    char msg[512];  /* one line that names the thing, NUL-terminated */
    char field[96]; /* the request field at fault, or "" */
} qn_error;

/* ---- the model -------------------------------------------------------------------------------------------
 */

typedef struct qn_model qn_model;

/* Open a checkpoint folder: config.json, safetensors, and, where present, tokenizer.json and chat template.
 * Checks every name, shape and byte range; weights are mapped, not read. A folder without a tokenizer opens;
 * the text functions then fail with QN_NOT_FOUND. */
qn_status qn_model_open(qn_model **out, const char *path, qn_error *err);
void qn_model_close(qn_model *m); /* accepts NULL */

uint32_t qn_model_vocab_size(const qn_model *m);     /* rows of the logits */
uint32_t qn_model_context_length(const qn_model *m); /* max_position_embeddings */
const char *qn_model_name(const qn_model *m);        /* the folder's name; valid until close */
bool qn_model_has_draft_head(const qn_model *m);     /* all MTP tensors are there */

/* ---- text ------------------------------------------------------------------------------------------------
 */

/* Text to ids. special: recognise added tokens such as <|im_end|> in the text (right for raw prompts, wrong
 * for anything a user typed). *ids is freed with free(). Bytes that are not UTF-8 are QN_INVALID. */
qn_status qn_tokenize(const qn_model *m, const char *text, size_t n, bool special, int32_t **ids,
                      size_t *n_ids, qn_error *err);

/* Options of rendering, as JSON: messages, tools and extra template variables are JSON texts. */
typedef struct qn_chat_options {
    const char *tools_json;         /* JSON array or NULL */
    const char *template_vars_json; /* JSON object of extra variables (chat_template_kwargs) or NULL */
    int enable_thinking;            /* -1: the template's own default, 0, 1 */
    bool add_generation_prompt;
} qn_chat_options;
qn_chat_options qn_chat_options_defaults(void);

/* Render OpenAI-style messages (JSON array) to prompt ids. Text that came from the messages never becomes an
 * added token. thinking (may be NULL) receives whether the answer starts inside a thought. */
qn_status qn_chat_tokenize(const qn_model *m, const char *messages_json, size_t n, const qn_chat_options *o,
                           int32_t **ids, size_t *n_ids, bool *thinking, qn_error *err);

/* Ids to text, one token at a time. Bytes of an incomplete UTF-8 character are held back until it is
 * complete; at the end an incomplete one becomes U+FFFD. */
typedef struct qn_detok qn_detok;
qn_status qn_detok_create(qn_detok **out, const qn_model *m, qn_error *err);
void qn_detok_destroy(qn_detok *d);
/* *text (valid until the next call, NUL-terminated, maybe empty) receives what became complete. Special
 * tokens give no text. QN_INVALID for an id outside the vocabulary. */
qn_status qn_detok_push(qn_detok *d, int32_t id, const char **text, size_t *n, qn_error *err);
qn_status qn_detok_finish(qn_detok *d, const char **text, size_t *n, qn_error *err);

/* Taking an answer apart: feed text in any pieces, receive events. Text of an event is valid until the next
 * call. The joined events do not depend on how the text was split. */
typedef struct qn_answer qn_answer;
typedef enum qn_answer_kind {
    QN_ANSWER_REASONING, /* text: more of the thought */
    QN_ANSWER_CONTENT,   /* text: more of the answer */
    QN_ANSWER_CALL,      /* a tool call begins: call index, text = function name */
    QN_ANSWER_ARGUMENTS  /* text: more of the call's arguments, as JSON text */
} qn_answer_kind;
typedef struct qn_answer_event {
    qn_answer_kind kind;
    uint32_t call;    /* index of the tool call, from 0 */
    const char *text; /* not NUL-terminated */
    size_t n;
} qn_answer_event;
typedef void (*qn_answer_fn)(void *ctx, const qn_answer_event *e);

/* thinking: the text starts inside a thought. tools_json: the tools offered (their schemas type the
 * arguments), or NULL; without tools <tool_call> is ordinary content. */
qn_status qn_answer_create(qn_answer **out, bool thinking, const char *tools_json, qn_error *err);
void qn_answer_destroy(qn_answer *a);
qn_status qn_answer_push(qn_answer *a, const char *text, size_t n, qn_answer_fn fn, void *ctx, qn_error *err);
qn_status qn_answer_finish(qn_answer *a, qn_answer_fn fn, void *ctx, qn_error *err);
uint32_t qn_answer_calls(const qn_answer *a); /* tool calls so far */

/* ---- the engine: a model on a device ---------------------------------------------------------------------
 */

typedef enum qn_kv_format { QN_KV_F16, QN_KV_F32 } qn_kv_format;

typedef struct qn_engine qn_engine;
typedef struct qn_engine_options {
    const char *device;     /* "cpu" */
    const char *kernels;    /* "best", "reference" */
    uint32_t threads;       /* 0: as many as the process may use */
    uint32_t max_sequences; /* state slots, at least 1 */
    uint64_t pool_tokens;   /* KV tokens shared by all sequences; 0: max_sequences x context */
    uint32_t context;       /* longest sequence in tokens; 0: the model's */
    uint32_t slice;         /* prefill slice in tokens, a multiple of 64 */
    uint32_t max_batch;     /* sequences in one step, at least 1 */
    qn_kv_format kv;
    bool draft_head; /* make room for the MTP layer's cache and keep hidden vectors */
} qn_engine_options;
qn_engine_options qn_engine_options_defaults(void);

qn_status qn_engine_create(qn_engine **out, qn_model *m, const qn_engine_options *o, qn_error *err);
void qn_engine_destroy(qn_engine *e);

/* A sequence: its tokens' KV pages and recurrent state. */
typedef struct qn_seq qn_seq;
qn_status qn_seq_create(qn_seq **out, qn_engine *e, qn_error *err); /* QN_BUSY when all slots are taken */
void qn_seq_destroy(qn_seq *s);                                     /* returns its slot and pages */
uint32_t qn_seq_length(const qn_seq *s);                            /* tokens evaluated so far */

/* How a token is computed. Prefill: in chunks of 64 on a grid anchored at position 0; a prefill must start at
 * a multiple of 64. Decode: by the recurrence, one token at a time. The two agree to rounding, not to the
 * bit. */
typedef enum qn_phase { QN_PREFILL, QN_DECODE } qn_phase;

/* One entry of a step: n_tokens more tokens of seq (exactly 1 in a decode step). */
typedef struct qn_step_item {
    qn_seq *seq;
    const int32_t *tokens;
    uint32_t n_tokens;
    uint32_t n_logits; /* logits for the last n_logits of these tokens (0..n_tokens) */
} qn_step_item;

/* Evaluate one step for several sequences of one engine. logits: [sum of n_logits][vocab] f32, in the order
 * of the items; may be NULL when no item asks. At most max_batch items and, in prefill, at most slice tokens
 * over all items. On failure no sequence has changed its length; QN_CONTEXT and QN_BUSY (no page left) are
 * found before anything runs. A sequence that failed with QN_INTERNAL refuses further work. */
qn_status qn_step(qn_engine *e, qn_phase phase, const qn_step_item *items, size_t n_items, float *logits,
                  qn_error *err);

/* The draft head over positions [seq_length_of_head, ...): entries (hidden of i, token i+1) for the n tokens
 * that follow the ones already seen by the head. Only directly after the qn_step that computed those hidden
 * vectors: hidden vectors of one step live until the next. logits: [n][vocab]. */
qn_status qn_draft(qn_engine *e, qn_seq *s, const int32_t *next_tokens, uint32_t n, float *logits,
                   qn_error *err);

/* Save a sequence's state to memory (freed with free()) and restore it into a fresh sequence of an engine
 * with the same model and formats. Declared for what comes; QN_UNSUPPORTED in this version. */
qn_status qn_seq_save(qn_seq *s, void **bytes, size_t *n, qn_error *err);
qn_status qn_seq_restore(qn_seq *s, const void *bytes, size_t n, qn_error *err);

/* ---- sampling --------------------------------------------------------------------------------------------
 */

typedef struct qn_sampling {
    float temperature; /* 0: arg max, ties to the lower id */
    float top_p;       /* (0, 1] */
    float min_p;       /* [0, 1] */
    int32_t top_k;     /* 0: all */
    uint64_t seed;
} qn_sampling;

/* The model's recommended sampling (generation_config.json; seed 0). */
qn_sampling qn_model_sampling(const qn_model *m);

/* Draw the token at `position` of its sequence from logits[vocab]: depends on nothing but its arguments.
 * Filters in the order temperature, top_k, top_p, min_p. QN_INTERNAL when a logit is not finite. */
qn_status qn_sample(const qn_model *m, const float *logits, const qn_sampling *s, uint64_t position,
                    int32_t *id, qn_error *err);

/* Whether an id ends an answer (generation_config.json, the tokenizer's end-of-turn tokens). */
bool qn_model_is_stop(const qn_model *m, int32_t id);

#ifdef __cplusplus
}
#endif
#endif

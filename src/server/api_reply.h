/* api_reply.h - the JSON that the server writes: errors, whole answers and the chunks of a stream, in
 * OpenAI's shapes.
 *
 * Everything is appended to a qn_buf, whose sticky failure the caller checks once. Strings are escaped; bytes
 * that are not UTF-8 become U+FFFD, so that what is sent is always valid. Any thread. */
#ifndef QN_SERVER_API_REPLY_H
#define QN_SERVER_API_REPLY_H

#include "base/buf.h"

/* s[0..n) as a quoted JSON string; _text: without the quotes. */
void qn_json_string(qn_buf *b, const char *s, size_t n);
void qn_json_string_text(qn_buf *b, const char *s, size_t n);

/* {"error":{...}}. n_ctx > 0 adds n_prompt_tokens and n_ctx. */
void qn_reply_error(qn_buf *b, const qn_error *err, size_t n_prompt, size_t n_ctx);

/* What every object of one answer repeats. */
typedef struct qn_reply_head {
    const char *id;
    const char *model;
    int64_t created; /* seconds since 1970 */
    bool chat;
} qn_reply_head;

typedef struct qn_reply_usage {
    uint32_t n_prompt, n_cached, n_completion, n_reasoning;
} qn_reply_usage;

void qn_reply_usage_json(qn_buf *b, const qn_reply_usage *u, bool chat); /* the object alone */

/* A stream event up to its delta: `data: {...,"choices":[{"index":0,"delta":` (chat) or `"text":`
 * (completions); the caller appends the value and then calls _end with the finish reason (NULL: null), the
 * seed in *seed when it is not NULL. */
void qn_reply_chunk_begin(qn_buf *b, const qn_reply_head *h);
void qn_reply_chunk_end(qn_buf *b, const char *finish, const uint64_t *seed, bool usage_null);
void qn_reply_chunk_usage(qn_buf *b, const qn_reply_head *h,
                          const qn_reply_usage *u); /* the whole event, choices [] */

/* One whole answer. content, reasoning: text; calls: the inside of the tool_calls array, "" for none. */
typedef struct qn_reply_answer {
    const qn_buf *content, *reasoning, *calls;
    const char *finish;
    qn_reply_usage usage;
    uint64_t seed;
} qn_reply_answer;
void qn_reply_whole(qn_buf *b, const qn_reply_head *h, const qn_reply_answer *a);

#endif

/* json_pull.h - a bounded pull reader for JSON in memory: one event at a time, no tree, no recursion, no I/O.
 *
 * For the big files (safetensors headers, shard indexes, tokenizer.json), where a tree would cost many times
 * the file in memory. Strict RFC 8259: well-formed UTF-8, no lone surrogates, no leading zeros, no bytes
 * after the value, no byte order mark. Names that occur twice in an object are handed out twice; refusing
 * them is the caller's part, since only the caller knows which matter.
 *
 * The text is borrowed and must outlive the reader. Memory: a string with escapes is unescaped into one
 * buffer that never exceeds the text; any other string is handed out in place. One thread at a time.
 *
 *     qn_json_pull p;
 *     qn_json_event e;
 *     qn_json_pull_init(&p, text, n, 0);
 *     for (;;) {
 *         if ((st = qn_json_pull_next(&p, &e, err))) break;
 *         if (e == QN_JSON_DONE) break;
 *         if (e == QN_JSON_KEY && qn_json_pull_is(&p, "skipped") && (st = qn_json_pull_skip(&p, err))) break;
 *     }
 *     qn_json_pull_deinit(&p);
 *
 * Errors: QN_CORRUPT "byte N: expected ..., found ..."; QN_TOO_LARGE past the nesting limit; QN_NOMEM. After
 * a failure every further call fails with QN_CORRUPT. */
#ifndef QN_BASE_JSON_PULL_H
#define QN_BASE_JSON_PULL_H

#include "base/buf.h"
#include "base/status.h"

#define QN_JSON_DEFAULT_DEPTH 64u
#define QN_JSON_MAX_DEPTH     1024u

typedef enum qn_json_event {
    QN_JSON_OBJECT_BEGIN,
    QN_JSON_OBJECT_END,
    QN_JSON_ARRAY_BEGIN,
    QN_JSON_ARRAY_END,
    QN_JSON_KEY,    /* text: the name, unescaped */
    QN_JSON_STRING, /* text: the string, unescaped */
    QN_JSON_NUMBER, /* text: as written; checked against the grammar of JSON numbers */
    QN_JSON_TRUE,
    QN_JSON_FALSE,
    QN_JSON_NULL,
    QN_JSON_DONE /* the one value has ended and nothing but white space followed; comes again when asked again
                  */
} qn_json_event;

typedef struct qn_json_pull {
    /* What the last event left; read only. */
    const char
        *text; /* of KEY, STRING, NUMBER: not NUL-terminated, may hold NULs, valid until the next call */
    size_t text_len;
    size_t at; /* offset of the byte where the event began */
    qn_json_event event;
    uint32_t depth; /* objects and arrays that are open */

    /* private */
    const uint8_t *base;
    size_t size, pos;
    uint32_t max_depth;
    uint8_t state;
    uint64_t is_object[QN_JSON_MAX_DEPTH / 64]; /* one bit a level */
    qn_buf unescaped;
} qn_json_pull;

/* max_depth: objects and arrays inside each other; 0 means QN_JSON_DEFAULT_DEPTH; at most QN_JSON_MAX_DEPTH.
 */
void qn_json_pull_init(qn_json_pull *p, const void *text, size_t n, uint32_t max_depth);
void qn_json_pull_deinit(qn_json_pull *p); /* accepts a zeroed one */

qn_status qn_json_pull_next(qn_json_pull *p, qn_json_event *event, qn_error *err) QN_CHECKED;

/* Pass over what the last event began: after KEY its value, after OBJECT_BEGIN or ARRAY_BEGIN everything
 * through the matching end; after any other event nothing. What is passed over is checked as strictly as the
 * rest. */
qn_status qn_json_pull_skip(qn_json_pull *p, qn_error *err) QN_CHECKED;

/* The next event, which must be `want`; the error says that `what` (a name for the message) should be one. */
qn_status qn_json_pull_expect(qn_json_pull *p, qn_json_event want, const char *what,
                              qn_error *err) QN_CHECKED;

/* Whether the text of the last event is exactly s. */
bool qn_json_pull_is(const qn_json_pull *p, const char *s);

/* Whether the last event's text is a number of that type that fits: integers have no fraction and no
 * exponent; a double too large to be finite does not fit. */
bool qn_json_pull_u64(const qn_json_pull *p, uint64_t *v);
bool qn_json_pull_i64(const qn_json_pull *p, int64_t *v);
bool qn_json_pull_double(const qn_json_pull *p, double *v);

/* QN_CORRUPT with "byte N: " in front, N being where the last event began: for what a caller finds wrong. */
qn_status qn_json_pull_fail(const qn_json_pull *p, qn_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

const char *qn_json_event_name(qn_json_event e); /* "an object", "a string", ...; for messages, never NULL */

#endif

/* api_request.h - a request body of /v1/chat/completions or /v1/completions, checked and turned into plain
 * fields.
 *
 * Every refusal names the field at fault in err.field. An explicit null is the same as an absent field, for
 * every optional field. A field that would change the text but that quern does not have is refused unless it
 * holds its neutral value; fields nobody knows are ignored and counted. docs/api.md has the list. Any thread;
 * no I/O. */
#ifndef QN_SERVER_API_REQUEST_H
#define QN_SERVER_API_REQUEST_H

#include <jansson.h>

#include "base/status.h"
#include "server/stop_match.h"

#define QN_API_MAX_JSON_VALUES                                                                               \
    ((size_t)1 << 20) /* commas and brackets of a body: bounds what parsing may take */
#define QN_API_MAX_MESSAGES 65536
#define QN_API_MAX_TOOLS    1024

/* What a request is checked against. */
typedef struct qn_api_rules {
    const char *model_id;
    bool any_model;       /* accept every model name */
    uint32_t vocab;       /* prompt ids are below it */
    qn_sampling sampling; /* for absent fields */
} qn_api_rules;

typedef struct qn_api_request {
    bool chat;
    bool stream, include_usage;
    bool parallel_calls; /* false: the answer ends after its first tool call */
    bool seed_given;     /* else sampling.seed is to be drawn */
    qn_sampling sampling;
    uint64_t max_tokens; /* 0: as many as there is room for */
    size_t n_stop;
    const char *stop[QN_STOP_MAX]; /* borrowed from root */
    size_t stop_len[QN_STOP_MAX];

    char *messages;      /* chat: JSON text */
    size_t n_messages;   /* its bytes */
    char *tools;         /* JSON text, or NULL */
    char *template_vars; /* JSON text, or NULL */
    int enable_thinking; /* -1: the template's default */

    const char *prompt; /* completions: text borrowed from root, or NULL when there are ids */
    size_t n_prompt;
    bool special_tokens; /* recognise added tokens in the text */
    int32_t *ids;
    size_t n_ids;

    size_t n_unknown; /* fields that were ignored */
    json_t *root;     /* owns the borrowed strings */
} qn_api_request;

/* r is filled in even on failure as far as `stream` is concerned; deinit it in any case. */
qn_status qn_api_request_parse(qn_api_request *r, bool chat, const char *body, size_t n,
                               const qn_api_rules *rules, qn_error *err) QN_CHECKED;
void qn_api_request_deinit(qn_api_request *r); /* accepts a zeroed one; leaves it zeroed */

#endif

/* answer_int.h - the state of a qn_answer, shared by answer.c (sections) and answer_calls.c (tool calls). */
#ifndef QN_TEXT_ANSWER_INT_H
#define QN_TEXT_ANSWER_INT_H

#include "text/answer.h"

typedef enum qn_answer_state {
    QN_AS_START,
    QN_AS_REASONING,
    QN_AS_CONTENT,
    QN_AS_PARAMS,
    QN_AS_VALUE,
    QN_AS_AFTER_FUNCTION,
    QN_AS_AFTER_CALL
} qn_answer_state;
typedef enum qn_answer_mode { QN_AV_STRING, QN_AV_NULLABLE, QN_AV_TYPED, QN_AV_DROPPED } qn_answer_mode;
typedef enum qn_answer_match { QN_AM_NO, QN_AM_MAYBE, QN_AM_YES } qn_answer_match;

struct qn_answer {
    qn_answer_state state;
    bool thinking, finished;
    json_t *tools;  /* array, or NULL: none */
    qn_buf pending; /* text that is not decided yet */
    size_t pos;     /* of pending, already used */
    bool final;     /* no more text comes */
    size_t held;    /* newlines that may be dropped */
    bool has_reasoning, has_content;
    uint32_t n_calls;

    const json_t *properties; /* of the current call's tool, or NULL */
    qn_buf keys;              /* its parameters so far, each with a NUL */
    uint32_t n_keys;
    qn_answer_mode mode;
    unsigned types;
    qn_buf value;    /* of a value that is not streamed */
    uint32_t nest;   /* quoted calls open inside the value */
    bool begun;      /* the newline after the value's tag is dealt with */
    bool line_start; /* pos is at the start of the value */
    bool first_line; /* the value started in its tag's line and is still there */

    qn_buf out; /* text of the event under construction */
    qn_answer_kind out_kind;
    qn_answer_fn fn;
    void *ctx;
};

void qn_answer_emit(qn_answer *a, qn_answer_kind kind, const char *s, size_t n);
void qn_answer_flush(qn_answer *a);

/* Whether s[0..n) starts with a literal; MAYBE: it is a true prefix of it and more may come. */
qn_answer_match qn_answer_starts(const char *s, size_t n, const char *literal, bool final);

/* A call's head at pos, after <tool_call>: YES begins the call and moves pos behind the head. */
qn_answer_match qn_answer_call_head(qn_answer *a, size_t at);
bool qn_answer_call_step(qn_answer *a);  /* PARAMS, VALUE, AFTER_FUNCTION; false: more text is needed */
void qn_answer_call_close(qn_answer *a); /* at the end of the text: closes whatever is open */

#endif

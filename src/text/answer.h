/* answer.h - taking an answer apart: reasoning, content, tool calls. The functions are public (quern.h:
 * qn_answer_...); here are their limits and what they do where models err.
 *
 *   START --"<think>" or text--> REASONING --"</think>"--> CONTENT --a call's head--> PARAMS <--> VALUE
 *                                    \------a call's head---------------------------^  |
 *   CONTENT <-- AFTER_CALL <-- AFTER_FUNCTION <------------------ "</function>" -------/
 *
 * A call's head is <tool_call>, <function=NAME> and then <parameter= or </function>, with white space
 * between. Only then is the call announced; until then it may turn out to be text, and is returned as text of
 * the section it stands in (so a thought that mentions <tool_call> stays a thought). After it, the call
 * cannot be taken back: what does not belong between its parameters is dropped, and whatever ends early is
 * closed, so that its arguments are always JSON.
 *
 * A value ends at a line that starts with </parameter>, with <parameter=KEY> of a key that the tool knows,
 * with </function> followed by
 * </tool_call>, or, in the last line, with </tool_call>; a value that has no newline after its tag also ends
 * at </parameter> in the same line, if another tag follows. A whole call quoted inside a value (its
 * <tool_call> at a line start) is part of the value.
 *
 * A stray </think> in the content is dropped; what stood before it was already given as content. With
 * thinking off, a <think> at the start still opens a thought. */
#ifndef QN_TEXT_ANSWER_H
#define QN_TEXT_ANSWER_H

#include <jansson.h>

#include "base/buf.h"

#define QN_ANSWER_MAX_CALLS      128 /* further calls are content */
#define QN_ANSWER_MAX_NAME       256 /* bytes of a function or parameter name; longer ones are no names */
#define QN_ANSWER_MAX_PARAMETERS 256 /* of one call; further ones are dropped */
#define QN_ANSWER_MAX_SPACE      256 /* white space between two tags that belong together */
#define QN_ANSWER_MAX_VALUE                                                                                  \
    ((size_t)1 << 20) /* bytes of a value that is not a string; longer ones become strings */

/* The types that a JSON schema admits, as bits; 0: it says nothing. */
enum {
    QN_TYPE_STRING = 1,
    QN_TYPE_INTEGER = 2,
    QN_TYPE_NUMBER = 4,
    QN_TYPE_BOOLEAN = 8,
    QN_TYPE_NULL = 16,
    QN_TYPE_OBJECT = 32,
    QN_TYPE_ARRAY = 64
};
unsigned qn_answer_types(const json_t *schema);

/* The text s[0..n) of a parameter as JSON, by the types of its schema; what fits none becomes a string.
 * False: out failed. */
bool qn_answer_value(unsigned types, const char *s, size_t n, qn_buf *out);

/* s[0..n) escaped for the inside of a JSON string. False: out failed. */
bool qn_answer_escape(const char *s, size_t n, qn_buf *out);

#endif

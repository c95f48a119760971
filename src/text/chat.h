/* chat.h - conversations to prompts: the chat template of a model folder and the OpenAI-style messages it
 * renders.
 *
 * Clients spell the same conversation in many ways that templates do not expect; qn_chat_prepare() brings
 * messages into the one form that templates are written for, in a copy, and refuses what cannot be rendered
 * with the name of the field. docs/templates.md lists what it changes. */
#ifndef QN_TEXT_CHAT_H
#define QN_TEXT_CHAT_H

#include "text/template.h"

#define QN_CHAT_MAX_TOOLS 1024 /* over it: QN_TOO_LARGE */

typedef struct qn_chat_template qn_chat_template;

/* The template of a model folder: chat_template.jinja, else `chat_template` of tokenizer_config.json (a
 * string, or a list of {name, template}, of which "default" is taken). bos_token and eos_token come from
 * tokenizer_config.json. QN_NOT_FOUND: the folder has no template. */
qn_status qn_chat_template_open(qn_chat_template **out, const char *dir, qn_error *err) QN_CHECKED;
/* The same from source[0..n), without bos and eos. */
qn_status qn_chat_template_parse(qn_chat_template **out, const char *source, size_t n,
                                 qn_error *err) QN_CHECKED;
void qn_chat_template_close(qn_chat_template *t); /* accepts NULL */

typedef struct qn_chat_request {
    const json_t *messages; /* array of OpenAI messages */
    const json_t *tools;    /* array of OpenAI tools, or NULL */
    const json_t
        *vars; /* object of extra template variables, or NULL; they win over all but messages and tools */
    bool add_generation_prompt;
    bool as_is;          /* render messages and tools as they are: neither prepared nor checked */
    int enable_thinking; /* -1: the template's own default, 0, 1 */
    const char *bos_token, *eos_token; /* NULL: the folder's */
    const struct tm *now;              /* what strftime_now() sees, or NULL: no clock */
} qn_chat_request;
qn_chat_request qn_chat_request_defaults(void); /* generation prompt on, thinking -1, all else empty */

/* Render. text and origin as qn_template_render has them. thinking (may be NULL): the prompt ends inside a
 * thought, that is with a <think> of the template's own. QN_INVALID for messages that are refused, the field
 * named; what the template itself refuses has its own words as the message and the field "messages". Any
 * thread. */
qn_status qn_chat_render(const qn_chat_template *t, const qn_chat_request *r, qn_buf *text, qn_buf *origin,
                         bool *thinking, qn_error *err) QN_CHECKED;

/* A prepared copy of messages (new reference); see the top. */
qn_status qn_chat_prepare(json_t **out, const json_t *messages, qn_error *err) QN_CHECKED;
/* Whether tools (NULL allowed) is an array of {"type": "function", "function": {"name": ...}}. */
qn_status qn_chat_check_tools(const json_t *tools, qn_error *err) QN_CHECKED;

#endif

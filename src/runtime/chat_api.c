/* chat_api.c - from an OpenAI conversation to prompt ids: parse, render, encode with the origin of every
 * byte, so that text of a message never becomes an added token. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "runtime/model_int.h"

qn_chat_options qn_chat_options_defaults(void)
{
    return (qn_chat_options){.enable_thinking = -1, .add_generation_prompt = true};
}

/* Parse JSON of a field; what kind it must be is the renderer's business. */
static qn_status parse(const char *text, size_t n, const char *field, json_t **out, qn_error *err)
{
    json_error_t e;
    *out = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (*out) return QN_OK;
    qn_status st = qn_fail(err, QN_INVALID, "%s: line %d, column %d: %s", field, e.line, e.column, e.text);
    qn_error_field(err, "%s", field);
    return st;
}

static qn_status render(const qn_model *m, const qn_chat_request *r, int32_t **ids, size_t *n_ids,
                        bool *thinking, qn_error *err)
{
    qn_buf text, origin;
    qn_buf_init(&text, QN_TOKENIZER_MAX_TEXT);
    qn_buf_init(&origin, QN_TOKENIZER_MAX_TEXT);
    qn_status st = qn_chat_render(m->chat, r, &text, &origin, thinking, err);
    if (!st)
        st = qn_tokenizer_encode(m->tokenizer, text.data ? text.data : "", text.len, QN_SPECIAL_MARKED,
                                 (const uint8_t *)origin.data, ids, n_ids, err);
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    return st;
}

qn_status qn_chat_tokenize(const qn_model *m, const char *messages_json, size_t n, const qn_chat_options *o,
                           int32_t **ids, size_t *n_ids, bool *thinking, qn_error *err)
{
    json_t *messages = NULL, *tools = NULL, *vars = NULL;
    *ids = NULL;
    *n_ids = 0;
    if (!m->chat) return qn_fail(err, QN_NOT_FOUND, "the model '%s' has no chat template", m->name);
    if (!m->tokenizer) return qn_fail(err, QN_NOT_FOUND, "the model '%s' has no tokenizer.json", m->name);
    qn_status st = parse(messages_json, n, "messages", &messages, err);
    if (!st && o->tools_json) st = parse(o->tools_json, strlen(o->tools_json), "tools", &tools, err);
    if (!st && o->template_vars_json)
        st = parse(o->template_vars_json, strlen(o->template_vars_json), "chat_template_kwargs", &vars, err);
    if (!st) {
        time_t now = time(NULL);
        struct tm local;
        qn_chat_request r = qn_chat_request_defaults();
        r.messages = messages;
        r.tools = tools;
        r.vars = vars;
        r.add_generation_prompt = o->add_generation_prompt;
        r.enable_thinking = o->enable_thinking;
        r.now = localtime_r(&now, &local);
        st = render(m, &r, ids, n_ids, thinking, err);
    }
    json_decref(messages);
    json_decref(tools);
    json_decref(vars);
    return st;
}

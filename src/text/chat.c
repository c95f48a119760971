/* chat.c - a model folder's chat template: finding it, its variables, rendering. */
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/mapfile.h"

#define MAX_CONFIG ((size_t)16 << 20)

struct qn_chat_template {
    qn_template *tpl;
    char *bos, *eos; /* NULL: the folder names none */
};

qn_chat_request qn_chat_request_defaults(void)
{
    return (qn_chat_request){.add_generation_prompt = true, .enable_thinking = -1};
}

qn_status qn_chat_template_parse(qn_chat_template **out, const char *source, size_t n, qn_error *err)
{
    *out = NULL;
    qn_chat_template *t = calloc(1, sizeof *t);
    if (!t) return qn_fail(err, QN_NOMEM, "no memory for a chat template");
    qn_status st = qn_template_parse(&t->tpl, source, n, err);
    if (st)
        qn_chat_template_close(t);
    else
        *out = t;
    return st;
}

void qn_chat_template_close(qn_chat_template *t)
{
    if (!t) return;
    qn_template_destroy(t->tpl);
    free(t->bos);
    free(t->eos);
    free(t);
}

static qn_status read_in(const char *dir, const char *name, size_t max, char **data, size_t *n, qn_error *err)
{
    qn_buf path;
    qn_buf_init(&path, 0);
    qn_status st = QN_OK;
    if (!qn_buf_printf(&path, "%s/%s", dir, name)) st = qn_buf_status(&path, "a path", err);
    if (!st) st = qn_file_read(path.data, max, data, n, err);
    qn_buf_deinit(&path);
    return st;
}

/* A token of tokenizer_config.json: a string or an object with "content". */
static qn_status take_token(const json_t *config, const char *name, char **out, qn_error *err)
{
    const json_t *v = json_object_get(config, name);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (!json_is_string(v)) return QN_OK;
    *out = strdup(json_string_value(v));
    return *out ? QN_OK : qn_fail(err, QN_NOMEM, "no memory for %s", name);
}

static const json_t *config_template(const json_t *config)
{
    const json_t *v = json_object_get(config, "chat_template"), *e, *name;
    if (!json_is_array(v)) return v;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)v, i, e)
    {
        name = json_object_get(e, "name");
        if (json_is_string(name) && !strcmp(json_string_value(name), "default"))
            return json_object_get(e, "template");
    }
    return NULL;
}

qn_status qn_chat_template_open(qn_chat_template **out, const char *dir, qn_error *err)
{
    char *source = NULL, *text = NULL;
    size_t n = 0, n_text = 0;
    json_t *config = NULL;
    json_error_t bad;
    *out = NULL;
    qn_error reason = {0};
    qn_status st = read_in(dir, "chat_template.jinja", QN_TPL_MAX_SOURCE, &source, &n, &reason);
    if (!st || st == QN_NOT_FOUND)
        st = read_in(dir, "tokenizer_config.json", MAX_CONFIG, &text, &n_text, &reason);
    if (st && st != QN_NOT_FOUND) { /* err stays as it is where a missing file is no failure */
        qn_fail(err, st, "%s", reason.msg);
        goto done;
    }
    if (text) {
        config = json_loadb(text, n_text, 0, &bad);
        if (!json_is_object(config)) {
            st = qn_fail(err, QN_CORRUPT, "%s/tokenizer_config.json: %s", dir,
                         config ? "not an object" : bad.text);
            goto done;
        }
    }
    const json_t *inside = source ? NULL : config_template(config);
    if (!source && !json_is_string(inside)) {
        st = qn_fail(err, QN_NOT_FOUND,
                     "%s: no chat_template.jinja and no chat_template in tokenizer_config.json", dir);
        goto done;
    }
    st = source ? qn_chat_template_parse(out, source, n, err)
                : qn_chat_template_parse(out, json_string_value(inside), json_string_length(inside), err);
    if (!st) st = take_token(config, "bos_token", &(*out)->bos, err);
    if (!st) st = take_token(config, "eos_token", &(*out)->eos, err);
    if (st) {
        qn_error_context(err, "%s/%s", dir, source ? "chat_template.jinja" : "tokenizer_config.json");
        qn_chat_template_close(*out);
        *out = NULL;
    }
done:
    json_decref(config);
    free(source);
    free(text);
    return st;
}

static bool set_new(json_t *vars, const char *name, json_t *value)
{
    return json_object_set_new(vars, name, value) == 0;
}

/* Borrowed values may be shared: rendering changes none of them. */
static bool set_shared(json_t *vars, const char *name, const json_t *value)
{
    return json_object_set(vars, name, (json_t *)(uintptr_t)value) == 0;
}

/* All variables of a render: what the request says, then the extra ones, then messages and tools. */
static json_t *make_vars(const qn_chat_template *t, const qn_chat_request *r, const json_t *messages)
{
    const char *bos = r->bos_token ? r->bos_token : t->bos, *eos = r->eos_token ? r->eos_token : t->eos;
    json_t *vars = json_object();
    bool ok = vars && set_new(vars, "add_generation_prompt", json_boolean(r->add_generation_prompt));
    if (ok && bos) ok = set_new(vars, "bos_token", json_string(bos));
    if (ok && eos) ok = set_new(vars, "eos_token", json_string(eos));
    if (ok && r->enable_thinking >= 0)
        ok = set_new(vars, "enable_thinking", json_boolean(r->enable_thinking));
    if (ok && r->vars) ok = json_object_update(vars, (json_t *)(uintptr_t)r->vars) == 0;
    if (ok) ok = set_shared(vars, "messages", messages);
    if (ok) ok = r->tools ? set_shared(vars, "tools", r->tools) : set_new(vars, "tools", json_null());
    if (ok) return vars;
    json_decref(vars);
    return NULL;
}

/* Whether the text ends, but for white space, with a <think> that the template wrote. */
static bool ends_in_thought(const qn_buf *text, const qn_buf *origin)
{
    size_t n = text->len;
    while (n && strchr(" \n\t\r", text->data[n - 1]) && text->data[n - 1]) n--;
    if (n < 7 || memcmp(text->data + n - 7, "<think>", 7)) return false;
    return memchr(origin->data + n - 7, 0, 7) == NULL;
}

qn_status qn_chat_render(const qn_chat_template *t, const qn_chat_request *r, qn_buf *text, qn_buf *origin,
                         bool *thinking, qn_error *err)
{
    json_t *messages = NULL, *vars = NULL;
    qn_status st = QN_OK;
    if (r->vars && !json_is_object(r->vars)) {
        st = qn_fail(err, QN_INVALID, "the template variables must be a JSON object");
        qn_error_field(err, "chat_template_kwargs");
        return st;
    }
    if (!r->as_is) {
        st = qn_chat_check_tools(r->tools, err);
        if (!st) st = qn_chat_prepare(&messages, r->messages, err);
        if (st) return st;
    }
    vars = make_vars(t, r, messages ? messages : r->messages);
    if (!vars) st = qn_fail(err, QN_NOMEM, "no memory for the variables of the chat template");
    if (!st) {
        st = qn_template_render(t->tpl, vars, r->now, text, origin, err);
        if (st == QN_INVALID) qn_error_field(err, "messages");
    }
    if (!st && thinking) *thinking = ends_in_thought(text, origin);
    json_decref(vars);
    json_decref(messages);
    return st;
}

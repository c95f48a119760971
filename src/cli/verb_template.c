/* verb_template.c - `quern template`: the prompt that a conversation becomes, byte for byte, or a file of
 * test vectors.
 *
 * MODEL may be left out where --template or --jsonl says which template is meant. Without --now a template
 * has no clock. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"
#include "text/chat.h"

#define MAX_FILE ((size_t)256 << 20)

typedef struct options {
    const char *model, *messages, *tools, *template, *now, *jsonl;
    bool no_think, no_generation_prompt, as_is;
    json_t *vars;
} options;

static qn_status load_template(const char *path, qn_chat_template **out, qn_error *err)
{
    char *data;
    size_t n;
    *out = NULL;
    qn_status st = qn_cli_read_file(path, QN_TPL_MAX_SOURCE, &data, &n, err);
    if (st) return st;
    st = qn_chat_template_parse(out, data, n, err);
    if (st) qn_error_context(err, "%s", path);
    free(data);
    return st;
}

static qn_status parse_now(const char *s, struct tm *tm, qn_error *err)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
                                        "%Y-%m-%d %H:%M", "%Y-%m-%d"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        *tm = (struct tm){.tm_isdst = -1};
        const char *end = strptime(s, forms[i], tm);
        if (end && (*end == 0 || !strcmp(end, "Z"))) return QN_OK;
    }
    return qn_fail(err, QN_USAGE, "template: --now '%s' is not a time such as 2026-11-30T12:00:00", s);
}

static qn_status one(const options *o, qn_error *err)
{
    qn_chat_template *t = NULL;
    json_t *messages = NULL, *tools = NULL;
    struct tm tm;
    qn_chat_request r = qn_chat_request_defaults();
    qn_buf text, origin;
    qn_buf_init(&text, 0);
    qn_buf_init(&origin, 0);
    qn_status st =
        o->template ? load_template(o->template, &t, err) : qn_chat_template_open(&t, o->model, err);
    if (!st) st = qn_cli_read_json(o->messages, MAX_FILE, &messages, err);
    if (!st && o->tools) st = qn_cli_read_json(o->tools, MAX_FILE, &tools, err);
    if (!st && o->now) st = parse_now(o->now, &tm, err);
    if (!st) {
        r.messages = messages;
        r.tools = tools;
        r.vars = o->vars;
        r.add_generation_prompt = !o->no_generation_prompt;
        r.as_is = o->as_is;
        if (o->no_think) r.enable_thinking = 0;
        if (o->now) r.now = &tm;
        st = qn_chat_render(t, &r, &text, &origin, NULL, err);
    }
    if (!st && text.len && fwrite(text.data, 1, text.len, stdout) != text.len)
        st = qn_fail(err, QN_IO, "standard output: %s", strerror(errno));
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    json_decref(messages);
    json_decref(tools);
    qn_chat_template_close(t);
    return st;
}

/* Templates of the rows, parsed once each. */
typedef struct cache {
    json_t *names; /* file name -> index */
    qn_chat_template *list[256];
    size_t n;
} cache;

static qn_status row_template(cache *c, const char *jsonl, const char *name, qn_chat_template **out,
                              qn_error *err)
{
    const json_t *known = json_object_get(c->names, name);
    if (known) return *out = c->list[json_integer_value(known)], QN_OK;
    if (strchr(name, '/') || name[0] == '.')
        return qn_fail(err, QN_INVALID, "\"template\" must be a file beside the rows");
    if (c->n == 256) return qn_fail(err, QN_TOO_LARGE, "more than 256 templates in one file");
    const char *slash = strrchr(jsonl, '/');
    qn_buf path;
    qn_buf_init(&path, 0);
    qn_buf_printf(&path, "%.*s%s", slash ? (int)(slash + 1 - jsonl) : 0, jsonl, name);
    qn_status st = qn_buf_status(&path, "a path", err);
    if (!st) st = load_template(path.data, out, err);
    qn_buf_deinit(&path);
    if (st) return st;
    c->list[c->n] = *out;
    json_object_set_new(c->names, name, json_integer((json_int_t)c->n++));
    return QN_OK;
}

static qn_status render_row(cache *c, const char *jsonl, const json_t *row, qn_buf *text, qn_buf *origin,
                            qn_error *err)
{
    struct tm tm = {.tm_year = 126, .tm_mon = 10, .tm_mday = 30, .tm_hour = 12, .tm_wday = 1, .tm_yday = 333};
    const char *name = json_string_value(json_object_get(row, "template"));
    const json_t *set = json_object_get(row, "set"), *tools = json_object_get(row, "tools");
    qn_chat_template *t = NULL;
    if (!name) return qn_fail(err, QN_INVALID, "\"template\" must be a string");
    if (set && !json_is_object(set)) return qn_fail(err, QN_INVALID, "\"set\" must be an object");
    if (!json_object_get(row, "messages")) return qn_fail(err, QN_INVALID, "\"messages\" is missing");
    qn_status st = row_template(c, jsonl, name, &t, err);
    qn_chat_request r = qn_chat_request_defaults();
    r.messages = json_object_get(row, "messages");
    r.tools = tools;
    r.vars = set;
    r.add_generation_prompt = false; /* the rows say it in "set" */
    r.as_is = true;                  /* the vectors are what the template makes of these very messages */
    r.bos_token = "<s>";
    r.eos_token = "</s>";
    r.now = &tm;
    return st ? st : qn_chat_render(t, &r, text, origin, NULL, err);
}

static qn_status many(const options *o, qn_error *err)
{
    FILE *f = strcmp(o->jsonl, "-") == 0 ? stdin : fopen(o->jsonl, "rb");
    if (!f) return qn_fail(err, QN_NOT_FOUND, "%s: %s", o->jsonl, strerror(errno));
    cache c = {.names = json_object()};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    qn_status st = QN_OK;
    qn_buf text, origin;
    qn_buf_init(&text, 0);
    qn_buf_init(&origin, 0);
    for (size_t at = 1; !st && (n = getline(&line, &cap, f)) >= 0; at++) {
        json_error_t bad;
        qn_error refused;
        if (strspn(line, " \t\r\n") == (size_t)n) continue;
        json_t *row = json_loadb(line, (size_t)n, 0, &bad);
        if (!row) {
            st = qn_fail(err, QN_INVALID, "%s: line %zu: %s", o->jsonl, at, bad.text);
            break;
        }
        qn_status row_st = render_row(&c, o->jsonl, row, &text, &origin, &refused);
        json_t *out = row_st ? json_pack("{s:s}", "error", refused.msg)
                             : json_pack("{s:o}", "text", json_stringn(text.data ? text.data : "", text.len));
        if (!out || json_dumpf(out, stdout, JSON_COMPACT))
            st = qn_fail(err, QN_NOMEM, "no memory for the output");
        putchar('\n');
        json_decref(out);
        json_decref(row);
    }
    if (!st && ferror(f)) st = qn_fail(err, QN_IO, "%s: %s", o->jsonl, strerror(errno));
    for (size_t i = 0; i < c.n; i++) qn_chat_template_close(c.list[i]);
    json_decref(c.names);
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    free(line);
    if (f != stdin) fclose(f);
    return st;
}

/* One --set NAME=JSON. */
static qn_status set_var(options *o, const char *s, qn_error *err)
{
    const char *eq = strchr(s, '=');
    json_error_t bad;
    if (!eq || eq == s) return qn_fail(err, QN_USAGE, "template: --set needs NAME=JSON, not '%s'", s);
    json_t *v = json_loads(eq + 1, JSON_DECODE_ANY, &bad);
    if (!v) return qn_fail(err, QN_USAGE, "template: --set %.*s: not JSON: %s", (int)(eq - s), s, bad.text);
    char *name = strndup(s, (size_t)(eq - s));
    bool ok = name && json_object_set(o->vars, name, v) == 0;
    json_decref(v);
    free(name);
    return ok ? QN_OK
              : qn_fail(err, QN_INVALID, "template: --set %.*s: no memory, or a name that is not UTF-8",
                        (int)(eq - s), s);
}

int qn_verb_template(int argc, char **argv)
{
    options o = {.vars = json_object()};
    qn_string_list set = {0};
    qn_option table[] = {
        {"messages", QN_OPT_STRING, &o.messages, 0, 0, "FILE",
         "the conversation as OpenAI messages in JSON; - for stdin", NULL},
        {"tools", QN_OPT_STRING, &o.tools, 0, 0, "FILE", "tools in OpenAI's JSON form", NULL},
        {"no-think", QN_OPT_FLAG, &o.no_think, 0, 0, NULL, "enable_thinking is false", NULL},
        {"no-generation-prompt", QN_OPT_FLAG, &o.no_generation_prompt, 0, 0, NULL,
         "end after the last message", NULL},
        {"set", QN_OPT_STRINGS, &set, 0, 0, "NAME=JSON", "a template variable; may be given again", NULL},
        {"template", QN_OPT_STRING, &o.template, 0, 0, "FILE", "this template in place of the model's", NULL},
        {"now", QN_OPT_STRING, &o.now, 0, 0, "ISO",
         "the template's time, such as 2026-11-30T12:00:00 (default: it has none)", NULL},
        {"as-is", QN_OPT_FLAG, &o.as_is, 0, 0, NULL, "messages are not prepared as the server does", NULL},
        {"jsonl", QN_OPT_STRING, &o.jsonl, 0, 0, "FILE",
         "render rows of tools/template_vectors.py: {\"text\"} or {\"error\"} a line", NULL},
    };
    qn_config c;
    qn_error err;
    int rc = qn_cli_start(&c, table, sizeof table / sizeof table[0], argc, argv,
                          "quern template MODEL --messages FILE", 0, 1, &err);
    if (rc < 0) {
        qn_status st = QN_OK;
        o.model = c.n_words ? c.words[0] : NULL;
        for (size_t i = 0; i < set.n && !st; i++) st = set_var(&o, set.v[i], &err);
        if (!st && !o.jsonl && !o.model && !o.template)
            st = qn_fail(&err, QN_USAGE, "template: MODEL is missing");
        if (!st && !o.jsonl && !o.messages) st = qn_fail(&err, QN_USAGE, "template: --messages is missing");
        if (!st) st = o.jsonl ? many(&o, &err) : one(&o, &err);
        if (!st && (fflush(stdout) != 0 || ferror(stdout)))
            st = qn_fail(&err, QN_IO, "standard output: %s", strerror(errno));
        rc = st ? qn_cli_error(&err) : 0;
        qn_config_deinit(&c);
    }
    json_decref(o.vars);
    return rc;
}

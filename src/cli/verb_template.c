/* verb_template.c - `quern template`: the prompt that a conversation becomes, byte for byte, or a file of test vectors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"
#include "text/chat.h"

#define MAX_FILE ((size_t)256 << 20)

static const char usage[] =
    "usage: quern template MODEL --messages FILE [options]\n"
    "       quern template [MODEL] --jsonl FILE\n"
    "\n"
    "The rendered prompt of the OpenAI messages in FILE (- is standard input), to standard output.\n"
    "  --tools FILE            the tools offered\n"
    "  --no-think              enable_thinking is false\n"
    "  --no-generation-prompt  end after the last message\n"
    "  --set NAME=JSON         a template variable; may be given again\n"
    "  --template FILE         this template in place of the model's\n"
    "  --now ISO               the time that the template sees, such as 2026-11-30T12:00:00; without it, it has no clock\n"
    "  --as-is                 messages go to the template as they are, not prepared as the server does\n"
    "  --jsonl FILE            render the rows of tools/template_vectors.py: {\"text\"} or {\"error\"} a line\n";

typedef struct options {
    const char *model, *messages, *tools, *template, *now, *jsonl;
    bool no_think, no_generation_prompt, as_is;
    json_t *vars;
} options;

static qn_status load_json(const char *path, json_t **out, qn_error *err)
{
    char *data;
    size_t n;
    json_error_t bad;
    *out = NULL;
    qn_status st = qn_cli_read_file(path, MAX_FILE, &data, &n, err);
    if (st) return st;
    *out = json_loadb(data, n, JSON_REJECT_DUPLICATES, &bad);
    free(data);
    return *out ? QN_OK : qn_fail(err, QN_INVALID, "%s: line %d: %s", path, bad.line, bad.text);
}

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
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
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
    qn_status st = o->template ? load_template(o->template, &t, err) : qn_chat_template_open(&t, o->model, err);
    if (!st) st = load_json(o->messages, &messages, err);
    if (!st && o->tools) st = load_json(o->tools, &tools, err);
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
    if (!st && text.len && fwrite(text.data, 1, text.len, stdout) != text.len) st = qn_fail(err, QN_IO, "standard output: %s", strerror(errno));
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

static qn_status row_template(cache *c, const char *jsonl, const char *name, qn_chat_template **out, qn_error *err)
{
    const json_t *known = json_object_get(c->names, name);
    if (known) return *out = c->list[json_integer_value(known)], QN_OK;
    if (strchr(name, '/') || name[0] == '.') return qn_fail(err, QN_INVALID, "\"template\" must be a file beside the rows");
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

static qn_status render_row(cache *c, const char *jsonl, const json_t *row, qn_buf *text, qn_buf *origin, qn_error *err)
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
        if (!out || json_dumpf(out, stdout, JSON_COMPACT)) st = qn_fail(err, QN_NOMEM, "no memory for the output");
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

static int set_var(options *o, const char *s)
{
    const char *eq = strchr(s, '=');
    json_error_t bad;
    if (!eq || eq == s) return qn_cli_usage("template", "--set needs NAME=JSON, not '%s'", s);
    char *name = strndup(s, (size_t)(eq - s));
    json_t *v = json_loads(eq + 1, JSON_DECODE_ANY, &bad);
    int rc = !v ? qn_cli_usage("template", "--set %s: not JSON: %s", name ? name : "", bad.text) : !name || json_object_set(o->vars, name, v) ? 1 : 0;
    json_decref(v);
    free(name);
    return rc;
}

/* 0, or the exit status of a wrong command line. */
static int parse(options *o, int argc, char **argv)
{
    const struct {
        const char *name;
        const char **slot;
    } files[] = {{"--messages", &o->messages}, {"--tools", &o->tools}, {"--template", &o->template}, {"--now", &o->now}, {"--jsonl", &o->jsonl}};
    const struct {
        const char *name;
        bool *slot;
    } flags[] = {{"--no-think", &o->no_think}, {"--no-generation-prompt", &o->no_generation_prompt}, {"--as-is", &o->as_is}};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        bool known = false;
        for (size_t k = 0; k < 3; k++)
            if (!strcmp(a, flags[k].name)) known = *flags[k].slot = true;
        for (size_t k = 0; k < 5; k++) {
            if (strcmp(a, files[k].name)) continue;
            if (i + 1 >= argc) return qn_cli_usage("template", "%s needs a value", a);
            *files[k].slot = argv[++i];
            known = true;
        }
        if (!strcmp(a, "--set")) {
            if (i + 1 >= argc) return qn_cli_usage("template", "--set needs a value");
            int rc = set_var(o, argv[++i]);
            if (rc) return rc;
            known = true;
        }
        if (known) continue;
        if (a[0] == '-') return qn_cli_usage("template", "no option '%s'", a);
        if (o->model) return qn_cli_usage("template", "too many arguments at '%s'", a);
        o->model = a;
    }
    if (o->jsonl) return 0;
    if (!o->model && !o->template) return qn_cli_usage("template", "MODEL is missing");
    return o->messages ? 0 : qn_cli_usage("template", "--messages is missing");
}

int qn_verb_template(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--help")) return fputs(usage, stdout), 0;
    options o = {.vars = json_object()};
    qn_error err;
    int rc = parse(&o, argc, argv);
    if (!rc) {
        qn_status st = o.jsonl ? many(&o, &err) : one(&o, &err);
        if (!st && (fflush(stdout) != 0 || ferror(stdout))) st = qn_fail(&err, QN_IO, "standard output: %s", strerror(errno));
        rc = st ? qn_cli_error(&err) : 0;
    }
    json_decref(o.vars);
    return rc;
}

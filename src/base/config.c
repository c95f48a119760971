/* config.c - option tables filled from file, environment and command line. */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define MAX_FILE_BYTES (1 << 20)

/* The name as a JSON key ("top_p") or, with upper, as an environment variable's tail ("TOP_P"). */
static void spell(char *dst, size_t cap, const char *name, bool upper)
{
    size_t i = 0;
    for (; name[i] && i + 1 < cap; i++) {
        char c = name[i] == '-' ? '_' : name[i];
        dst[i] = upper ? (char)toupper((unsigned char)c) : c;
    }
    dst[i] = 0;
}

static qn_status set_number(qn_option *o, double d, bool whole, const char *shown, const char *source,
                            qn_error *err)
{
    bool integer = o->kind == QN_OPT_U32 || o->kind == QN_OPT_U64;
    if ((integer && !whole) || !(d >= o->min && d <= o->max))
        return qn_fail(err, QN_USAGE, "%s: --%s must be %s from %.16g to %.16g, not '%s'", source, o->name,
                       integer ? "a whole number" : "a number", o->min, o->max, shown);
    if (o->kind == QN_OPT_U32)
        *(uint32_t *)o->value = (uint32_t)d;
    else if (o->kind == QN_OPT_U64)
        *(uint64_t *)o->value = (uint64_t)d;
    else
        *(float *)o->value = (float)d;
    return QN_OK;
}

static qn_status add_string(qn_option *o, const char *text, const char *source, qn_error *err)
{
    qn_string_list *list = o->value;
    if (strcmp(o->source, source) != 0) list->n = 0;
    if (list->n == QN_STRINGS_MAX)
        return qn_fail(err, QN_USAGE, "%s: --%s is given more than %d times", source, o->name,
                       QN_STRINGS_MAX);
    list->v[list->n++] = text;
    o->source = source;
    return QN_OK;
}

static qn_status set_text(qn_option *o, const char *text, const char *source, qn_error *err)
{
    char shown[64];
    qn_printable(shown, sizeof shown, text, strlen(text));
    if (o->kind == QN_OPT_STRINGS) return add_string(o, text, source, err);
    o->source = source;
    switch (o->kind) {
    case QN_OPT_STRING: *(const char **)o->value = text; return QN_OK;
    case QN_OPT_FLAG:
        if (strcmp(text, "1") == 0 || strcmp(text, "true") == 0) return *(bool *)o->value = true, QN_OK;
        if (strcmp(text, "0") == 0 || strcmp(text, "false") == 0) return *(bool *)o->value = false, QN_OK;
        return qn_fail(err, QN_USAGE, "%s: --%s must be 1 or 0, not '%s'", source, o->name, shown);
    case QN_OPT_U64: { /* a double would lose the low bits of a seed */
        char *end;
        errno = 0;
        unsigned long long v = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || *end || errno || (double)v < o->min || (double)v > o->max)
            return qn_fail(err, QN_USAGE, "%s: --%s must be a whole number from %.16g to %.16g, not '%s'",
                           source, o->name, o->min, o->max, shown);
        *(uint64_t *)o->value = v;
        return QN_OK;
    }
    default: {
        char *end;
        double d = strtod(text, &end);
        if (end == text || *end) d = NAN;
        return set_number(o, d, d == floor(d), shown, source, err);
    }
    }
}

static qn_status set_json(qn_option *o, const json_t *v, qn_error *err)
{
    if (o->kind == QN_OPT_STRINGS && json_is_array(v)) {
        qn_status st = QN_OK;
        for (size_t i = 0; i < json_array_size(v) && !st; i++) {
            const char *text = json_string_value(json_array_get(v, i));
            st = text ? add_string(o, text, "file", err)
                      : qn_fail(err, QN_USAGE, "file: '%s' must hold strings", o->name);
        }
        return st;
    }
    o->source = "file";
    if (o->kind == QN_OPT_U64 && json_is_integer(v)) { /* not by way of a double, as in set_text */
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
        return set_text(o, text, "file", err);
    }
    if (o->kind == QN_OPT_FLAG && json_is_boolean(v)) return *(bool *)o->value = json_is_true(v), QN_OK;
    if (o->kind == QN_OPT_STRING && json_is_string(v))
        return *(const char **)o->value = json_string_value(v), QN_OK;
    if (o->kind != QN_OPT_FLAG && o->kind != QN_OPT_STRING && o->kind != QN_OPT_STRINGS &&
        json_is_number(v)) {
        char shown[32];
        double d = json_number_value(v);
        snprintf(shown, sizeof shown, "%.16g", d);
        return set_number(o, d, d == floor(d), shown, "file", err);
    }
    return qn_fail(err, QN_USAGE, "file: '%s' has the wrong type", o->name);
}

static qn_status from_file(qn_config *c, qn_option *options, size_t n, const char *path, qn_error *err)
{
    json_error_t e;
    FILE *f = fopen(path, "rb");
    if (!f) return qn_fail(err, QN_USAGE, "%s: %s", path, strerror(errno));
    char *text = malloc(MAX_FILE_BYTES + 1);
    size_t got = text ? fread(text, 1, MAX_FILE_BYTES + 1, f) : 0;
    fclose(f);
    if (text && got <= MAX_FILE_BYTES) c->file = json_loadb(text, got, JSON_REJECT_DUPLICATES, &e);
    free(text);
    if (!text) return qn_fail(err, QN_NOMEM, "%s: no memory for the file", path);
    if (got > MAX_FILE_BYTES)
        return qn_fail(err, QN_USAGE, "%s: over the limit of %d bytes", path, MAX_FILE_BYTES);
    if (!c->file) return qn_fail(err, QN_USAGE, "%s: line %d: %s", path, e.line, e.text);
    if (!json_is_object(c->file)) return qn_fail(err, QN_USAGE, "%s: must hold a JSON object", path);
    const char *key;
    json_t *v;
    json_object_foreach(c->file, key, v)
    {
        char name[64];
        size_t i = 0;
        if (strcmp(key, "config_version") == 0) {
            if (json_integer_value(v) != 1)
                return qn_fail(err, QN_USAGE, "%s: config_version must be 1", path);
            continue;
        }
        for (; i < n; i++) {
            spell(name, sizeof name, options[i].name, false);
            if (strcmp(name, key) == 0) break;
        }
        if (i == n) {
            qn_printable(name, sizeof name, key, strlen(key));
            return qn_fail(err, QN_USAGE, "%s: no option '%s'", path, name);
        }
        qn_status st = set_json(&options[i], v, err);
        if (st) {
            qn_error_context(err, "%s", path);
            return st;
        }
    }
    return QN_OK;
}

static qn_status from_environment(qn_option *options, size_t n, qn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char name[80] = "QUERN_";
        spell(name + 6, sizeof name - 6, options[i].name, true);
        const char *text = getenv(name);
        if (!text || strlen(options[i].name) < 2) continue;
        qn_status st = set_text(&options[i], text, "environment", err);
        if (st) return st;
    }
    return QN_OK;
}

/* The option that argv names, or NULL; *inline_value: what stands behind '='. */
static qn_option *named(qn_option *options, size_t n, const char *arg, const char **inline_value)
{
    const char *name = arg + (arg[1] == '-' ? 2 : 1), *eq = strchr(name, '=');
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    *inline_value = eq ? eq + 1 : NULL;
    for (size_t i = 0; i < n; i++)
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0 &&
            (arg[1] == '-' || len == 1))
            return &options[i];
    return NULL;
}

static qn_status from_arguments(qn_config *c, qn_option *options, size_t n, int argc, char **argv,
                                qn_error *err)
{
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value;
        if (only_words || arg[0] != '-' || arg[1] == 0) {
            c->words[c->n_words++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_words = true;
            continue;
        }
        if (strcmp(arg, "--print-config") == 0) {
            c->print = true;
            continue;
        }
        if (strcmp(arg, "--config") == 0) {
            i++; /* read before */
            continue;
        }
        if (strncmp(arg, "--config=", 9) == 0) continue;
        qn_option *o = named(options, n, arg, &value);
        if (!o) {
            char shown[64];
            return qn_fail(err, QN_USAGE, "no option '%s'",
                           qn_printable(shown, sizeof shown, arg, strlen(arg)));
        }
        if (o->kind == QN_OPT_FLAG && !value) value = "1";
        if (!value && i + 1 < argc) value = argv[++i];
        if (!value) return qn_fail(err, QN_USAGE, "option '%s' needs a value", arg);
        qn_status st = set_text(o, value, "command line", err);
        if (st) return st;
    }
    return QN_OK;
}

qn_status qn_config_resolve(qn_config *c, qn_option *options, size_t n, int argc, char **argv, qn_error *err)
{
    *c = (qn_config){0};
    const char *path = getenv("QUERN_CONFIG");
    for (size_t i = 0; i < n; i++) options[i].source = "default";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0) return c->help = true, QN_OK;
        if (strcmp(argv[i], "--config") == 0) {
            if (i + 1 == argc) return qn_fail(err, QN_USAGE, "option '--config' needs a value");
            path = argv[i + 1];
        }
        if (strncmp(argv[i], "--config=", 9) == 0) path = argv[i] + 9;
    }
    c->words = calloc((size_t)argc + 1, sizeof *c->words);
    if (!c->words) return qn_fail(err, QN_NOMEM, "no memory for the command line");
    qn_status st = QN_OK;
    if (path) st = from_file(c, options, n, path, err);
    if (!st) st = from_environment(options, n, err);
    if (!st) st = from_arguments(c, options, n, argc, argv, err);
    return st;
}

void qn_config_deinit(qn_config *c)
{
    json_decref(c->file);
    free(c->words);
    *c = (qn_config){0};
}

/* The float as the shortest decimal that gives it back: 0.7, where the nearest double of 0.7f is
 * 0.69999998807907104. */
static json_t *float_json(float f)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)f);
    double d = strtod(text, NULL);
    return json_real((float)d == f ? d : (double)f);
}

static json_t *value_json(const qn_option *o)
{
    double number = 0;
    switch (o->kind) {
    case QN_OPT_FLAG: return json_boolean(*(bool *)o->value);
    case QN_OPT_STRING: {
        const char *text = *(const char **)o->value;
        return text ? json_string(text) : json_null();
    }
    case QN_OPT_STRINGS: {
        const qn_string_list *list = o->value;
        json_t *a = json_array();
        for (size_t i = 0; i < list->n; i++) json_array_append_new(a, json_string(list->v[i]));
        return a;
    }
    case QN_OPT_U32: number = *(uint32_t *)o->value; break;
    case QN_OPT_U64: number = (double)*(uint64_t *)o->value; break;
    case QN_OPT_F32: number = (double)*(float *)o->value; break;
    }
    if (!(number >= o->min && number <= o->max)) return json_null(); /* a default that says "not set" */
    if (o->kind == QN_OPT_F32) return float_json(*(float *)o->value);
    return json_integer(o->kind == QN_OPT_U32 ? *(uint32_t *)o->value : (json_int_t) * (uint64_t *)o->value);
}

json_t *qn_config_json(const qn_option *options, size_t n, const char *verb)
{
    json_t *all = json_object();
    for (size_t i = 0; i < n; i++)
        json_object_set_new(
            all, options[i].name,
            json_pack("{s:o, s:s}", "value", value_json(&options[i]), "source", options[i].source));
    return json_pack("{s:i, s:s, s:o}", "config_version", 1, "verb", verb, "options", all);
}

void qn_config_help(const qn_option *options, size_t n, qn_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        char left[48];
        snprintf(left, sizeof left, "%s%s%s%s", strlen(options[i].name) == 1 ? "-" : "--", options[i].name,
                 options[i].arg ? " " : "", options[i].arg ? options[i].arg : "");
        qn_buf_printf(out, "  %-26s %s\n", left, options[i].help);
    }
    qn_buf_str(
        out,
        "  --config FILE              options from a JSON file, under the environment (QUERN_...) and these\n"
        "  --print-config             print the resolved configuration as JSON and stop\n");
}

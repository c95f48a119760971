/* cli_common.c - what the verbs share: printing errors, reading files. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/verbs.h"

int qn_cli_error(const qn_error *err)
{
    fflush(stdout);
    fprintf(stderr, "quern: %s\n", err->msg);
    return qn_status_exit_code(err->status);
}

int qn_cli_start(qn_config *c, qn_option *options, size_t n, int argc, char **argv, const char *usage,
                 size_t min_words, size_t max_words, qn_error *err)
{
    int rc = -1;
    qn_status st = qn_config_resolve(c, options, n, argc, argv, err);
    if (st) {
        rc = err->status == QN_USAGE ? qn_cli_usage(argv[0], "%s", err->msg) : qn_cli_error(err);
    } else if (c->help) {
        qn_buf b;
        qn_buf_init(&b, 0);
        qn_buf_printf(&b, "usage: %s [options]\n\n", usage);
        qn_config_help(options, n, &b);
        if (b.data) fputs(b.data, stdout);
        qn_buf_deinit(&b);
        rc = 0;
    } else if (c->print) {
        json_t *j = qn_config_json(options, n, argv[0]);
        json_dumpf(j, stdout, QN_CONFIG_DUMP_FLAGS);
        putchar('\n');
        json_decref(j);
        rc = 0;
    } else if (c->n_words < min_words || c->n_words > max_words) {
        rc = c->n_words < min_words
                 ? qn_cli_usage(argv[0], "MODEL is missing")
                 : qn_cli_usage(argv[0], "too many arguments at '%s'", c->words[max_words]);
    }
    if (rc >= 0) qn_config_deinit(c);
    return rc;
}

int qn_cli_usage(const char *verb, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "quern: %s: ", verb);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, " (quern %s --help)\n", verb);
    va_end(ap);
    return 2;
}

qn_status qn_cli_read_file(const char *path, size_t max_bytes, char **data, size_t *n, qn_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    *data = NULL;
    if (!f) return qn_fail(err, QN_NOT_FOUND, "%s: %s", path, strerror(errno));
    qn_buf b;
    qn_buf_init(&b, max_bytes);
    qn_status st = QN_OK;
    char chunk[16384];
    size_t got;
    while ((got = fread(chunk, 1, sizeof chunk, f)) > 0)
        if (!qn_buf_add(&b, chunk, got)) break;
    if (ferror(f)) st = qn_fail(err, QN_IO, "%s: %s", path, strerror(errno));
    if (!st) st = qn_buf_status(&b, path, err);
    if (!st) {
        *data = qn_buf_take(&b, n);
        if (!*data) st = qn_fail(err, QN_NOMEM, "%s: no memory for the file", path);
    }
    qn_buf_deinit(&b);
    if (!is_stdin) fclose(f);
    return st;
}

qn_status qn_cli_read_json(const char *path, size_t max_bytes, json_t **out, qn_error *err)
{
    char *text;
    size_t n;
    json_error_t e;
    *out = NULL;
    qn_status st = qn_cli_read_file(path, max_bytes, &text, &n, err);
    if (st) return st;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    free(text);
    return *out ? QN_OK : qn_fail(err, QN_INVALID, "%s: line %d: %s", path, e.line, e.text);
}

qn_status qn_cli_kv(const char *name, qn_kv_format *out, qn_error *err)
{
    if (strcmp(name, "f16") == 0) return *out = QN_KV_F16, QN_OK;
    if (strcmp(name, "f32") == 0) return *out = QN_KV_F32, QN_OK;
    return qn_fail(err, QN_USAGE, "--kv '%s' is not in this version; f16 and f32 are", name);
}

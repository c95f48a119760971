/* verb_tokenize.c - `quern tokenize`: ids and pieces of a text, or a file of texts to a file of ids.
 *
 * Without TEXT it reads standard input. A token a line: the id, a tab, the piece as a JSON string. Bytes that
 * are not UTF-8 are read as U+FFFD. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cli/verbs.h"
#include "text/tokenizer.h"

typedef struct options {
    const char *text, *jsonl;
    bool no_special, json;
} options;

/* s[0..n) with every maximal ill-formed part replaced by U+FFFD. */
static bool repair(qn_buf *out, const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;
    qn_buf_reset(out);
    for (size_t i = 0, len; i < n; i += len) {
        if (qn_utf8_scan(s + i, n - i, &len) == QN_UTF8_CHAR)
            qn_buf_add(out, s + i, len);
        else
            qn_buf_add(out, "\xef\xbf\xbd", 3);
    }
    return qn_buf_add(out, "", 0);
}

/* A piece for JSON and for a line: ill-formed parts (a token may end inside a character) as U+FFFD. */
static json_t *piece_json(const qn_tokenizer *t, int32_t id)
{
    const char *bytes;
    size_t n;
    qn_buf b;
    qn_buf_init(&b, 0);
    qn_tokenizer_piece(t, id, &bytes, &n);
    json_t *s = repair(&b, bytes, n) ? json_stringn(b.data, b.len) : NULL;
    qn_buf_deinit(&b);
    return s;
}

static qn_status dump(json_t *doc, qn_error *err)
{
    if (!doc || json_dumpf(doc, stdout, JSON_ENSURE_ASCII | JSON_COMPACT) != 0)
        return qn_fail(err, QN_NOMEM, "no memory for the output");
    putchar('\n');
    return QN_OK;
}

static json_t *ids_json(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static qn_status print_lines(const qn_tokenizer *t, const int32_t *ids, size_t n, qn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        json_t *piece = piece_json(t, ids[i]);
        char *quoted = piece ? json_dumps(piece, JSON_ENCODE_ANY) : NULL;
        if (quoted) printf("%d\t%s\n", ids[i], quoted);
        free(quoted);
        json_decref(piece);
        if (!quoted) return qn_fail(err, QN_NOMEM, "no memory for the output");
    }
    return QN_OK;
}

static qn_status one_text(const qn_tokenizer *t, const options *o, qn_error *err)
{
    char *input = NULL;
    const char *text = o->text;
    size_t n = text ? strlen(text) : 0, n_ids = 0;
    int32_t *ids = NULL;
    qn_buf b;
    qn_buf_init(&b, 0);
    qn_status st = QN_OK;
    if (!text) {
        st = qn_cli_read_file("-", QN_TOKENIZER_MAX_TEXT, &input, &n, err);
        text = input;
    }
    if (!st && !repair(&b, text, n)) st = qn_buf_status(&b, "the text", err);
    if (!st)
        st = qn_tokenizer_encode(t, b.data, b.len, o->no_special ? QN_SPECIAL_NONE : QN_SPECIAL_ALL, NULL,
                                 &ids, &n_ids, err);
    if (!st && o->json) {
        json_t *doc = json_object(), *pieces = json_array();
        for (size_t i = 0; i < n_ids && !st; i++)
            if (json_array_append_new(pieces, piece_json(t, ids[i])))
                st = qn_fail(err, QN_NOMEM, "no memory for the output");
        json_object_set_new(doc, "ids", ids_json(ids, n_ids));
        json_object_set_new(doc, "pieces", pieces);
        if (!st) st = dump(doc, err);
        json_decref(doc);
    } else if (!st) {
        st = print_lines(t, ids, n_ids, err);
    }
    free(ids);
    free(input);
    qn_buf_deinit(&b);
    return st;
}

static qn_status one_row(const qn_tokenizer *t, const char *line, size_t n, qn_error *err)
{
    json_error_t bad;
    json_t *row = json_loadb(line, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &bad);
    if (!row) return qn_fail(err, QN_INVALID, "%s", bad.text);
    json_t *text = json_object_get(row, "text"), *special = json_object_get(row, "special");
    int32_t *ids = NULL;
    size_t n_ids = 0;
    qn_status st;
    if (!json_is_string(text))
        st = qn_fail(err, QN_INVALID, "\"text\" must be a string");
    else if (special && !json_is_boolean(special))
        st = qn_fail(err, QN_INVALID, "\"special\" must be true or false");
    else
        st = qn_tokenizer_encode(t, json_string_value(text), json_string_length(text),
                                 json_is_false(special) ? QN_SPECIAL_NONE : QN_SPECIAL_ALL, NULL, &ids,
                                 &n_ids, err);
    if (!st) {
        json_t *doc = json_object();
        json_object_set_new(doc, "ids", ids_json(ids, n_ids));
        st = dump(doc, err);
        json_decref(doc);
    }
    free(ids);
    json_decref(row);
    return st;
}

static qn_status many_rows(const qn_tokenizer *t, const char *path, qn_error *err)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f) return qn_fail(err, QN_NOT_FOUND, "%s: %s", path, strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    qn_status st = QN_OK;
    for (size_t row = 1; !st && (n = getline(&line, &cap, f)) >= 0; row++) {
        if (strspn(line, " \t\r\n") == (size_t)n) continue;
        st = one_row(t, line, (size_t)n, err);
        if (st) qn_error_context(err, "%s: line %zu", path, row);
    }
    if (!st && ferror(f)) st = qn_fail(err, QN_IO, "%s: %s", path, strerror(errno));
    free(line);
    if (f != stdin) fclose(f);
    return st;
}

int qn_verb_tokenize(int argc, char **argv)
{
    options o = {0};
    qn_option table[] = {
        {"no-special", QN_OPT_FLAG, &o.no_special, 0, 0, NULL,
         "added tokens such as <|im_end|> in the text are plain text", NULL},
        {"json", QN_OPT_FLAG, &o.json, 0, 0, NULL, "print one object: {\"ids\": [...], \"pieces\": [...]}",
         NULL},
        {"jsonl", QN_OPT_STRING, &o.jsonl, 0, 0, "FILE",
         "one {\"text\", \"special\"} a line in, one {\"ids\"} a line out; - for stdin", NULL},
    };
    qn_config c;
    qn_error err;
    int rc = qn_cli_start(&c, table, sizeof table / sizeof table[0], argc, argv,
                          "quern tokenize MODEL [TEXT, or standard input]", 1, 2, &err);
    if (rc >= 0) return rc;
    if (c.n_words == 2) o.text = c.words[1];
    qn_tokenizer *t = NULL;
    qn_status st = QN_OK;
    if (o.jsonl && (o.text || o.no_special))
        st = qn_fail(&err, QN_USAGE, "tokenize: --jsonl takes no TEXT and no --no-special");
    if (!st) st = qn_tokenizer_open_dir(&t, c.words[0], &err);
    if (!st) st = o.jsonl ? many_rows(t, o.jsonl, &err) : one_text(t, &o, &err);
    qn_tokenizer_close(t);
    if (!st && (fflush(stdout) != 0 || ferror(stdout)))
        st = qn_fail(&err, QN_IO, "standard output: %s", strerror(errno));
    qn_config_deinit(&c);
    return st ? qn_cli_error(&err) : 0;
}

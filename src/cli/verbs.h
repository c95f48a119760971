/* verbs.h - one function per verb of the command line. argv[0] is the verb; the result is the exit status: 0
 * done, 1 failed or refused, 2 wrong usage. Each prints its own error, one line "quern: ...", through
 * qn_cli_error. */
#ifndef QN_CLI_VERBS_H
#define QN_CLI_VERBS_H

#include "base/config.h"
#include "base/status.h"

int qn_verb_run(int argc, char **argv);
int qn_verb_serve(int argc, char **argv);
int qn_verb_inspect(int argc, char **argv);
int qn_verb_tokenize(int argc, char **argv);
int qn_verb_template(int argc, char **argv);
int qn_verb_logits(int argc, char **argv);
int qn_verb_program(int argc, char **argv);

/* What every verb does first: resolve the options and check the number of words (min..max, MODEL included).
 * Returns -1 to go on (c is to be deinitialised), else the exit status after help, --print-config or an error
 * was printed. */
int qn_cli_start(qn_config *c, qn_option *options, size_t n, int argc, char **argv, const char *usage,
                 size_t min_words, size_t max_words, qn_error *err);

/* Print "quern: MESSAGE" to stderr and return the exit status of the error. */
int qn_cli_error(const qn_error *err);

/* Print "quern: VERB: ..." with a hint at --help to stderr and return 2. */
int qn_cli_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "f16", "f32" to the format of the KV cache; others are refused by name. */
qn_status qn_cli_kv(const char *name, qn_kv_format *out, qn_error *err) QN_CHECKED;

/* A whole file, or standard input for "-": malloc'ed, NUL-terminated. Limit in bytes. */
qn_status qn_cli_read_file(const char *path, size_t max_bytes, char **data, size_t *n,
                           qn_error *err) QN_CHECKED;

/* The same as a JSON document without duplicate keys; the caller's reference. QN_INVALID names file and line.
 */
qn_status qn_cli_read_json(const char *path, size_t max_bytes, json_t **out, qn_error *err) QN_CHECKED;

#endif

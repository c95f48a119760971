/* config.h - resolving a configuration: a JSON file, then the environment, then the command line, each over
 * the one before.
 *
 * A verb describes its options in a table and gets its variables filled. `--config FILE` names a JSON object
 * whose keys are the option names with '_' for '-' ({"config_version": 1, "max_tokens": 64}); the environment
 * spells them QUERN_MAX_TOKENS. Unknown options and keys are refused by name; unknown QUERN_ variables are
 * not looked at. qn_config_json gives the resolved configuration with the source of every value, for printing
 * (--print-config) and for records.
 *
 * Strings point into argv, the environment or the file, which the qn_config keeps; they live until
 * qn_config_deinit. One thread, at start-up. */
#ifndef QN_BASE_CONFIG_H
#define QN_BASE_CONFIG_H

#include <jansson.h>

#include "base/status.h"

typedef enum qn_option_kind {
    QN_OPT_FLAG,    /* bool: --name; in a file true or false, in the environment 1 or 0 */
    QN_OPT_STRING,  /* const char * */
    QN_OPT_STRINGS, /* qn_string_list: given again, it grows; in a file a list of strings */
    QN_OPT_U32,     /* uint32_t within [min, max] */
    QN_OPT_U64,     /* uint64_t within [min, max] */
    QN_OPT_F32      /* float within [min, max] */
} qn_option_kind;

/* What a QN_OPT_STRINGS option fills. A source replaces what the sources under it gave. */
#define QN_STRINGS_MAX 64
typedef struct qn_string_list {
    size_t n;
    const char *v[QN_STRINGS_MAX];
} qn_string_list;

typedef struct qn_option {
    const char *name; /* "top-p", given as --top-p; a name of one letter is also given as -x */
    qn_option_kind kind;
    void *value; /* holds the default before */
    double min, max;
    const char *arg; /* "N", for help; NULL for flags */
    const char *help;
    const char *source; /* filled: "default", "file", "environment", "command line" */
} qn_option;

typedef struct qn_config {
    json_t *file;
    const char **words; /* what is not an option, in order: points into argv */
    size_t n_words;
    bool help;  /* --help was given: nothing else was checked */
    bool print; /* --print-config was given */
} qn_config;

/* argv[0] is the verb. Errors are QN_USAGE. */
qn_status qn_config_resolve(qn_config *c, qn_option *options, size_t n, int argc, char **argv,
                            qn_error *err) QN_CHECKED;
void qn_config_deinit(qn_config *c); /* accepts a zeroed one */

/* {"config_version": 1, "verb": ..., "options": {name: {"value", "source"}}}; new reference or NULL without
 * memory. A default outside the option's range means "not set" and is null. Print it with
 * QN_CONFIG_DUMP_FLAGS, which keep 0.7 as it was given. */
#define QN_CONFIG_DUMP_FLAGS (JSON_INDENT(1) | JSON_REAL_PRECISION(9))
json_t *qn_config_json(const qn_option *options, size_t n, const char *verb);

/* The lines of --help for the table, to be appended to a usage line. */
struct qn_buf;
void qn_config_help(const qn_option *options, size_t n, struct qn_buf *out);

#endif

/* test_config.c - resolving a configuration: who wins, every refusal and its words, the printed form. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/config.h"

typedef struct bench { /* one option of each kind, reset before each case */
    bool flag;
    const char *name;
    qn_string_list set;
    uint32_t threads;
    uint64_t seed;
    float top_p;
} bench;

static bench b;
static qn_option options[6];
static char path[] = "/tmp/quern-test-config-XXXXXX";

static void reset(void)
{
    b = (bench){.name = "none", .threads = 4, .seed = UINT64_MAX, .top_p = -1};
    const qn_option fresh[6] = {
        {"dry-run", QN_OPT_FLAG, &b.flag, 0, 0, NULL, "a flag", NULL},
        {"o", QN_OPT_STRING, &b.name, 0, 0, "FILE", "a letter", NULL},
        {"set", QN_OPT_STRINGS, &b.set, 0, 0, "NAME=JSON", "a list", NULL},
        {"threads", QN_OPT_U32, &b.threads, 0, 64, "N", "a number", NULL},
        {"seed", QN_OPT_U64, &b.seed, 0, 0x1p63, "N", "a long number", NULL},
        {"top-p", QN_OPT_F32, &b.top_p, 0, 1, "P", "a fraction", NULL},
    };
    memcpy(options, fresh, sizeof options);
    unsetenv("QUERN_CONFIG");
    unsetenv("QUERN_THREADS");
    unsetenv("QUERN_DRY_RUN");
    unsetenv("QUERN_SET");
}

static void write_file(const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Words separated by single spaces; FILE stands for the path. */
static qn_status resolve(qn_config *c, const char *line, qn_error *err)
{
    static char copy[512];
    static char *argv[32];
    int argc = 0;
    snprintf(copy, sizeof copy, "verb %s", line);
    for (char *p = copy; p && *p;) {
        char *space = strchr(p, ' ');
        if (space) *space = 0;
        argv[argc++] = strcmp(p, "FILE") == 0 ? path : p;
        p = space ? space + 1 : NULL;
    }
    return qn_config_resolve(c, options, 6, argc, argv, err);
}

static void each_source_over_the_one_before(void **state)
{
    (void)state;
    static const struct {
        const char *file, *environment, *line;
        uint32_t threads;
        const char *source;
    } t[] = {
        {NULL, NULL, "", 4, "default"},
        {"{\"threads\": 1}", NULL, "", 1, "file"},
        {"{\"threads\": 1}", "2", "", 2, "environment"},
        {"{\"threads\": 1}", "2", "--threads 3", 3, "command line"},
        {NULL, "2", "--threads=3", 3, "command line"},
        {"{\"config_version\": 1}", "2", "", 2, "environment"},
        {NULL, NULL, "--threads 5 --threads 6", 6, "command line"},
        {NULL, "0", "", 0, "environment"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_config c;
        qn_error err = {0};
        char line[256];
        reset();
        if (t[i].file) write_file(t[i].file);
        if (t[i].environment) setenv("QUERN_THREADS", t[i].environment, 1);
        snprintf(line, sizeof line, "%s%s", t[i].line,
                 t[i].file ? (*t[i].line ? " --config FILE" : "--config FILE") : "");
        assert_int_equal(resolve(&c, line, &err), QN_OK);
        assert_int_equal(b.threads, t[i].threads);
        assert_string_equal(options[3].source, t[i].source);
        qn_config_deinit(&c);
    }
}

static void kinds_and_words(void **state)
{
    (void)state;
    qn_config c;
    qn_error err = {0};
    reset();
    assert_int_equal(
        resolve(
            &c,
            "model --dry-run -o out --set a=1 --seed 9007199254740993 --set b=2 --top-p 0.25 - -- --threads x",
            &err),
        QN_OK);
    assert_true(b.flag);
    assert_string_equal(b.name, "out");
    assert_int_equal(b.set.n, 2);
    assert_string_equal(b.set.v[0], "a=1");
    assert_string_equal(b.set.v[1], "b=2");
    assert_true(b.seed == 9007199254740993u); /* 2^53 + 1: no double on the way */
    assert_true(b.top_p == 0.25f);
    assert_int_equal(c.n_words, 4);
    assert_string_equal(c.words[0], "model");
    assert_string_equal(c.words[1], "-");
    assert_string_equal(c.words[2], "--threads");
    assert_string_equal(c.words[3], "x");
    qn_config_deinit(&c);

    reset();
    write_file(
        "{\"dry_run\": true, \"o\": \"from the file\", \"set\": [\"a\", \"b\"], \"seed\": 9007199254740993, \"top_p\": 0.5, \"threads\": 2.0}");
    setenv("QUERN_CONFIG", path, 1);
    setenv("QUERN_DRY_RUN", "0", 1);
    assert_int_equal(resolve(&c, "--set c", &err), QN_OK);
    assert_false(b.flag);
    assert_string_equal(b.name, "from the file");
    assert_int_equal(b.set.n, 1); /* the command line's list replaces the file's */
    assert_string_equal(b.set.v[0], "c");
    assert_true(b.seed == 9007199254740993u);
    assert_true(b.top_p == 0.5f);
    assert_int_equal(b.threads, 2);
    qn_config_deinit(&c);

    reset();
    assert_int_equal(resolve(&c, "--frob --help", &err), QN_OK); /* help comes before complaints */
    assert_true(c.help);
    qn_config_deinit(&c);
    reset();
    assert_int_equal(resolve(&c, "--print-config --dry-run=false", &err), QN_OK);
    assert_true(c.print);
    assert_false(b.flag);
    qn_config_deinit(&c);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *file, *line, *message; /* of the message: this part */
    } t[] = {
        {NULL, "--frob", "no option '--frob'"},
        {NULL, "-x", "no option '-x'"},
        {NULL, "--o1 a", "no option '--o1'"},
        {NULL, "-threads 1", "no option '-threads'"},
        {NULL, "--\x1b[2J", "no option '--\\x1b[2J'"},
        {NULL, "--threads", "option '--threads' needs a value"},
        {NULL, "--config", "option '--config' needs a value"},
        {NULL, "--threads 65", "command line: --threads must be a whole number from 0 to 64, not '65'"},
        {NULL, "--threads -1", "--threads must be a whole number"},
        {NULL, "--threads 1.5", "--threads must be a whole number"},
        {NULL, "--threads 4x", "not '4x'"},
        {NULL, "--threads=", "not ''"},
        {NULL, "--threads nan", "not 'nan'"},
        {NULL, "--top-p 1.01", "command line: --top-p must be a number from 0 to 1, not '1.01'"},
        {NULL, "--top-p nan", "not 'nan'"},
        {NULL, "--seed -1", "--seed must be a whole number"},
        {NULL, "--seed 99999999999999999999", "--seed must be a whole number"},
        {NULL, "--dry-run=yes", "command line: --dry-run must be 1 or 0, not 'yes'"},
        {NULL, "--config /no/such/file", "/no/such/file: No such file or directory"},
        {"{\"frob\": 1}", "", "no option 'frob'"},
        {"{\"dry-run\": true}", "", "no option 'dry-run'"},
        {"{\"threads\": \"4\"}", "", "file: 'threads' has the wrong type"},
        {"{\"dry_run\": 1}", "", "file: 'dry-run' has the wrong type"},
        {"{\"o\": 1}", "", "file: 'o' has the wrong type"},
        {"{\"set\": \"a\"}", "", "file: 'set' has the wrong type"},
        {"{\"set\": [1]}", "", "file: 'set' must hold strings"},
        {"{\"set\": 1}", "", "file: 'set' has the wrong type"},
        {"{\"threads\": 65}", "", "file: --threads must be a whole number from 0 to 64, not '65'"},
        {"{\"threads\": 1.5}", "", "not '1.5'"},
        {"{\"seed\": -1}", "", "file: --seed must be a whole number"},
        {"{\"threads\": 1, \"threads\": 2}", "", "duplicate object key"},
        {"{\"config_version\": 2}", "", "config_version must be 1"},
        {"{\"config_version\": \"1\"}", "", "config_version must be 1"},
        {"[1]", "", "must hold a JSON object"},
        {"{\"threads\": ", "", "line 1: "},
        {"", "", "line 1: "},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        qn_config c;
        qn_error err = {0};
        reset();
        if (t[i].file) write_file(t[i].file);
        if (t[i].file) setenv("QUERN_CONFIG", path, 1);
        qn_status st = resolve(&c, t[i].line, &err);
        if (st != QN_USAGE || !strstr(err.msg, t[i].message))
            fail_msg("case %zu: status %d, message '%s'", i, st, err.msg);
        if (t[i].file && !strstr(err.msg, path))
            fail_msg("case %zu: '%s' does not name the file", i, err.msg);
        qn_config_deinit(&c);
    }

    qn_config c;
    qn_error err = {0};
    reset();
    setenv("QUERN_THREADS", "many", 1);
    assert_int_equal(resolve(&c, "--threads 1", &err),
                     QN_USAGE); /* refused even where the command line would win */
    assert_string_equal(err.msg, "environment: --threads must be a whole number from 0 to 64, not 'many'");
    qn_config_deinit(&c);

    reset();
    static char verb[] = "verb", option[] = "--set", value[] = "a";
    char *argv[1 + 2 * (QN_STRINGS_MAX + 1)] = {verb};
    for (size_t i = 1; i < sizeof argv / sizeof argv[0]; i += 2) argv[i] = option, argv[i + 1] = value;
    assert_int_equal(qn_config_resolve(&c, options, 6, 2 * QN_STRINGS_MAX + 1, argv, &err), QN_OK);
    qn_config_deinit(&c);
    reset();
    assert_int_equal(qn_config_resolve(&c, options, 6, 2 * QN_STRINGS_MAX + 3, argv, &err), QN_USAGE);
    assert_string_equal(err.msg, "command line: --set is given more than 64 times");
    qn_config_deinit(&c);

    reset();
    FILE *f = fopen(path, "wb");
    for (int i = 0; i <= 1 << 20; i++) fputc(' ', f);
    fclose(f);
    assert_int_equal(resolve(&c, "--config FILE", &err), QN_USAGE);
    assert_non_null(strstr(err.msg, "over the limit of 1048576 bytes"));
    qn_config_deinit(&c);
}

static void printed(void **state)
{
    (void)state;
    qn_config c;
    qn_error err = {0};
    reset();
    write_file("{\"top_p\": 0.7}");
    setenv("QUERN_SET", "a=1", 1);
    assert_int_equal(resolve(&c, "--config=FILE", &err), QN_USAGE); /* FILE stands for itself here */
    qn_config_deinit(&c);
    reset();
    setenv("QUERN_SET", "a=1", 1);
    assert_int_equal(resolve(&c, "--config FILE --threads 8", &err), QN_OK);
    json_t *j = qn_config_json(options, 6, "verb");
    char *text = json_dumps(j, JSON_COMPACT | (QN_CONFIG_DUMP_FLAGS & ~JSON_INDENT(1)));
    assert_string_equal(text, "{\"config_version\":1,\"verb\":\"verb\",\"options\":{"
                              "\"dry-run\":{\"value\":false,\"source\":\"default\"},"
                              "\"o\":{\"value\":\"none\",\"source\":\"default\"},"
                              "\"set\":{\"value\":[\"a=1\"],\"source\":\"environment\"},"
                              "\"threads\":{\"value\":8,\"source\":\"command line\"},"
                              "\"seed\":{\"value\":null,\"source\":\"default\"},"
                              "\"top-p\":{\"value\":0.7,\"source\":\"file\"}}}");
    free(text);
    json_decref(j);
    qn_config_deinit(&c);

    qn_buf help;
    qn_buf_init(&help, 0);
    qn_config_help(options, 6, &help);
    assert_non_null(strstr(help.data, "  -o FILE                    a letter\n"));
    assert_non_null(strstr(help.data, "  --dry-run                  a flag\n"));
    assert_non_null(strstr(help.data, "  --print-config "));
    qn_buf_deinit(&help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_source_over_the_one_before),
                                       cmocka_unit_test(kinds_and_words), cmocka_unit_test(refusals),
                                       cmocka_unit_test(printed)};
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    int rc = TEST_MAIN(tests);
    unlink(path);
    return rc;
}

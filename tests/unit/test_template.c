/* test_template.c - the template interpreter: constructs against what Jinja makes of them
 * (tests/data/templates), malformed templates, the lines that errors name, limits, and where each byte comes
 * from. */
#include "tap.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mapfile.h"
#include "text/template.h"

static const struct tm noon = {
    .tm_year = 126, .tm_mon = 10, .tm_mday = 30, .tm_hour = 12, .tm_wday = 1, .tm_yday = 333};

/* Parse and render; text and origin are reset. */
static qn_status render(const char *source, size_t n, const json_t *vars, qn_buf *text, qn_buf *origin,
                        qn_error *err)
{
    qn_template *t;
    qn_status st = qn_template_parse(&t, source, n, err);
    if (!st) st = qn_template_render(t, vars, &noon, text, origin, err);
    qn_template_destroy(t);
    return st;
}

static void constructs(void **state)
{
    (void)state;
    json_t *vars = json_load_file("tests/data/templates/vars.json", 0, NULL);
    FILE *f = fopen("tests/data/templates/constructs.jsonl", "rb");
    char *line = NULL;
    size_t cap = 0, rows = 0;
    qn_buf text = {0}, origin = {0};
    assert_non_null(vars);
    assert_non_null(f);
    while (getline(&line, &cap, f) > 0) {
        json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
        const json_t *source = json_object_get(row, "source"), *want = json_object_get(row, "text");
        qn_error err = {0};
        qn_status st =
            render(json_string_value(source), json_string_length(source), vars, &text, &origin, &err);
        if (want && st) fail_msg("%s: %s", json_string_value(source), err.msg);
        if (!want && !st)
            fail_msg("%s: no error, but %s", json_string_value(source), text.data ? text.data : "");
        if (want && (text.len != json_string_length(want) ||
                     (text.len && memcmp(text.data, json_string_value(want), text.len))))
            fail_msg("%s: %s, not %s", json_string_value(source), text.data ? text.data : "",
                     json_string_value(want));
        if (want) assert_int_equal(text.len, origin.len);
        json_decref(row);
        rows++;
    }
    assert_true(rows >= 140);
    free(line);
    fclose(f);
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    json_decref(vars);
}

static void malformed(void **state)
{
    (void)state;
    DIR *d = opendir("tests/data/templates/malformed");
    size_t n_files = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[400], *data;
        size_t n;
        qn_error err = {0};
        qn_template *t;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "tests/data/templates/malformed/%s", e->d_name);
        if (qn_file_read(path, 4096, &data, &n, &err)) fail_msg("%s", err.msg);
        char *exact = malloc(n ? n : 1);
        memcpy(exact, data, n);
        if (qn_template_parse(&t, exact, n, &err) != QN_CORRUPT) fail_msg("%s is accepted", e->d_name);
        assert_null(t);
        assert_ptr_equal(strstr(err.msg, "chat template line "), err.msg);
        free(exact);
        free(data);
        n_files++;
    }
    closedir(d);
    assert_true(n_files >= 30);
}

/* What each prefix of a real template gives is an error or a template, never a fault. */
static void prefixes(void **state)
{
    (void)state;
    char *data;
    size_t n;
    qn_error err;
    assert_int_equal(qn_file_read("models/demo/chat_template.jinja", 1 << 20, &data, &n, &err), QN_OK);
    for (size_t k = 0; k < n; k += 3) {
        qn_template *t;
        char *exact = malloc(k ? k : 1);
        memcpy(exact, data, k);
        if (!qn_template_parse(&t, exact, k, &err)) qn_template_destroy(t);
        free(exact);
    }
    free(data);
}

static void lines(void **state)
{
    (void)state;
    static const struct {
        const char *source, *message;
        qn_status st;
    } table[] = {
        {"a\nb\n{{ x +", "chat template line 3: ", QN_CORRUPT},
        {"\n\n{% if x %}\n\n", "chat template line 4: the template ends, but 'endif' is missing", QN_CORRUPT},
        {"a\r\nb\r\n{{ nope.x }}", "chat template line 3: 'nope' is undefined", QN_INVALID},
        {"{% for i in [1, 2] %}\n{{ i + 'a' }}\n{% endfor %}",
         "chat template line 2: unsupported operand type(s) for +: 'int' and 'str'", QN_INVALID},
        {"{% macro m() %}\n\n{{ 1 // 0 }}{% endmacro %}\n{{ m() }}",
         "chat template line 3: integer division or modulo by zero", QN_INVALID},
        {"{{ x | nope }}", "chat template line 1: no filter named 'nope'", QN_INVALID},
        {"{{ raise_exception('Only this: ' ~ x) }}", "Only this: 5", QN_INVALID},
    };
    json_t *vars = json_pack("{s:i}", "x", 5);
    qn_buf text = {0}, origin = {0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        qn_error err = {0};
        assert_int_equal(render(table[i].source, strlen(table[i].source), vars, &text, &origin, &err),
                         table[i].st);
        if (strncmp(err.msg, table[i].message, strlen(table[i].message)))
            fail_msg("'%s', not '%s'", err.msg, table[i].message);
    }
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    json_decref(vars);
}

static char *repeated(const char *head, const char *unit, size_t times, const char *tail, size_t *n)
{
    size_t h = strlen(head), u = strlen(unit), t = strlen(tail);
    char *s = malloc(h + u * times + t + 1);
    memcpy(s, head, h);
    for (size_t i = 0; i < times; i++) memcpy(s + h + i * u, unit, u);
    memcpy(s + h + u * times, tail, t + 1);
    *n = h + u * times + t;
    return s;
}

static void nesting(void **state)
{
    (void)state;
    static const struct {
        const char *head, *unit, *tail;
    } table[] = {{"{{ ", "(", "1 }}"},     {"{{ ", "[", "1 }}"},     {"{{ ", "-", "1 }}"},
                 {"{{ ", "not ", "1 }}"},  {"{{ 1", " + 1", " }}"},  {"{{ x", ".a", " }}"},
                 {"{{ x", "|e", " }}"},    {"{{ 1", " if 1", " }}"}, {"", "{% if x %}", ""},
                 {"{% for ", "(", "a %}"}, {"{{ 1", " < 2", " }}"},  {"{{ 1 ", "if 1 else 1 ", "}}"},
                 {"{{ x", " is a", " }}"}, {"{{ x", "[0", " }}"},    {"{{ ", "x(", " }}"}};
    static const size_t times[] = {100, 1000, 100000, 1000000};
    json_t *vars = json_object();
    qn_buf text = {0}, origin = {0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (size_t k = 0; k < 4; k++) {
            qn_error err = {0};
            size_t n;
            char *s = repeated(table[i].head, table[i].unit, times[k], table[i].tail, &n);
            qn_status st =
                render(s, n, vars, &text, &origin, &err); /* any answer but a fault; deep ones are refused */
            if (k == 3 && st != QN_CORRUPT && st != QN_TOO_LARGE)
                fail_msg("%s%s...: %s", table[i].head, table[i].unit, err.msg);
            free(s);
        }
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    json_decref(vars);
}

static void limits(void **state)
{
    (void)state;
    static const struct {
        const char *source, *names;
        qn_status st;
    } table[] = {
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested deeper than the limit", QN_TOO_LARGE},
        {"{% set l = range(100000) %}{% for i in l %}{% for j in l %}{% endfor %}{% endfor %}", "steps",
         QN_TOO_LARGE},
        {"{% for i in range(1000000000) %}{% endfor %}", "limit of 100000 items", QN_INVALID},
        {"{{ range(0, 9223372036854775807, 1) }}", "limit of 100000 items", QN_INVALID},
        {"{{ 'x' * 1000000000 }}", "limit of", QN_TOO_LARGE},
        {"{{ [1] * 1000000000 }}", "limit", QN_TOO_LARGE},
        {"{% set ns = namespace(s='0123456789') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
         "bytes of text", QN_TOO_LARGE},
        {"{% set ns = namespace(l=[1, 2]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
         "limit of", QN_TOO_LARGE},
        {"{% set ns = namespace(l=1) %}{% for i in range(300) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
         "limit of 200", QN_INVALID},
        {"{% set ns = namespace(l=1) %}{% for i in range(300) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}",
         "limit of 200", QN_INVALID},
        {"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "limit of 200", QN_INVALID},
        {"{{ 9223372036854775807 + 1 }}", "64 bits", QN_INVALID},
        {"{{ -9223372036854775807 - 2 }}", "64 bits", QN_INVALID},
        {"{{ 10 ** 100 }}", "64 bits", QN_INVALID},
        {"{{ '%1000000d' % 1 }}", "limit of 10000", QN_INVALID},
        {"{{ 'x'|center(1000000) }}", "limit of 10000", QN_INVALID},
    };
    json_t *vars = json_object();
    qn_buf text = {0}, origin = {0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        qn_error err = {0};
        qn_status st = render(table[i].source, strlen(table[i].source), vars, &text, &origin, &err);
        if (st != table[i].st || !strstr(err.msg, table[i].names))
            fail_msg("%s: %s (%s)", table[i].source, err.msg, qn_status_name(st));
    }
    qn_template *t;
    qn_error err;
    char *big = calloc(1, QN_TPL_MAX_SOURCE + 1);
    assert_int_equal(qn_template_parse(&t, big, QN_TPL_MAX_SOURCE + 1, &err), QN_TOO_LARGE);
    free(big);
    assert_int_equal(qn_template_parse(&t, "{{ strftime_now('%Y') }}", 24, &err), QN_OK);
    assert_int_equal(qn_template_render(t, vars, NULL, &text, &origin, &err),
                     QN_INVALID); /* no clock but the caller's */
    qn_template_destroy(t);
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    json_decref(vars);
}

/* d is "<d>". In `want`, t is a byte of the template, . one of data. */
static void origins(void **state)
{
    (void)state;
    static const struct {
        const char *source, *want;
    } table[] = {
        {"ab{{ d }}c", "tt...t"},
        {"{{ 'ab' ~ d ~ 'c' }}", "tt...t"},
        {"{{ 'ab' + d + 1|string }}", "tt...."},
        {"{{ ('<' ~ d)[0:2] }}", "t."},
        {"{{ (d ~ '--')[::-1] }}", "tt..."},
        {"{{ ('a,' ~ d ~ ',b').split(',')|join('+') }}", "tt...tt"},
        {"{{ (' ' ~ d ~ 'x ')|trim }}", "...t"},
        {"{{ d|replace('d', 'lit') }}", ".ttt."},
        {"{{ 'a_b'.replace('_', d) }}", "t...t"},
        {"{{ d|tojson }}", "....."},
        {"{{ ['x']|tojson }}", "....."},
        {"{{ 'ab'|upper }}{{ d|upper }}{{ ('a' ~ d)|upper }}", "tt......."},
        {"{{ 'x%sy%d' % (d, 3) }}", "t...t."},
        {"{{ 'x{}y'.format(d) }}", "t...t"},
        {"{% set x %}a{{ d }}{% endset %}{{ x }}", "t..."},
        {"{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(d) }}", "t...t"},
        {"{{ [d, 'x'] }}", "............"},
        {"{% for c in d ~ 'x' %}{{ c }}{% endfor %}", "...t"},
        {"{{ {'k': d}.k }}{% for k, v in o.items() %}{{ k }}{{ v }}{% endfor %}", "....."},
        {"{{ 7 }}{{ true }}", "....."},
        {"{{ d|e }}", "........."},
        {"{{ ('a\\n' ~ d)|indent(2) }}", "tt....."},
    };
    json_t *vars = json_pack("{s:s, s:{s:s}}", "d", "<d>", "o", "k", "v");
    qn_buf text = {0}, origin = {0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        qn_error err = {0};
        char got[64] = {0};
        if (render(table[i].source, strlen(table[i].source), vars, &text, &origin, &err))
            fail_msg("%s: %s", table[i].source, err.msg);
        assert_int_equal(text.len, origin.len);
        for (size_t k = 0; k < origin.len && k < 63; k++) got[k] = origin.data[k] ? 't' : '.';
        if (strcmp(got, table[i].want))
            fail_msg("%s: %s comes from %s, not %s", table[i].source, text.data, got, table[i].want);
    }
    qn_buf_deinit(&text);
    qn_buf_deinit(&origin);
    json_decref(vars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constructs), cmocka_unit_test(malformed), cmocka_unit_test(prefixes),
        cmocka_unit_test(lines),      cmocka_unit_test(nesting),   cmocka_unit_test(limits),
        cmocka_unit_test(origins),
    };
    return TEST_MAIN(tests);
}

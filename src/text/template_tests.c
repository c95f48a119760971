/* template_tests.c - the tests of a template (`x is string`): one table. */
#include <string.h>
#include <utf8proc.h>

#include "text/template_int.h"

#define TEST(name) static bool name(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_args *a, bool *out)
#define SIMPLE(name, expression)                                                                             \
    TEST(name)                                                                                               \
    {                                                                                                        \
        (void)r;                                                                                             \
        (void)a;                                                                                             \
        (void)v;                                                                                             \
        *out = (expression);                                                                                 \
        return true;                                                                                         \
    }

SIMPLE(is_defined, v->kind != QN_TV_UNDEFINED)
SIMPLE(is_undefined, v->kind == QN_TV_UNDEFINED)
SIMPLE(is_none, v->kind == QN_TV_NONE)
SIMPLE(is_boolean, v->kind == QN_TV_BOOL)
SIMPLE(is_true, v->kind == QN_TV_BOOL && v->b)
SIMPLE(is_false, v->kind == QN_TV_BOOL && !v->b)
SIMPLE(is_integer, v->kind == QN_TV_INT)
SIMPLE(is_float, v->kind == QN_TV_FLOAT)
SIMPLE(is_number, qn_tpl_is_number(v))
SIMPLE(is_string, v->kind == QN_TV_STR)
SIMPLE(is_mapping, qn_tpl_is_dict(v))
/* As in Jinja, what is undefined counts as an empty sequence. */
SIMPLE(is_sequence,
       v->kind == QN_TV_STR || qn_tpl_is_list(v) || qn_tpl_is_dict(v) || v->kind == QN_TV_UNDEFINED)
SIMPLE(is_iterable, v->kind == QN_TV_STR || qn_tpl_is_list(v) || qn_tpl_is_dict(v) ||
                        v->kind == QN_TV_UNDEFINED || v->kind == QN_TV_LOOP)
SIMPLE(is_callable, v->kind == QN_TV_MACRO || v->kind == QN_TV_FUNCTION || v->kind == QN_TV_METHOD ||
                        v->kind == QN_TV_LOOP)

static bool need(qn_tpl_render *r, const qn_tpl_args *a, const qn_tpl_value **x)
{
    *x = a->n ? &a->v[0] : NULL;
    return *x || qn_tpl_fail(r, "a test lacks its argument");
}

static bool compare(qn_tpl_render *r, char op, const qn_tpl_value *v, const qn_tpl_args *a, bool *out)
{
    const qn_tpl_value *x;
    return need(r, a, &x) && qn_tpl_compare(r, op, v, x, out);
}
TEST(is_eq)
{
    return compare(r, QN_OP_EQ, v, a, out);
}
TEST(is_ne)
{
    return compare(r, QN_OP_NE, v, a, out);
}
TEST(is_lt)
{
    return compare(r, '<', v, a, out);
}
TEST(is_le)
{
    return compare(r, QN_OP_LE, v, a, out);
}
TEST(is_gt)
{
    return compare(r, '>', v, a, out);
}
TEST(is_ge)
{
    return compare(r, QN_OP_GE, v, a, out);
}
TEST(is_in)
{
    return compare(r, QN_OP_IN, v, a, out);
}

TEST(is_sameas)
{
    const qn_tpl_value *x;
    if (!need(r, a, &x)) return false;
    *out = false;
    if (v->kind != x->kind) return true;
    if (qn_tpl_is_list(v) || qn_tpl_is_dict(v)) return *out = v->json == x->json, true;
    return qn_tpl_equal(r, v, x, out);
}

static bool remainder_of(qn_tpl_render *r, const qn_tpl_value *v, int64_t by, int64_t *rest)
{
    if (v->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, v);
    if ((v->kind != QN_TV_INT && v->kind != QN_TV_BOOL) || by == 0)
        return qn_tpl_fail(r, "a whole number is needed, and one other than zero to divide by");
    *rest = by == -1 ? 0 : qn_tpl_int(v) % by;
    return true;
}
TEST(is_odd)
{
    int64_t x = 0;
    (void)a;
    return remainder_of(r, v, 2, &x) && (*out = x != 0, true);
}
TEST(is_even)
{
    int64_t x = 0;
    (void)a;
    return remainder_of(r, v, 2, &x) && (*out = x == 0, true);
}
TEST(is_divisible)
{
    const qn_tpl_value *x;
    int64_t rest = 0;
    if (!need(r, a, &x) || !remainder_of(r, v, x->kind == QN_TV_INT ? x->i : 0, &rest)) return false;
    return *out = rest == 0, true;
}

static bool has_case(qn_tpl_render *r, const qn_tpl_value *v, bool upper, bool *out)
{
    qn_tpl_str s;
    bool some = false, other = false;
    if (!qn_tpl_to_str(r, v, &s)) return false;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        i += qn_tpl_char_at(s.p + i, s.n - i, &cp);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        if (c == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL))
            some = true;
        else if (c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT)
            other = true;
    }
    return *out = some && !other, true;
}
TEST(is_upper)
{
    (void)a;
    return has_case(r, v, true, out);
}
TEST(is_lower)
{
    (void)a;
    return has_case(r, v, false, out);
}

qn_tpl_test_fn qn_tpl_find_test(const char *name, size_t n)
{
    static const struct {
        const char *name;
        qn_tpl_test_fn fn;
    } table[] = {{"defined", is_defined},
                 {"undefined", is_undefined},
                 {"none", is_none},
                 {"boolean", is_boolean},
                 {"true", is_true},
                 {"false", is_false},
                 {"integer", is_integer},
                 {"float", is_float},
                 {"number", is_number},
                 {"string", is_string},
                 {"mapping", is_mapping},
                 {"sequence", is_sequence},
                 {"iterable", is_iterable},
                 {"callable", is_callable},
                 {"odd", is_odd},
                 {"even", is_even},
                 {"divisibleby", is_divisible},
                 {"sameas", is_sameas},
                 {"upper", is_upper},
                 {"lower", is_lower},
                 {"in", is_in},
                 {"eq", is_eq},
                 {"equalto", is_eq},
                 {"==", is_eq},
                 {"ne", is_ne},
                 {"!=", is_ne},
                 {"lt", is_lt},
                 {"lessthan", is_lt},
                 {"<", is_lt},
                 {"le", is_le},
                 {"<=", is_le},
                 {"gt", is_gt},
                 {"greaterthan", is_gt},
                 {">", is_gt},
                 {"ge", is_ge},
                 {">=", is_ge}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strlen(table[i].name) == n && !memcmp(table[i].name, name, n)) return table[i].fn;
    return NULL;
}

/* template_format.c - Python's two ways to put values into a string: "%s" % x (and the filter format) and
 * "{}".format(x). The format's own bytes and values that are strings keep their origin; numbers are data. */
#include <string.h>

#include "text/template_int.h"

#define MAX_WIDTH 10000

/* Append s padded to width code points: '<' left, '>' right, '^' centred. */
static bool pad(qn_tpl_render *r, qn_tpl_text *t, const qn_tpl_str *s, size_t width, char align, char fill)
{
    size_t n = qn_tpl_chars(s), gap = n < width ? width - n : 0,
           left = align == '>'   ? gap
                  : align == '^' ? gap / 2
                                 : 0;
    for (size_t i = 0; i < left; i++)
        if (!qn_tpl_add_data(r, t, &fill, 1, 0)) return false;
    if (!qn_tpl_add(r, t, s)) return false;
    for (size_t i = left; i < gap; i++)
        if (!qn_tpl_add_data(r, t, &fill, 1, 0)) return false;
    return true;
}

static bool number(const char *p, size_t n, size_t *i, size_t *out)
{
    *out = 0;
    while (*i < n && p[*i] >= '0' && p[*i] <= '9') {
        *out = *out * 10 + (size_t)(p[(*i)++] - '0');
        if (*out > MAX_WIDTH) return false;
    }
    return true;
}

/* The value as text for a conversion letter; false after failing. */
static bool convert(qn_tpl_render *r, const qn_tpl_value *v, char type, bool has_prec, size_t prec, bool plus,
                    qn_tpl_str *out)
{
    char buf[512];
    int n;
    if (type == 's' || type == 'r') {
        qn_tpl_text t = {0};
        if (type == 'r' ? !qn_tpl_repr(r, &t, v, 0) : !qn_tpl_to_str(r, v, out)) return false;
        if (type == 'r') *out = qn_tpl_done(&t);
        if (has_prec && qn_tpl_chars(out) > prec) {
            qn_tpl_value cut, whole = QN_TV_OF_STR(*out),
                              b[3] = {QN_TV_OF_INT(0), QN_TV_OF_INT((int64_t)prec), QN_TV(QN_TV_NONE)};
            if (!qn_tpl_slice(r, &whole, b, &cut)) return false;
            *out = cut.s;
        }
        return true;
    }
    if (v->kind == QN_TV_UNDEFINED) return qn_tpl_fail_undefined(r, v);
    if (!qn_tpl_is_number(v))
        return qn_tpl_fail(r, "%%%c format: a number is required, not %s", type, qn_tpl_type(v));
    if (prec > 100) return qn_tpl_fail(r, "a precision over the limit of 100");
    long long i = v->kind == QN_TV_FLOAT ? 0 : qn_tpl_int(v);
    double f = qn_tpl_number(v);
    if (v->kind == QN_TV_FLOAT && strchr("di", type)) {
        if (!(f > -9e18 && f < 9e18)) return qn_tpl_fail(r, "a number of more than 64 bits");
        i = (long long)f;
    } else if (v->kind == QN_TV_FLOAT && strchr("xXo", type)) {
        return qn_tpl_fail(r, "%%%c format: an integer is required, not float", type);
    }
    int p = has_prec ? (int)prec : 6;
    unsigned long long u = i < 0 ? 0ull - (unsigned long long)i : (unsigned long long)i;
    const char *sign = i < 0 ? "-" : plus ? "+" : "", *fsign = plus && f >= 0 ? "+" : "";
    switch (type) {
    case 'd':
    case 'i': n = snprintf(buf, sizeof buf, "%s%llu", sign, u); break;
    case 'x': n = snprintf(buf, sizeof buf, "%s%llx", sign, u); break;
    case 'X': n = snprintf(buf, sizeof buf, "%s%llX", sign, u); break;
    case 'o': n = snprintf(buf, sizeof buf, "%s%llo", sign, u); break;
    case 'f':
    case 'F': n = snprintf(buf, sizeof buf, "%s%.*f", fsign, p, f); break;
    case 'e': n = snprintf(buf, sizeof buf, "%s%.*e", fsign, p, f); break;
    case 'g': n = snprintf(buf, sizeof buf, "%s%.*g", fsign, p, f); break;
    default:
        return qn_tpl_fail(r, "the format letter '%c' is not supported",
                           type >= 32 && type < 127 ? type : '?');
    }
    char *d = qn_tpl_alloc(r, (size_t)n, 1);
    if (!d) return false;
    memcpy(d, buf, (size_t)n);
    *out = (qn_tpl_str){.p = d, .n = (size_t)n};
    return true;
}

bool qn_tpl_percent(qn_tpl_render *r, const qn_tpl_str *f, const qn_tpl_args *args, qn_tpl_value *out)
{
    qn_tpl_text t = {0};
    size_t used = 0, from = 0;
    for (size_t i = 0; i < f->n;) {
        if (f->p[i] != '%') {
            i++;
            continue;
        }
        qn_tpl_str lit = qn_tpl_sub(f, from, i), s;
        if (!qn_tpl_add(r, &t, &lit)) return false;
        const qn_tpl_value *v = NULL;
        size_t width, prec = 0;
        bool left = false, zero = false, plus = false, has_prec = false;
        i++;
        if (i < f->n && f->p[i] == '(') { /* %(name)s: of a dict or a named argument */
            size_t k = ++i;
            while (i < f->n && f->p[i] != ')') i++;
            if (i >= f->n) return qn_tpl_fail(r, "incomplete format key");
            for (size_t m = 0; m < args->n_named; m++)
                if (strlen(args->names[m]) == i - k && !memcmp(args->names[m], f->p + k, i - k))
                    v = &args->named[m];
            qn_tpl_value key = QN_TV_OF_STR(qn_tpl_sub(f, k, i)), found_v;
            bool found = false;
            if (!v && args->n == 1 && qn_tpl_is_dict(&args->v[0]) &&
                !qn_tpl_lookup(r, &args->v[0], &key, &found_v, &found))
                return false;
            if (found) {
                qn_tpl_value *copy = qn_tpl_alloc(r, 1, sizeof *copy);
                if (!copy) return false;
                *copy = found_v;
                v = copy;
            }
            if (!v) return qn_tpl_fail(r, "a format key that was not given");
            used = args->n;
            i++;
        }
        for (; i < f->n && strchr("-0+ #", f->p[i]) && f->p[i]; i++)
            left |= f->p[i] == '-', zero |= f->p[i] == '0', plus |= f->p[i] == '+';
        if (!number(f->p, f->n, &i, &width)) return qn_tpl_fail(r, "a width over the limit of %d", MAX_WIDTH);
        if (i < f->n && f->p[i] == '.') {
            has_prec = true;
            i++;
            if (!number(f->p, f->n, &i, &prec))
                return qn_tpl_fail(r, "a precision over the limit of %d", MAX_WIDTH);
        }
        if (i >= f->n) return qn_tpl_fail(r, "incomplete format");
        char type = f->p[i++];
        from = i;
        if (type == '%') {
            lit = qn_tpl_sub(f, i - 1, i);
            if (!qn_tpl_add(r, &t, &lit)) return false;
            continue;
        }
        if (!v && used >= args->n) return qn_tpl_fail(r, "not enough arguments for format string");
        if (!v) v = &args->v[used++];
        if (!convert(r, v, type, has_prec, prec, plus, &s) ||
            !pad(r, &t, &s, width, left ? '<' : '>', zero && !left && type != 's' ? '0' : ' '))
            return false;
    }
    if (used < args->n && !(args->n == 1 && qn_tpl_is_dict(&args->v[0])))
        return qn_tpl_fail(r, "not all arguments converted during string formatting");
    qn_tpl_str rest = qn_tpl_sub(f, from, f->n);
    if (!qn_tpl_add(r, &t, &rest)) return false;
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

/* The value a replacement field names: empty or a number: by position; a name: a named argument. */
static bool field_value(qn_tpl_render *r, const qn_tpl_str *name, const qn_tpl_args *args, size_t *automatic,
                        const qn_tpl_value **v)
{
    size_t i = 0, at = 0;
    *v = NULL;
    if (name->n == 0)
        at = (*automatic)++;
    else if (!number(name->p, name->n, &i, &at) || i != name->n)
        at = SIZE_MAX;
    if (at < args->n) *v = &args->v[at];
    for (size_t k = 0; k < args->n_named && at == SIZE_MAX; k++)
        if (qn_tpl_str_is(name, args->names[k])) *v = &args->named[k];
    return *v ||
           qn_tpl_fail(r, "format(): a field without a value (attributes and subscripts are not supported)");
}

bool qn_tpl_format(qn_tpl_render *r, const qn_tpl_str *f, const qn_tpl_args *args, qn_tpl_value *out)
{
    qn_tpl_text t = {0};
    size_t automatic = 0;
    for (size_t i = 0; i < f->n;) {
        char c = f->p[i];
        if ((c == '{' || c == '}') && i + 1 < f->n && f->p[i + 1] == c) {
            qn_tpl_str one = qn_tpl_sub(f, i, i + 1);
            if (!qn_tpl_add(r, &t, &one)) return false;
            i += 2;
            continue;
        }
        if (c == '}') return qn_tpl_fail(r, "format(): a single '}'");
        if (c != '{') {
            size_t k = i;
            while (k < f->n && f->p[k] != '{' && f->p[k] != '}') k++;
            qn_tpl_str lit = qn_tpl_sub(f, i, k);
            if (!qn_tpl_add(r, &t, &lit)) return false;
            i = k;
            continue;
        }
        size_t k = ++i;
        while (k < f->n && f->p[k] != '}' && f->p[k] != ':' && f->p[k] != '!') k++;
        qn_tpl_str name = qn_tpl_sub(f, i, k), s;
        const qn_tpl_value *v;
        char align = 0, fill = ' ', type = 0;
        size_t width = 0, prec = 0;
        bool has_prec = false, plus = false, repr = false;
        if (!field_value(r, &name, args, &automatic, &v)) return false;
        if (k + 1 < f->n && f->p[k] == '!') repr = f->p[k + 1] == 'r', k += 2;
        if (k < f->n && f->p[k] == ':') {
            k++;
            if (k + 1 < f->n && strchr("<>^", f->p[k + 1]) && f->p[k + 1] && !(f->p[k] & 0x80))
                fill = f->p[k], align = f->p[k + 1], k += 2;
            else if (k < f->n && strchr("<>^", f->p[k]) && f->p[k])
                align = f->p[k++];
            if (k < f->n && f->p[k] == '+') plus = true, k++;
            if (k < f->n && f->p[k] == '0' && !align) align = '>', fill = '0', k++;
            if (!number(f->p, f->n, &k, &width))
                return qn_tpl_fail(r, "a width over the limit of %d", MAX_WIDTH);
            if (k < f->n && f->p[k] == '.') {
                has_prec = true;
                k++;
                if (!number(f->p, f->n, &k, &prec))
                    return qn_tpl_fail(r, "a precision over the limit of %d", MAX_WIDTH);
            }
            if (k < f->n && f->p[k] != '}') type = f->p[k++];
        }
        if (k >= f->n || f->p[k] != '}')
            return qn_tpl_fail(r, "format(): a field that is not supported or never ends");
        if (!type) type = repr ? 'r' : has_prec && v->kind == QN_TV_FLOAT ? 'g' : 's';
        if (!align) align = qn_tpl_is_number(v) ? '>' : '<';
        if (!convert(r, v, type, has_prec, prec, plus, &s) || !pad(r, &t, &s, width, align, fill))
            return false;
        i = k + 1;
    }
    *out = QN_TV_OF_STR(qn_tpl_done(&t));
    return true;
}

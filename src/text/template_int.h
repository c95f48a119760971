/* template_int.h - what the files of the template interpreter share: tokens, the tree, values, the render
 * state.
 *
 *   source -> template_lex.c -> tokens -> template_parse.c, template_expr.c -> tree
 *   tree -> template_exec.c (statements), template_eval.c (expressions) -> text and origins
 *
 * Values live in the arena of one render and are never freed one by one. Strings are views: of the JSON that
 * was passed in, of the template's literals, or of the arena. */
#ifndef QN_TEXT_TEMPLATE_INT_H
#define QN_TEXT_TEMPLATE_INT_H

#include "text/template.h"

/* ---- memory ---- */

typedef struct qn_tpl_chunk qn_tpl_chunk;
typedef struct qn_tpl_arena {
    qn_tpl_chunk *chunks;
    size_t left;      /* bytes left in the newest chunk */
    char *at;         /* where the next allocation goes */
    size_t used;      /* bytes of all chunks */
    size_t max_bytes; /* used never exceeds it */
    bool over;        /* the last failure was the maximum, not memory */
} qn_tpl_arena;

void *qn_tpl_arena_alloc(qn_tpl_arena *a, size_t n); /* aligned to 16, not zeroed; NULL: see over */
void qn_tpl_arena_deinit(qn_tpl_arena *a);

/* ---- values ---- */

/* A string and where its bytes came from: o[i] per byte, or, where o is NULL, `all` for every byte. */
typedef struct qn_tpl_str {
    const char *p;
    const uint8_t *o;
    size_t n;
    uint8_t all;
} qn_tpl_str;

typedef enum qn_tpl_kind {
    QN_TV_UNDEFINED, /* s: why, for the message of whoever uses it */
    QN_TV_NONE,
    QN_TV_BOOL,
    QN_TV_INT,
    QN_TV_FLOAT,
    QN_TV_STR,
    QN_TV_LIST,
    QN_TV_TUPLE,
    QN_TV_JSON_LIST, /* a JSON array, read in place */
    QN_TV_DICT,
    QN_TV_JSON_DICT, /* a JSON object, read in place */
    QN_TV_NAMESPACE, /* dict that `set ns.x = ...` may change */
    QN_TV_MACRO,
    QN_TV_LOOP,
    QN_TV_FUNCTION, /* i: one of the qn_tpl_fn */
    QN_TV_METHOD    /* a method of a string, list or dict, with its object */
} qn_tpl_kind;

typedef struct qn_tpl_value qn_tpl_value;
typedef struct qn_tpl_list {
    size_t n;
    const qn_tpl_value *v;
} qn_tpl_list;
typedef struct qn_tpl_dict {
    size_t n, cap;
    qn_tpl_value *k, *v;
} qn_tpl_dict;
typedef struct qn_tpl_macro qn_tpl_macro;
typedef struct qn_tpl_loop qn_tpl_loop;
typedef struct qn_tpl_method qn_tpl_method;

struct qn_tpl_value {
    qn_tpl_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        qn_tpl_str s;
        qn_tpl_list list;
        qn_tpl_dict *dict;
        const json_t *json;
        const qn_tpl_macro *macro;
        qn_tpl_loop *loop;
        const qn_tpl_method *method;
    };
};

struct qn_tpl_method {
    qn_tpl_value self;
    const char *name; /* from the table of methods */
};

typedef enum qn_tpl_fn { QN_TF_RAISE, QN_TF_STRFTIME, QN_TF_RANGE, QN_TF_NAMESPACE, QN_TF_DICT } qn_tpl_fn;

#define QN_TV(k)         ((qn_tpl_value){.kind = (k)})
#define QN_TV_OF_BOOL(x) ((qn_tpl_value){.kind = QN_TV_BOOL, .b = (x)})
#define QN_TV_OF_INT(x)  ((qn_tpl_value){.kind = QN_TV_INT, .i = (x)})
#define QN_TV_OF_STR(x)  ((qn_tpl_value){.kind = QN_TV_STR, .s = (x)})

/* Values of a call: positional, then named. */
typedef struct qn_tpl_args {
    size_t n, n_named;
    const qn_tpl_value *v;
    const char *const *names; /* NUL-terminated */
    const qn_tpl_value *named;
} qn_tpl_args;

/* ---- tokens and tree ---- */

typedef enum qn_tpl_token_kind {
    QN_TT_DATA,
    QN_TT_VAR_BEGIN,
    QN_TT_VAR_END,
    QN_TT_BLOCK_BEGIN,
    QN_TT_BLOCK_END,
    QN_TT_NAME,
    QN_TT_STRING,
    QN_TT_INT,
    QN_TT_FLOAT,
    QN_TT_OP,
    QN_TT_END
} qn_tpl_token_kind;

/* Operators of two characters, as `op`; those of one are themselves. */
enum {
    QN_OP_EQ = 'E',
    QN_OP_NE = 'N',
    QN_OP_LE = 'L',
    QN_OP_GE = 'G',
    QN_OP_FLOOR = 'F',
    QN_OP_POW = 'P',
    QN_OP_IN = 'I',
    QN_OP_NOT_IN = 'O'
};

typedef struct qn_tpl_token {
    qn_tpl_token_kind kind;
    uint32_t line;
    const char *p; /* data, decoded string, name, number */
    size_t n;
    char op;
} qn_tpl_token;

typedef enum qn_tpl_node_kind {
    /* expressions */
    QN_TN_CONST,
    QN_TN_NAME,
    QN_TN_LIST,
    QN_TN_TUPLE,
    QN_TN_DICT,
    QN_TN_ATTR,
    QN_TN_ITEM,
    QN_TN_SLICE,
    QN_TN_CALL,
    QN_TN_FILTER,
    QN_TN_TEST,
    QN_TN_NOT,
    QN_TN_NEG,
    QN_TN_POS,
    QN_TN_BINARY,
    QN_TN_CONCAT,
    QN_TN_COMPARE,
    QN_TN_AND,
    QN_TN_OR,
    QN_TN_IF_ELSE,
    QN_TN_BLOCK_VALUE,
    /* statements */
    QN_TN_TEXT,
    QN_TN_PRINT,
    QN_TN_IF,
    QN_TN_FOR,
    QN_TN_SET,
    QN_TN_SET_BLOCK,
    QN_TN_MACRO,
    QN_TN_CALL_BLOCK,
    QN_TN_FILTER_BLOCK,
    QN_TN_WITH,
    QN_TN_SCOPE,
    QN_TN_BREAK,
    QN_TN_CONTINUE,
    QN_TN_SEQUENCE
} qn_tpl_node_kind;

typedef struct qn_tpl_render qn_tpl_render;
typedef bool (*qn_tpl_filter_fn)(qn_tpl_render *r, const qn_tpl_value *in, const qn_tpl_args *args,
                                 qn_tpl_value *out);
typedef bool (*qn_tpl_test_fn)(qn_tpl_render *r, const qn_tpl_value *in, const qn_tpl_args *args, bool *out);

/* One shape for every node; which fields a kind uses:
 *   ATTR a.name   ITEM a[b]   SLICE a[list[0]:list[1]:list[2]] (NULL where absent)   CALL a(list, names)
 *   FILTER a|name(list, names)   TEST a is [flag: not] name(list, names)   BINARY a op b   COMPARE a ops list
 *   IF_ELSE b if a else c (c may be NULL)   DICT list of key, value, ...
 *   PRINT a   IF list of condition (NULL: else), body, ...   FOR a: target, b: over, c: condition or NULL,
 *   list[0] body, list[1] else or NULL, flag: recursive   SET a = b   SET_BLOCK a = body b, filters c or NULL
 *   MACRO name, list of parameter NAME and default (NULL: none), ..., body b, flag: takes more arguments
 *   CALL_BLOCK a: the call, b: its caller (MACRO)   FILTER_BLOCK a: filters, b: body   WITH list of target,
 * value, ..., body b */
typedef struct qn_tpl_node qn_tpl_node;
struct qn_tpl_node {
    qn_tpl_node_kind kind;
    uint32_t line;
    char op;
    bool flag;
    uint32_t n;      /* entries of list */
    uint32_t n_args; /* CALL, FILTER, TEST: the first n_args of list are positional, the rest named */
    qn_tpl_node *a, *b, *c;
    qn_tpl_node **list;
    const char **names;      /* of the named arguments */
    const char *name;        /* interned in the template: equal names are equal pointers */
    const char *ops;         /* COMPARE: one operator per entry of list */
    qn_tpl_value value;      /* CONST, TEXT */
    qn_tpl_filter_fn filter; /* NULL: unknown, an error when reached */
    qn_tpl_test_fn test;
};

typedef struct qn_tpl_name qn_tpl_name;
struct qn_template {
    qn_tpl_arena arena;
    qn_tpl_name *names[256]; /* interned names by hash */
    qn_tpl_node *root;
};

const char *qn_tpl_intern(qn_template *t, const char *p, size_t n); /* NULL: no memory */
const char *qn_tpl_find_name(const qn_template *t, const char *p,
                             size_t n); /* NULL: the template never says it */

/* ---- parsing ---- */

typedef struct qn_tpl_parser {
    qn_template *t;
    const qn_tpl_token *tok; /* tok[at]; the last one is QN_TT_END */
    size_t at;
    uint32_t depth;
    uint32_t loops;     /* enclosing for blocks within the macro */
    qn_tpl_node *macro; /* innermost macro being parsed, or NULL */
    qn_status st;
    qn_error *err;
} qn_tpl_parser;

/* Cut source (copied into t's arena) into tokens, to be freed with free(). */
qn_status qn_tpl_lex(qn_template *t, const char *source, size_t n, qn_tpl_token **tokens,
                     qn_error *err) QN_CHECKED;

qn_tpl_node *qn_tpl_parse_fail(qn_tpl_parser *p, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
qn_tpl_node *qn_tpl_new_node(qn_tpl_parser *p, qn_tpl_node_kind kind, uint32_t line); /* NULL: failed */
bool qn_tpl_push_node(qn_tpl_parser *p, qn_tpl_node *owner, uint32_t *cap, qn_tpl_node *n);
bool qn_tpl_enter(qn_tpl_parser *p); /* one level deeper; false: over the limit */
bool qn_tpl_at_op(const qn_tpl_parser *p, char op);
bool qn_tpl_at_name(const qn_tpl_parser *p, const char *name);
bool qn_tpl_expect_op(qn_tpl_parser *p, char op);
bool qn_tpl_expect_end(qn_tpl_parser *p, qn_tpl_token_kind end);
const char *qn_tpl_expect_name(qn_tpl_parser *p);

/* Expressions. with_condition: whether `x if y` may follow. A tuple needs no parentheses. NULL: failed. */
qn_tpl_node *qn_tpl_parse_expression(qn_tpl_parser *p, bool with_condition);
qn_tpl_node *qn_tpl_parse_tuple(qn_tpl_parser *p, bool with_condition);
qn_tpl_node *qn_tpl_parse_target(qn_tpl_parser *p, bool with_namespace);
qn_tpl_node *qn_tpl_parse_filters(qn_tpl_parser *p, qn_tpl_node *in); /* name | name ..., for blocks */
bool qn_tpl_parse_call_args(qn_tpl_parser *p, qn_tpl_node *call);
qn_tpl_node *qn_tpl_parse_postfix(qn_tpl_parser *p, qn_tpl_node *n);

/* ---- rendering ---- */

/* Text under construction, with origins; lives in the arena. */
typedef struct qn_tpl_text {
    char *p;
    uint8_t *o;
    size_t n, cap;
} qn_tpl_text;

typedef struct qn_tpl_slot {
    const char *name;
    qn_tpl_value value;
} qn_tpl_slot;
typedef struct qn_tpl_scope qn_tpl_scope;
struct qn_tpl_scope {
    qn_tpl_scope *up;
    uint32_t n, cap;
    bool captured; /* a macro defined inside may look here later */
    qn_tpl_slot *slots;
};

struct qn_tpl_macro {
    const qn_tpl_node *def;
    qn_tpl_scope *closure;
};

struct qn_tpl_loop {
    qn_tpl_list items;
    size_t at;
    uint32_t depth0;
    const qn_tpl_node *node;
    qn_tpl_scope *scope; /* around the loop, for recursion */
};

struct qn_tpl_render {
    const qn_template *t;
    qn_tpl_arena arena;
    qn_tpl_text *out; /* where text goes now */
    qn_tpl_scope *scope;
    const struct tm *now;
    qn_tpl_value block_value;
    uint64_t steps;
    uint32_t depth, line;
    qn_status st;
    qn_error *err;
};

/* All functions that answer bool: false after qn_tpl_fail(), which returns false. The first failure stays. */
bool qn_tpl_fail(qn_tpl_render *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool qn_tpl_fail_limit(qn_tpl_render *r, qn_status st, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool qn_tpl_fail_undefined(qn_tpl_render *r,
                           const qn_tpl_value *v); /* the message of a used undefined value */
bool qn_tpl_step(qn_tpl_render *r, uint64_t n);
void *qn_tpl_alloc(qn_tpl_render *r, size_t n, size_t size); /* n items; NULL after failing */

bool qn_tpl_exec(qn_tpl_render *r, const qn_tpl_node *n, int *flow);
bool qn_tpl_eval(qn_tpl_render *r, const qn_tpl_node *n, qn_tpl_value *out);
bool qn_tpl_call(qn_tpl_render *r, const qn_tpl_value *f, const qn_tpl_args *args, qn_tpl_value *out);
bool qn_tpl_call_macro(qn_tpl_render *r, const qn_tpl_macro *m, const qn_tpl_args *args, qn_tpl_value *out);
bool qn_tpl_call_loop(qn_tpl_render *r, const qn_tpl_loop *loop, const qn_tpl_value *over, qn_tpl_value *out);
bool qn_tpl_call_method(qn_tpl_render *r, const qn_tpl_method *m, const qn_tpl_args *args, qn_tpl_value *out);
bool qn_tpl_loop_attr(qn_tpl_render *r, const qn_tpl_loop *loop, const char *name, size_t n,
                      qn_tpl_value *out, bool *found);
bool qn_tpl_binary(qn_tpl_render *r, char op, const qn_tpl_value *a, const qn_tpl_value *b,
                   qn_tpl_value *out);
bool qn_tpl_compare(qn_tpl_render *r, char op, const qn_tpl_value *a, const qn_tpl_value *b, bool *out);
bool qn_tpl_slice(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_value bounds[3], qn_tpl_value *out);

/* scopes */
qn_tpl_scope *qn_tpl_push_scope(qn_tpl_render *r, qn_tpl_scope *up); /* NULL: failed; does not enter it */
bool qn_tpl_set_var(qn_tpl_render *r, qn_tpl_scope *s, const char *name, const qn_tpl_value *v);

/* values */
qn_tpl_value qn_tpl_of_json(const json_t *j);
qn_tpl_value qn_tpl_of_text(const char *literal); /* of the program's own words: data */
qn_tpl_value qn_tpl_undefined(qn_tpl_render *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool qn_tpl_truth(const qn_tpl_value *v);
const char *qn_tpl_type(const qn_tpl_value *v); /* Python's name of the type */
bool qn_tpl_is_list(const qn_tpl_value *v);     /* list or tuple */
bool qn_tpl_is_dict(const qn_tpl_value *v);
bool qn_tpl_is_number(const qn_tpl_value *v); /* int, float, bool */
double qn_tpl_number(const qn_tpl_value *v);
int64_t qn_tpl_int(const qn_tpl_value *v); /* of an int or bool */
bool qn_tpl_length(qn_tpl_render *r, const qn_tpl_value *v, size_t *n);
bool qn_tpl_iterate(qn_tpl_render *r, const qn_tpl_value *v,
                    qn_tpl_list *out); /* what a for loop runs over */
bool qn_tpl_pairs(qn_tpl_render *r, const qn_tpl_value *dict,
                  qn_tpl_dict *out); /* keys and values of a dict */
bool qn_tpl_lookup(qn_tpl_render *r, const qn_tpl_value *dict, const qn_tpl_value *key, qn_tpl_value *out,
                   bool *found);
bool qn_tpl_get_item(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_value *key, qn_tpl_value *out);
bool qn_tpl_get_attr(qn_tpl_render *r, const qn_tpl_value *v, const char *name, size_t n, qn_tpl_value *out);
bool qn_tpl_equal(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, bool *out);
bool qn_tpl_less(qn_tpl_render *r, const qn_tpl_value *a, const qn_tpl_value *b, bool *out);
bool qn_tpl_contains(qn_tpl_render *r, const qn_tpl_value *in, const qn_tpl_value *x, bool *out);
bool qn_tpl_to_str(qn_tpl_render *r, const qn_tpl_value *v, qn_tpl_str *out); /* str(v) */
bool qn_tpl_repr(qn_tpl_render *r, qn_tpl_text *t, const qn_tpl_value *v, uint32_t depth);
bool qn_tpl_json(qn_tpl_render *r, const qn_tpl_value *v, const qn_tpl_args *args, qn_tpl_value *out);
size_t qn_tpl_float_repr(char dst[40], double x);                                  /* as Python's repr() */
const char *qn_tpl_method_name(const qn_tpl_value *v, const char *name, size_t n); /* NULL: no such method */

/* strings and text */
size_t qn_tpl_chars(const qn_tpl_str *s); /* code points */
size_t qn_tpl_char_at(const char *p, size_t n,
                      uint32_t *cp); /* first code point of p[0..n), n > 0; its bytes */
bool qn_tpl_is_space(uint32_t cp);   /* as Python's str.isspace */
qn_tpl_str qn_tpl_sub(const qn_tpl_str *s, size_t from, size_t to); /* bytes [from, to) */
qn_tpl_str qn_tpl_strip(const qn_tpl_str *s, const qn_tpl_str *set, bool left,
                        bool right);                                          /* set NULL: white space */
size_t qn_tpl_find(const qn_tpl_str *s, size_t from, const qn_tpl_str *what); /* byte offset, or SIZE_MAX */
bool qn_tpl_str_is(const qn_tpl_str *s, const char *literal);
bool qn_tpl_add(qn_tpl_render *r, qn_tpl_text *t, const qn_tpl_str *s);
bool qn_tpl_add_data(qn_tpl_render *r, qn_tpl_text *t, const char *p, size_t n, uint8_t origin);
qn_tpl_str qn_tpl_done(const qn_tpl_text *t);
bool qn_tpl_replace(qn_tpl_render *r, const qn_tpl_str *s, const qn_tpl_str *from, const qn_tpl_str *to,
                    int64_t count, qn_tpl_str *out);
bool qn_tpl_case(qn_tpl_render *r, const qn_tpl_str *s, char how,
                 qn_tpl_str *out); /* U upper, L lower, C capitalize, T title */
bool qn_tpl_percent(qn_tpl_render *r, const qn_tpl_str *f, const qn_tpl_args *args, qn_tpl_value *out);
bool qn_tpl_format(qn_tpl_render *r, const qn_tpl_str *f, const qn_tpl_args *args, qn_tpl_value *out);

/* filters and tests */
qn_tpl_filter_fn qn_tpl_find_filter(const char *name, size_t n);
qn_tpl_filter_fn qn_tpl_find_list_filter(const char *name, size_t n);
qn_tpl_test_fn qn_tpl_find_test(const char *name, size_t n);
const qn_tpl_value *qn_tpl_arg(const qn_tpl_args *args, size_t at, const char *name); /* NULL: not given */

#endif

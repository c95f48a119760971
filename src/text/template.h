/* template.h - chat templates: a small interpreter of the Jinja language as model repositories use it.
 *
 * A template is parsed once into an immutable tree and rendered any number of times, from any thread.
 * Rendering gives the text and, byte for byte, where it came from: 1 for the template's own literals, 0 for
 * data. That map is what lets the tokenizer cut control tokens only where the template wrote them.
 *
 * Nothing here reads a file, a clock or the environment. What a template can reach is the JSON it is given
 * and a closed list of filters, tests, functions and methods (docs/templates.md). */
#ifndef QN_TEXT_TEMPLATE_H
#define QN_TEXT_TEMPLATE_H

#include <jansson.h>
#include <time.h>

#include "base/buf.h"

/* Limits; going over one is an error that names it. */
#define QN_TPL_MAX_SOURCE  ((size_t)1 << 20) /* bytes of a template: QN_TOO_LARGE when parsing */
#define QN_TPL_MAX_NESTING 200 /* brackets, blocks and operators inside each other: QN_CORRUPT when parsing  \
                                */
#define QN_TPL_MAX_CHAIN 500   /* operators in one row, such as a + b + c: QN_CORRUPT when parsing */
#define QN_TPL_MAX_STEPS                                                                                     \
    ((uint64_t)50000000)       /* evaluated nodes, loop rounds, items looked at: QN_TOO_LARGE */
#define QN_TPL_MAX_DEPTH  1500 /* evaluations inside each other, macro calls included: QN_TOO_LARGE */
#define QN_TPL_MAX_OUTPUT ((size_t)64 << 20)  /* bytes of rendered text: QN_TOO_LARGE */
#define QN_TPL_MAX_VALUES ((size_t)512 << 20) /* bytes of all values made on the way: QN_TOO_LARGE */
#define QN_TPL_MAX_RANGE  100000              /* items of a range(): QN_INVALID */

typedef struct qn_template qn_template;

/* Parse source[0..n), which is copied. Anything that is not a template is QN_CORRUPT, with the line. Any
 * thread. */
qn_status qn_template_parse(qn_template **out, const char *source, size_t n, qn_error *err) QN_CHECKED;
void qn_template_destroy(qn_template *t); /* accepts NULL */

/* Render with the members of vars (a JSON object, borrowed and not changed) as variables. now: what
 * strftime_now() sees; NULL: a template that asks for the time fails. text and origin are emptied first and
 * receive the same number of bytes. What the template refuses with raise_exception() is QN_INVALID with the
 * template's own words as the whole message; other failures of evaluation are QN_INVALID and name the
 * template's line. Any thread. */
qn_status qn_template_render(const qn_template *t, const json_t *vars, const struct tm *now, qn_buf *text,
                             qn_buf *origin, qn_error *err) QN_CHECKED;

#endif

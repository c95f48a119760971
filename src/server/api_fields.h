/* api_fields.h - typed access to the fields of a JSON object, with refusals that name the field; private to
 * the parsers of requests. A null or absent field leaves *out as it was. Any thread. */
#ifndef QN_SERVER_API_FIELDS_H
#define QN_SERVER_API_FIELDS_H

#include <jansson.h>

#include "base/status.h"

/* The field, or NULL when absent or null. */
const json_t *qn_field_get(const json_t *o, const char *name);

/* QN_INVALID whose field is `field` and whose message is "'field' ...". */
qn_status qn_field_fail(qn_error *err, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

qn_status qn_field_bool(const json_t *o, const char *name, bool *out, qn_error *err) QN_CHECKED;
/* A number lo..hi, integer or real. open_lo: lo itself is refused. */
qn_status qn_field_float(const json_t *o, const char *name, double lo, double hi, bool open_lo, float *out,
                         qn_error *err) QN_CHECKED;
/* An integer lo..hi; a real without a fraction counts. */
qn_status qn_field_int(const json_t *o, const char *name, int64_t lo, int64_t hi, int64_t *out,
                       qn_error *err) QN_CHECKED;

/* Refuse what would change the text and is not there, pass its neutral values; count fields that nobody
 * knows. */
qn_status qn_fields_check_all(const json_t *o, bool chat, size_t *n_unknown, qn_error *err) QN_CHECKED;

const char *qn_json_kind(const json_t *v); /* "a string", "null", ... */

#endif

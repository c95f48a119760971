/* text_api.c - the text functions of quern.h over the tokenizer, the decoder and the chat template. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "runtime/model_int.h"
#include "text/detok.h"

static qn_status need_tokenizer(const qn_model *m, qn_error *err)
{
    return m->tokenizer ? QN_OK : qn_fail(err, QN_NOT_FOUND, "the model '%s' has no tokenizer.json", m->name);
}

qn_status qn_tokenize(const qn_model *m, const char *text, size_t n, bool special, int32_t **ids,
                      size_t *n_ids, qn_error *err)
{
    *ids = NULL;
    *n_ids = 0;
    qn_status st = need_tokenizer(m, err);
    return st ? st
              : qn_tokenizer_encode(m->tokenizer, text, n, special ? QN_SPECIAL_ALL : QN_SPECIAL_NONE, NULL,
                                    ids, n_ids, err);
}

/* The public decoder is the text room's, under its own name. */
struct qn_detok {
    qn_text_detok *inner;
};

qn_status qn_detok_create(qn_detok **out, const qn_model *m, qn_error *err)
{
    *out = NULL;
    qn_status st = need_tokenizer(m, err);
    if (st) return st;
    qn_detok *d = calloc(1, sizeof *d);
    if (!d) return qn_fail(err, QN_NOMEM, "no memory for a decoder");
    st = qn_text_detok_create(&d->inner, m->tokenizer, false, err);
    if (st) {
        free(d);
        return st;
    }
    *out = d;
    return QN_OK;
}

void qn_detok_destroy(qn_detok *d)
{
    if (!d) return;
    qn_text_detok_destroy(d->inner);
    free(d);
}

qn_status qn_detok_push(qn_detok *d, int32_t id, const char **text, size_t *n, qn_error *err)
{
    return qn_text_detok_push(d->inner, id, text, n, err);
}

qn_status qn_detok_finish(qn_detok *d, const char **text, size_t *n, qn_error *err)
{
    return qn_text_detok_finish(d->inner, text, n, err);
}

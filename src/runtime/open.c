/* open.c - opening a model: checkpoint, network, tokenizer, template, and what generation_config.json
 * recommends. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model_int.h"

#define MAX_GENERATION_CONFIG ((size_t)1 << 20)

/* The last part of the folder's real path: what clients call the model. */
static char *folder_name(const char *path)
{
    char real[PATH_MAX];
    const char *p = realpath(path, real) ? real : path;
    const char *slash = strrchr(p, '/');
    return strdup(slash && slash[1] ? slash + 1 : p);
}

static void add_stop(qn_model *m, int64_t id)
{
    if (id < 0 || id >= m->net->arch.vocab || m->n_stops == QN_MAX_STOPS || qn_model_is_stop(m, (int32_t)id))
        return;
    m->stops[m->n_stops++] = (int32_t)id;
}

/* generation_config.json's list, the tokenizer's end of turn, and the tokens that end one by name:
 * config.json's own eos_token_id is not the end of a chat turn. <|im_start|> in an answer is a model in
 * trouble that opens a new turn. */
static qn_status find_stops(qn_model *m, const json_t *generation, qn_error *err)
{
    static const char *const names[] = {"<|im_end|>", "<|endoftext|>", "<|im_start|>"};
    const json_t *eos = json_object_get(generation, "eos_token_id");
    if (eos && !json_is_null(eos) && !json_is_integer(eos) && !json_is_array(eos))
        return qn_fail(err, QN_CORRUPT,
                       "generation_config.json: 'eos_token_id' must be an id or a list of ids");
    if (json_is_integer(eos)) add_stop(m, json_integer_value(eos));
    for (size_t i = 0; i < json_array_size(eos); i++) {
        const json_t *id = json_array_get(eos, i);
        if (!json_is_integer(id))
            return qn_fail(err, QN_CORRUPT,
                           "generation_config.json: 'eos_token_id' has an entry that is not an id");
        add_stop(m, json_integer_value(id));
    }
    if (!m->tokenizer) return QN_OK;
    add_stop(m, qn_tokenizer_eos(m->tokenizer));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add_stop(m, qn_tokenizer_find(m->tokenizer, names[i]));
    return QN_OK;
}

static qn_status number(const json_t *o, const char *name, double lo, double hi, double *out, qn_error *err)
{
    const json_t *v = json_object_get(o, name);
    if (!v || json_is_null(v)) return QN_OK;
    if (!json_is_number(v) || !(json_number_value(v) >= lo && json_number_value(v) <= hi))
        return qn_fail(err, QN_CORRUPT, "generation_config.json: '%s' must be a number from %g to %g", name,
                       lo, hi);
    *out = json_number_value(v);
    return QN_OK;
}

static qn_status read_sampling(qn_model *m, const json_t *g, qn_error *err)
{
    double temperature = 1, top_p = 1, min_p = 0, top_k = 0;
    qn_status st = number(g, "temperature", 0, 100, &temperature, err);
    if (!st) st = number(g, "top_p", 1e-6, 1, &top_p, err);
    if (!st) st = number(g, "min_p", 0, 1, &min_p, err);
    if (!st) st = number(g, "top_k", 0, 1e9, &top_k, err);
    if (st) return st;
    if (json_is_false(json_object_get(g, "do_sample"))) temperature = 0;
    m->sampling = (qn_sampling){.temperature = (float)temperature,
                                .top_p = (float)top_p,
                                .min_p = (float)min_p,
                                .top_k = (int32_t)top_k};
    return QN_OK;
}

/* A missing tokenizer, template or recommendation is no fault of the folder; a broken one is. */
static qn_status optional(qn_status st, const qn_error *reason, qn_error *err)
{
    if (!st || st == QN_NOT_FOUND) return QN_OK;
    return qn_fail(err, st, "%s", reason->msg);
}

static qn_status read_generation_config(qn_model *m, const char *path, qn_error *err)
{
    char *text = NULL;
    size_t n;
    json_error_t e;
    json_t *g = NULL;
    qn_error reason = {0};
    qn_status st =
        qn_ckpt_read_side_file(path, "generation_config.json", MAX_GENERATION_CONFIG, &text, &n, &reason);
    if (st)
        st = optional(st, &reason, err); /* without the file nothing is recommended */
    else if ((!(g = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e)) || !json_is_object(g)))
        st = qn_fail(err, QN_CORRUPT, "generation_config.json: %s", g ? "must hold an object" : e.text);
    if (!st) st = read_sampling(m, g, err);
    if (!st) st = find_stops(m, g, err);
    json_decref(g);
    free(text);
    return st;
}

qn_status qn_model_open(qn_model **out, const char *path, qn_error *err)
{
    *out = NULL;
    qn_model *m = calloc(1, sizeof *m);
    if (!m) return qn_fail(err, QN_NOMEM, "%s: no memory for a model", path);
    qn_status st = qn_ckpt_open(&m->ckpt, path, err);
    bool named = st; /* the checkpoint, the tokenizer and the template name their files themselves */
    if (!st) st = qn_net_bind(&m->net, m->ckpt, err);
    if (!st) {
        qn_error reason = {0};
        st = optional(qn_tokenizer_open_dir(&m->tokenizer, path, &reason), &reason, err);
        if (!st) st = optional(qn_chat_template_open(&m->chat, path, &reason), &reason, err);
        named = st;
    }
    if (!st && m->tokenizer && qn_tokenizer_vocab_size(m->tokenizer) > m->net->arch.vocab)
        st = qn_fail(err, QN_CORRUPT, "the tokenizer has ids up to %u, but the embedding has %u rows",
                     qn_tokenizer_vocab_size(m->tokenizer) - 1, m->net->arch.vocab);
    if (!st) st = read_generation_config(m, path, err);
    if (!st && !(m->name = folder_name(path))) st = qn_fail(err, QN_NOMEM, "no memory for a name");
    if (st) {
        if (!named) qn_error_context(err, "%s", path);
        qn_model_close(m);
        return st;
    }
    m->n_ids = m->tokenizer ? qn_tokenizer_vocab_size(m->tokenizer) : m->net->arch.vocab;
    *out = m;
    return QN_OK;
}

void qn_model_close(qn_model *m)
{
    if (!m) return;
    qn_chat_template_close(m->chat);
    qn_tokenizer_close(m->tokenizer);
    qn_net_destroy(m->net);
    qn_ckpt_close(m->ckpt);
    free(m->name);
    free(m);
}

uint32_t qn_model_vocab_size(const qn_model *m)
{
    return m->net->arch.vocab;
}
uint32_t qn_model_context_length(const qn_model *m)
{
    return m->net->arch.context;
}
const char *qn_model_name(const qn_model *m)
{
    return m->name;
}
bool qn_model_has_draft_head(const qn_model *m)
{
    return m->net->arch.has_mtp;
}
qn_sampling qn_model_sampling(const qn_model *m)
{
    return m->sampling;
}

bool qn_model_is_stop(const qn_model *m, int32_t id)
{
    for (uint32_t i = 0; i < m->n_stops; i++)
        if (m->stops[i] == id) return true;
    return false;
}

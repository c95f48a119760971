/* verb_logits.c - `quern logits`: logits of a list of ids, in every way the engine can compute them. Needs no
 * tokenizer.
 *
 * The list and its neighbours run in the same steps: in prefill each brings up to --slice tokens, in decode
 * one. The rows of the list alone are written, hashed or continued. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/size.h"
#include "cli/verbs.h"

#define MAX_NEIGHBOURS 63
#define MAX_FILE       ((size_t)256 << 20)

typedef struct ids {
    int32_t *v;
    uint32_t n;
} ids;

typedef struct lane { /* one sequence of the batch; lane 0 is the list itself */
    ids ids;
    qn_seq *seq;
    uint32_t prefill; /* tokens that are prefilled; the rest is decoded */
} lane;

typedef struct job {
    qn_model *model;
    qn_engine *engine;
    lane lanes[1 + MAX_NEIGHBOURS];
    size_t n_lanes;
    uint32_t slice, vocab;
    bool mtp, hash;
    FILE *out;
    const char *out_path;
    float *logits, *draft, *last; /* last: [vocab], after the list's last token */
} job;

static qn_status ids_from_json(const json_t *j, const char *where, uint32_t vocab, ids *out, qn_error *err)
{
    if (json_is_object(j)) j = json_object_get(j, "prompt");
    if (!json_is_array(j) || json_array_size(j) == 0 || json_array_size(j) > INT32_MAX)
        return qn_fail(err, QN_INVALID, "%s: must hold a JSON list of ids, or an object with one as 'prompt'",
                       where);
    out->n = (uint32_t)json_array_size(j);
    out->v = calloc(out->n, sizeof *out->v);
    if (!out->v) return qn_fail(err, QN_NOMEM, "%s: no memory for %u ids", where, out->n);
    for (uint32_t i = 0; i < out->n; i++) {
        const json_t *x = json_array_get(j, i);
        if (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) >= vocab)
            return qn_fail(err, QN_INVALID, "%s: entry %u is not a token id; ids are 0 to %u", where, i,
                           vocab - 1);
        out->v[i] = (int32_t)json_integer_value(x);
    }
    return QN_OK;
}

static qn_status load_lanes(job *w, const char *ids_path, const char *neighbours_path, qn_error *err)
{
    json_t *j = NULL;
    qn_status st = qn_cli_read_json(ids_path, MAX_FILE, &j, err);
    if (!st) st = ids_from_json(j, ids_path, w->vocab, &w->lanes[0].ids, err);
    json_decref(j);
    w->n_lanes = 1;
    if (st || !neighbours_path) return st;
    j = NULL;
    st = qn_cli_read_json(neighbours_path, MAX_FILE, &j, err);
    if (!st && (!json_is_array(j) || json_array_size(j) > MAX_NEIGHBOURS))
        st = qn_fail(err, QN_INVALID, "%s: must hold a JSON list of at most %d id lists", neighbours_path,
                     MAX_NEIGHBOURS);
    for (size_t i = 0; !st && i < json_array_size(j); i++) {
        char where[300];
        snprintf(where, sizeof where, "%s: list %zu", neighbours_path, i);
        st = ids_from_json(json_array_get(j, i), where, w->vocab, &w->lanes[w->n_lanes++].ids, err);
    }
    json_decref(j);
    return st;
}

/* n rows of logits of the list, in order. */
static qn_status put_rows(job *w, const float *rows, uint32_t n, qn_error *err)
{
    for (uint32_t i = 0; w->hash && i < n; i++)
        printf("%016llx\n",
               (unsigned long long)qn_hash64(rows + (size_t)i * w->vocab, w->vocab * sizeof *rows));
    if (w->out && fwrite(rows, sizeof *rows * w->vocab, n, w->out) != n)
        return qn_fail(err, QN_IO, "%s: %s", w->out_path, strerror(errno));
    return QN_OK;
}

/* The draft head over the list's positions [at, at + n), as far as the next token is known. */
static qn_status draft_rows(job *w, uint32_t at, uint32_t n, qn_error *err)
{
    const ids *list = &w->lanes[0].ids;
    if (at + n == list->n) n--; /* the token after the last one is not known */
    if (n == 0) return QN_OK;
    qn_status st = qn_draft(w->engine, w->lanes[0].seq, list->v + at + 1, n, w->draft, err);
    return st ? st : put_rows(w, w->draft, n, err);
}

/* One step over all lanes that are in this phase. Sets *worked when there was something to do. */
static qn_status one_step(job *w, qn_phase phase, bool *worked, qn_error *err)
{
    qn_step_item items[1 + MAX_NEIGHBOURS];
    size_t n = 0;
    uint32_t at = qn_seq_length(w->lanes[0].seq), mine = 0;
    for (size_t i = 0; i < w->n_lanes; i++) {
        lane *l = &w->lanes[i];
        uint32_t done = qn_seq_length(l->seq), end = phase == QN_PREFILL ? l->prefill : l->ids.n;
        if (done >= end || (phase == QN_DECODE && done < l->prefill)) continue;
        uint32_t take = phase == QN_DECODE ? 1 : end - done < w->slice ? end - done : w->slice;
        items[n++] = (qn_step_item){
            .seq = l->seq, .tokens = l->ids.v + done, .n_tokens = take, .n_logits = i == 0 ? take : 0};
        if (i == 0) mine = take;
    }
    *worked = n > 0;
    if (n == 0) return QN_OK;
    qn_status st = qn_step(w->engine, phase, items, n, w->logits, err);
    if (st || mine == 0) return st;
    if (at + mine == w->lanes[0].ids.n)
        memcpy(w->last, w->logits + (size_t)(mine - 1) * w->vocab, w->vocab * sizeof *w->last);
    return w->mtp ? draft_rows(w, at, mine, err) : put_rows(w, w->logits, mine, err);
}

static qn_status all_steps(job *w, qn_error *err)
{
    qn_status st = QN_OK;
    bool worked = true;
    while (!st && worked) st = one_step(w, QN_PREFILL, &worked, err);
    worked = true;
    while (!st && worked) st = one_step(w, QN_DECODE, &worked, err);
    return st;
}

static int32_t arg_max(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

static qn_status continue_greedily(job *w, uint32_t n, qn_error *err)
{
    json_t *list = json_array();
    qn_status st = QN_OK;
    for (uint32_t i = 0; i < n && !st; i++) {
        int32_t id = arg_max(w->last, w->vocab);
        json_array_append_new(list, json_integer(id));
        qn_step_item item = {.seq = w->lanes[0].seq, .tokens = &id, .n_tokens = 1, .n_logits = 1};
        if (i + 1 < n) st = qn_step(w->engine, QN_DECODE, &item, 1, w->last, err);
    }
    if (!st) {
        json_t *o = json_pack("{s:O}", "greedy", list);
        json_dumpf(o, stdout, 0);
        putchar('\n');
        json_decref(o);
    }
    json_decref(list);
    return st;
}

/* "prefill", "decode", "split:N" to the number of tokens that are prefilled. */
static qn_status parse_mode(const char *mode, uint32_t *prefill, qn_error *err)
{
    char *end;
    if (strcmp(mode, "prefill") == 0) return *prefill = UINT32_MAX, QN_OK;
    if (strcmp(mode, "decode") == 0) return *prefill = 0, QN_OK;
    if (strncmp(mode, "split:", 6) == 0 && mode[6] >= '0' && mode[6] <= '9') {
        unsigned long n = strtoul(mode + 6, &end, 10);
        if (!*end && n <= INT32_MAX) return *prefill = (uint32_t)n, QN_OK;
    }
    return qn_fail(err, QN_USAGE, "logits: --mode must be prefill, decode or split:N, not '%s'", mode);
}

static qn_status prepare(job *w, qn_engine_options *o, uint32_t prefill, uint32_t greedy, qn_error *err)
{
    uint32_t longest = 0;
    uint64_t pages = 0;
    for (size_t i = 0; i < w->n_lanes; i++) {
        lane *l = &w->lanes[i];
        uint64_t need = (uint64_t)l->ids.n + (i == 0 ? greedy : 0);
        l->prefill = prefill < l->ids.n ? prefill : l->ids.n;
        if (need > qn_model_context_length(w->model))
            return qn_fail(err, QN_CONTEXT, "%llu tokens are over the model's context of %u",
                           (unsigned long long)need, qn_model_context_length(w->model));
        if (need > longest) longest = (uint32_t)need;
        pages += qn_ceil_div(need, 64);
    }
    o->context = longest;
    o->max_sequences = o->max_batch = (uint32_t)w->n_lanes;
    o->pool_tokens = pages * 64;
    o->slice = w->slice * (uint32_t)w->n_lanes;
    o->draft_head = w->mtp;
    qn_status st = qn_engine_create(&w->engine, w->model, o, err);
    for (size_t i = 0; i < w->n_lanes && !st; i++) st = qn_seq_create(&w->lanes[i].seq, w->engine, err);
    if (st) return st;
    uint32_t rows = w->slice < w->lanes[0].ids.n ? w->slice : w->lanes[0].ids.n;
    w->logits = calloc((size_t)rows * w->vocab, sizeof *w->logits);
    w->draft = calloc((size_t)rows * w->vocab, sizeof *w->draft);
    w->last = calloc(w->vocab, sizeof *w->last);
    return w->logits && w->draft && w->last ? QN_OK
                                            : qn_fail(err, QN_NOMEM, "no memory for %u rows of logits", rows);
}

static void job_deinit(job *w)
{
    for (size_t i = 0; i < w->n_lanes; i++) {
        qn_seq_destroy(w->lanes[i].seq);
        free(w->lanes[i].ids.v);
    }
    qn_engine_destroy(w->engine);
    qn_model_close(w->model);
    free(w->logits);
    free(w->draft);
    free(w->last);
}

int qn_verb_logits(int argc, char **argv)
{
    job w = {.slice = 512};
    const char *ids_path = NULL, *neighbours = NULL, *mode = "prefill", *kv = "f16", *precision = "exact",
               *policy = "as-is";
    uint32_t greedy = 0, prefill = 0;
    qn_engine_options o = qn_engine_options_defaults();
    qn_option options[] = {
        {"ids", QN_OPT_STRING, &ids_path, 0, 0, "FILE",
         "JSON list of ids, or an object with 'prompt'; - for stdin", NULL},
        {"o", QN_OPT_STRING, &w.out_path, 0, 0, "OUT.f32", "write float32 [T][vocab], little-endian", NULL},
        {"mode", QN_OPT_STRING, &mode, 0, 0, "MODE",
         "prefill (default), decode, or split:N (prefill N, decode the rest)", NULL},
        {"slice", QN_OPT_U32, &w.slice, 64, 4096, "N",
         "tokens of one prefill slice, a multiple of 64 (default 512)", NULL},
        {"neighbours", QN_OPT_STRING, &neighbours, 0, 0, "FILE",
         "JSON list of id lists that run in the same batch", NULL},
        {"hash", QN_OPT_FLAG, &w.hash, 0, 0, NULL, "print 16 hex digits a row", NULL},
        {"mtp", QN_OPT_FLAG, &w.mtp, 0, 0, NULL, "the draft head's logits, [T-1][vocab]", NULL},
        {"greedy", QN_OPT_U32, &greedy, 0, 1 << 20, "N", "print N greedy tokens after the list, as JSON",
         NULL},
        {"kv", QN_OPT_STRING, &kv, 0, 0, "FORMAT", "f16 (default) or f32", NULL},
        {"precision", QN_OPT_STRING, &precision, 0, 0, "CLASS", "exact (the only one in this version)", NULL},
        {"policy", QN_OPT_STRING, &policy, 0, 0, "NAME", "as-is (the only one in this version)", NULL},
        {"kernels", QN_OPT_STRING, &o.kernels, 0, 0, "LEVEL", "reference or best (default)", NULL},
        {"threads", QN_OPT_U32, &o.threads, 0, 1024, "N", "0 (default): what the process may use", NULL},
        {"device", QN_OPT_STRING, &o.device, 0, 0, "DEVICE", "cpu (default)", NULL},
    };
    qn_config c;
    qn_error err;
    int rc = qn_cli_start(&c, options, sizeof options / sizeof options[0], argc, argv,
                          "quern logits MODEL --ids FILE", 1, 1, &err);
    if (rc >= 0) return rc;
    qn_status st = parse_mode(mode, &prefill, &err);
    if (!st) st = qn_cli_kv(kv, &o.kv, &err);
    if (!st && !ids_path) st = qn_fail(&err, QN_USAGE, "logits: --ids is missing");
    if (!st && !w.out_path && !w.hash && !greedy)
        st = qn_fail(&err, QN_USAGE, "logits: one of -o, --hash, --greedy is needed");
    if (!st && w.slice % 64)
        st = qn_fail(&err, QN_USAGE, "logits: --slice must be a multiple of 64, not %u", w.slice);
    if (!st && strcmp(precision, "exact") != 0)
        st = qn_fail(&err, QN_USAGE, "logits: --precision '%s' is not in this version; exact is", precision);
    if (!st && strcmp(policy, "as-is") != 0)
        st = qn_fail(&err, QN_USAGE, "logits: --policy '%s' is not in this version; as-is is", policy);
    if (!st) st = qn_model_open(&w.model, c.words[0], &err);
    if (!st) {
        w.vocab = qn_model_vocab_size(w.model);
        st = load_lanes(&w, ids_path, neighbours, &err);
    }
    if (!st) st = prepare(&w, &o, prefill, greedy, &err);
    if (!st && w.out_path) {
        w.out = fopen(w.out_path, "wb");
        if (!w.out) st = qn_fail(&err, QN_IO, "%s: %s", w.out_path, strerror(errno));
    }
    if (!st) st = all_steps(&w, &err);
    if (!st && greedy) st = continue_greedily(&w, greedy, &err);
    if (w.out && fclose(w.out) && !st) st = qn_fail(&err, QN_IO, "%s: %s", w.out_path, strerror(errno));
    job_deinit(&w);
    qn_config_deinit(&c);
    return st ? qn_cli_error(&err) : 0;
}

/* sample.c - drawing a token: temperature, top_k, top_p, min_p, in this order, then one draw keyed by (seed,
 * position).
 *
 * Nothing but the arguments decides, so the same request draws the same tokens whatever else runs. All
 * arithmetic is f64 in a fixed order: candidates are sorted by logit, then by id. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "runtime/model_int.h"

typedef struct candidate {
    float logit;
    int32_t id;
    double p;
} candidate;

/* Higher logit first, ties to the lower id: the order of arg max, of every filter and of the draw. */
static int by_rank(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* A uniform number in [0, 1) from seed and position: two rounds of a 64-bit finalizer over a Weyl sequence
 * (Steele, Lea and Flood 2014, SplitMix). Two rounds, so that neighbouring positions of neighbouring seeds
 * share nothing. */
static double uniform(uint64_t seed, uint64_t position)
{
    uint64_t z = seed;
    for (int round = 0; round < 2; round++) {
        z += 0x9e3779b97f4a7c15u * (position + 1);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

static int32_t arg_max(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* The k best of n logits, in order, into c[k]: a heap whose root is the worst of the kept ones. */
static void best_k(candidate *c, uint32_t k, const float *logits, uint32_t n)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        candidate x = {.logit = logits[i], .id = (int32_t)i};
        uint32_t at;
        if (used < k) {
            at = used++;
            while (at > 0 && by_rank(&x, &c[(at - 1) / 2]) > 0) c[at] = c[(at - 1) / 2], at = (at - 1) / 2;
        } else {
            if (by_rank(&x, &c[0]) > 0) continue;
            at = 0;
            for (uint32_t child; (child = 2 * at + 1) < k; at = child) {
                if (child + 1 < k && by_rank(&c[child + 1], &c[child]) > 0) child++;
                if (by_rank(&x, &c[child]) > 0) break;
                c[at] = c[child];
            }
        }
        c[at] = x;
    }
    qsort(c, k, sizeof *c, by_rank);
}

/* Cut the ranked candidates to the nucleus of top_p, then to those of at least min_p times the best. Returns
 * how many stay
 * (>= 1) and their total probability. */
static uint32_t filter(candidate *c, uint32_t n, const qn_sampling *s, double *total)
{
    double all = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++) all += c[i].p = exp(((double)c[i].logit - c[0].logit) / s->temperature);
    uint32_t stay = 0;
    while (stay < n) {
        kept += c[stay++].p;
        if (s->top_p < 1 && kept >= (double)s->top_p * all) break;
    }
    while (stay > 1 && c[stay - 1].p < (double)s->min_p * c[0].p) kept -= c[--stay].p;
    *total = kept;
    return stay;
}

qn_status qn_sample(const qn_model *m, const float *logits, const qn_sampling *s, uint64_t position,
                    int32_t *id, qn_error *err)
{
    uint32_t n = m->n_ids;
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return qn_fail(err, QN_INTERNAL, "the logit of token %u at position %llu is not finite", i,
                           (unsigned long long)position);
    if (s->temperature <= 0 || s->top_k == 1) return *id = arg_max(logits, n), QN_OK;
    uint32_t k = s->top_k > 0 && (uint32_t)s->top_k < n ? (uint32_t)s->top_k : n;
    candidate few[256], *c = k <= sizeof few / sizeof few[0] ? few : malloc(k * sizeof *c);
    if (!c) return qn_fail(err, QN_NOMEM, "no memory for %u candidates", k);
    best_k(c, k, logits, n);
    double total, at;
    uint32_t stay = filter(c, k, s, &total), i = 0;
    at = uniform(s->seed, position) * total;
    while (i + 1 < stay && at >= c[i].p) at -= c[i++].p;
    *id = c[i].id;
    if (c != few) free(c);
    return QN_OK;
}

/* test_same_bits.c - the logits of a sequence are the same to the bit whatever threads, slices and neighbours
 * it has.
 *
 * Equality is equality of the 64-bit hashes of every row, over 1,200 tokens of the demonstration model. The
 * last test plants a kernel that swaps two additions, and must see it. */
#include "tap.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/cpu/cpu_int.h"
#include "formats/checkpoint.h"
#include "quern.h"

#define N_TOKENS 1200
#define N_DECODE 48 /* decoded at the end in the runs that decode */

static qn_model *model;
static int32_t tokens[N_TOKENS];

typedef struct way {
    uint32_t threads, slice, prefill; /* the first `prefill` tokens are prefilled, the rest decoded */
    uint32_t n_lanes, mine;           /* sequences in every step, and which one is looked at */
} way;

/* Lane `mine` runs the tokens; the others run them shifted, a little longer or shorter. */
static uint32_t lane_end(const way *w, uint32_t lane, uint32_t end)
{
    return lane == w->mine ? end : end > 37 * (lane + 1) ? end - 37 * (lane + 1) : 1;
}
static const int32_t *lane_tokens(const way *w, uint32_t lane)
{
    return lane == w->mine ? tokens : tokens + 31 * (lane + 1);
}

static void run(const way *w, uint64_t *hashes)
{
    qn_error err = {0};
    qn_engine *e;
    qn_seq *seqs[8];
    uint32_t vocab = qn_model_vocab_size(model);
    qn_engine_options o = qn_engine_options_defaults();
    o.threads = w->threads;
    o.slice = w->slice * w->n_lanes;
    o.context = N_TOKENS;
    o.max_sequences = o.max_batch = w->n_lanes;
    if (qn_engine_create(&e, model, &o, &err)) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < w->n_lanes; i++)
        if (qn_seq_create(&seqs[i], e, &err)) fail_msg("%s", err.msg);
    float *logits = calloc((size_t)w->slice * vocab, sizeof *logits);
    while (qn_seq_length(seqs[w->mine]) < N_TOKENS) {
        uint32_t at = qn_seq_length(seqs[w->mine]), mine = 0;
        bool prefill = at < w->prefill;
        qn_step_item items[8];
        size_t n = 0;
        for (uint32_t i = 0; i < w->n_lanes; i++) {
            uint32_t done = qn_seq_length(seqs[i]),
                     end = prefill ? lane_end(w, i, w->prefill) : lane_end(w, i, N_TOKENS);
            if (done >= end) continue;
            uint32_t take = !prefill ? 1 : end - done < w->slice ? end - done : w->slice;
            items[n++] = (qn_step_item){.seq = seqs[i],
                                        .tokens = lane_tokens(w, i) + done,
                                        .n_tokens = take,
                                        .n_logits = i == w->mine ? take : 0};
            if (i == w->mine) mine = take;
        }
        if (qn_step(e, prefill ? QN_PREFILL : QN_DECODE, items, n, logits, &err)) fail_msg("%s", err.msg);
        for (uint32_t i = 0; i < mine; i++)
            hashes[at + i] = qn_hash64(logits + (size_t)i * vocab, vocab * sizeof *logits);
    }
    free(logits);
    for (uint32_t i = 0; i < w->n_lanes; i++) qn_seq_destroy(seqs[i]);
    qn_engine_destroy(e);
}

static void all_equal(const way *ways, size_t n)
{
    static uint64_t first[N_TOKENS], other[N_TOKENS];
    run(&ways[0], first);
    for (size_t i = 1; i < n; i++) {
        run(&ways[i], other);
        for (uint32_t t = 0; t < N_TOKENS; t++)
            if (first[t] != other[t]) fail_msg("way %zu: the logits after token %u differ", i, t);
    }
}

static void threads_and_slices(void **state)
{
    (void)state;
    const way ways[] = {{1, 64, N_TOKENS, 1, 0},  {2, 64, N_TOKENS, 1, 0},  {1, 128, N_TOKENS, 1, 0},
                        {2, 128, N_TOKENS, 1, 0}, {1, 512, N_TOKENS, 1, 0}, {2, 512, N_TOKENS, 1, 0}};
    all_equal(ways, sizeof ways / sizeof ways[0]);
}

static void neighbours_and_batch_positions(void **state)
{
    (void)state;
    const uint32_t p = N_TOKENS - N_DECODE;
    const way ways[] = {{2, 512, p, 1, 0}, {2, 64, p, 3, 0}, {1, 128, p, 3, 2}, {2, 512, p, 5, 3}};
    all_equal(ways, sizeof ways / sizeof ways[0]);
}

/* The reference convolution with the second and third of its additions swapped. */
static void swapped_conv(float *y, const float *u, const float *w, float *state, size_t n_rows, size_t dim,
                         size_t taps, size_t first, size_t last)
{
    static const size_t order[4] = {0, 2, 1, 3};
    assert_int_equal(taps, 4);
    for (size_t c = first; c < last; c++) {
        float window[4] = {state[c], state[dim + c], state[2 * dim + c]};
        for (size_t t = 0; t < n_rows; t++) {
            float sum = 0;
            window[3] = u[t * dim + c];
            for (size_t j = 0; j < 4; j++) sum += w[c * 4 + order[j]] * window[order[j]];
            y[t * dim + c] = (float)((double)sum / (1 + exp(-(double)sum)));
            memmove(window, window + 1, 3 * sizeof *window);
        }
        for (size_t j = 0; j < 3; j++) state[j * dim + c] = window[j];
    }
}

/* Hashes of 64 tokens with one kernel replaced (NULL: none). */
static void run_planted(const qn_net *net,
                        void (*conv)(float *, const float *, const float *, float *, size_t, size_t, size_t,
                                     size_t, size_t),
                        uint64_t *hashes)
{
    qn_error err = {0};
    qn_device *d;
    qn_program *p = NULL;
    qn_trace *t;
    qn_step_result result;
    uint32_t page = 0, rows[64];
    qn_device_options o = {.device = "cpu", .kernels = "reference", .threads = 2};
    if (qn_device_open(&d, &o, &err) ||
        qn_program_lower(&p, net, (qn_bucket){QN_BUCKET_PREFILL, 64}, 0, 1, false, &err))
        fail_msg("%s", err.msg);
    if (conv) ((qn_cpu *)d)->kernels.conv_silu = conv;
    qn_reserve r = {.state = p->state, .kv = QN_KV_F32, .n_pages = 1, .n_slots = 1};
    const qn_program *programs[] = {p};
    if (d->ops->reserve(d, &r, &err) || d->ops->compile(d, programs, &t, &err)) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < 64; i++) rows[i] = i;
    qn_step_seq s = {.n_rows = 64, .pages = &page, .n_pages = 1};
    qn_step_inputs in = {
        .n_rows = 64, .tokens = tokens, .n_seqs = 1, .seqs = &s, .n_logit_rows = 64, .logit_rows = rows};
    d->ops->slot_clear(d, 0);
    if (d->ops->run(t, &in, &result, &err)) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < 64; i++)
        hashes[i] = qn_hash64(result.logits + (size_t)i * net->arch.vocab, net->arch.vocab * sizeof(float));
    d->ops->trace_destroy(t);
    qn_program_destroy(p);
    qn_device_close(d);
}

static void a_swap_of_two_additions_shows(void **state)
{
    (void)state;
    qn_error err = {0};
    qn_ckpt *ck;
    qn_net *net = NULL;
    uint64_t plain[64], again[64], swapped[64];
    if (qn_ckpt_open(&ck, "models/demo", &err) || qn_net_bind(&net, ck, &err)) fail_msg("%s", err.msg);
    run_planted(net, NULL, plain);
    run_planted(net, NULL, again);
    run_planted(net, swapped_conv, swapped);
    assert_memory_equal(plain, again, sizeof plain);
    uint32_t differ = 0;
    for (int i = 0; i < 64; i++) differ += plain[i] != swapped[i];
    printf("# %u of 64 rows show the swap\n", differ);
    assert_true(differ > 0);
    qn_net_destroy(net);
    qn_ckpt_close(ck);
}

static int open_model(void **state)
{
    (void)state;
    json_error_t e;
    qn_error err = {0};
    json_t *g = json_load_file("models/demo/golden.json", 0, &e), *prompt = json_object_get(g, "prompt");
    if (json_array_size(prompt) != N_TOKENS || qn_model_open(&model, "models/demo", &err)) return -1;
    for (size_t i = 0; i < N_TOKENS; i++) tokens[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    json_decref(g);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    qn_model_close(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_and_slices),
        cmocka_unit_test(neighbours_and_batch_positions),
        cmocka_unit_test(a_swap_of_two_additions_shows),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_model, close_model);
}

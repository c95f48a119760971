/* test_cpu_device.c - the CPU device through device.h alone: what it refuses, what it shares, and that a
 * sequence's bits depend neither on threads nor on how its rows and its neighbours are laid out in steps. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"

#define FOLDER "tests/data/golden/small-bf16-tied" /* tied, two key heads, six value heads, MTP */
#define VOCAB  320
enum { N = 150, PAGES = 16, SLOTS = 4, ROWS = 256 };

static qn_ckpt *ck;
static qn_net *net;
static qn_program *prefill, *decode, *verify, *draft;
static int32_t tokens[3][N];

static int open_model(void **state)
{
    (void)state;
    qn_error err;
    if (qn_ckpt_open(&ck, FOLDER, &err) || qn_net_bind(&net, ck, &err)) return -1;
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < N; i++) tokens[s][i] = (i * 37 + s * 101 + i * i % 11) % VOCAB;
    return qn_program_lower(&prefill, net, (qn_bucket){QN_BUCKET_PREFILL, ROWS}, 0, 1, true, &err) ||
           qn_program_lower(&decode, net, (qn_bucket){QN_BUCKET_DECODE, 4}, 0, 1, true, &err) ||
           qn_program_lower(&verify, net, (qn_bucket){QN_BUCKET_VERIFY, ROWS}, 0, 1, true, &err) ||
           qn_program_lower(&draft, net, (qn_bucket){QN_BUCKET_DRAFT, ROWS}, 0, 1, true, &err);
}

static int close_model(void **state)
{
    (void)state;
    qn_program_destroy(prefill);
    qn_program_destroy(decode);
    qn_program_destroy(verify);
    qn_program_destroy(draft);
    qn_net_destroy(net);
    qn_ckpt_close(ck);
    return 0;
}

static qn_reserve room(void)
{
    return (qn_reserve){
        .state = prefill->state, .kv = QN_KV_F16, .n_pages = PAGES, .n_slots = SLOTS, .hidden_rows = ROWS};
}

static qn_device *open_device(uint32_t threads)
{
    qn_device *d;
    qn_reserve r = room();
    assert_int_equal(qn_device_open(&d, &(qn_device_options){"cpu", "reference", threads}, NULL), QN_OK);
    assert_int_equal(d->ops->reserve(d, &r, NULL), QN_OK);
    return d;
}

static qn_trace *compiled(qn_device *d, const qn_program *p)
{
    qn_trace *t;
    qn_error err;
    qn_status st = d->ops->compile(d, &p, &t, &err);
    if (st) fail_msg("%s", err.msg);
    return t;
}

/* Sequence s owns slot s and the pages of its row. */
static const uint32_t pages[3][3] = {{5, 2, 9}, {0, 7, 1}, {15, 3, 4}};

typedef struct piece {
    uint32_t seq, n;
} piece;

/* One step with the pieces in this order; at[] moves on. Logits of every row go to out[seq]. */
static void step(qn_device *d, qn_trace *t, const qn_program *p, const piece *pieces, uint32_t n,
                 uint32_t *at, float *out[3])
{
    int32_t ids[ROWS];
    uint32_t rows[ROWS], n_rows = 0;
    qn_step_seq seqs[3];
    qn_reserve r = room();
    qn_step_result res;
    qn_error err;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = pieces[i].seq;
        seqs[i] = (qn_step_seq){n_rows, pieces[i].n, at[s], s, pages[s], 3};
        for (uint32_t k = 0; k < pieces[i].n; k++, n_rows++)
            ids[n_rows] = tokens[s][at[s] + k], rows[n_rows] = n_rows;
    }
    qn_step_inputs in = {n_rows, ids, n, seqs, n_rows, rows, NULL};
    if (qn_step_inputs_check(p, &r, &in, &err) || d->ops->run(t, &in, &res, &err)) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = pieces[i].seq;
        memcpy(out[s] + (size_t)at[s] * VOCAB, res.logits + (size_t)seqs[i].first_row * VOCAB,
               sizeof(float) * VOCAB * pieces[i].n);
        at[s] += pieces[i].n;
    }
}

typedef struct logits {
    float *of[3]; /* [N][VOCAB] of each sequence */
} logits;

static logits make_logits(void)
{
    logits l;
    for (int s = 0; s < 3; s++) l.of[s] = calloc((size_t)N * VOCAB, sizeof(float));
    return l;
}

static void free_logits(logits *l)
{
    for (int s = 0; s < 3; s++) free(l->of[s]);
}

static void assert_same(const logits *a, const logits *b, int n_seqs)
{
    for (int s = 0; s < n_seqs; s++) assert_memory_equal(a->of[s], b->of[s], sizeof(float) * N * VOCAB);
}

/* The plain way: one sequence after the other, each prefilled in one step of its own, on one thread. */
static logits alone(const qn_program *p)
{
    logits l = make_logits();
    qn_device *d = open_device(1);
    qn_trace *t = compiled(d, p);
    uint32_t at[3] = {0};
    for (uint32_t s = 0; s < 3; s++) step(d, t, p, &(piece){s, N}, 1, at, l.of);
    d->ops->trace_destroy(t);
    qn_device_close(d);
    return l;
}

static void prefill_bits_depend_on_nothing_else(void **state)
{
    (void)state;
    logits want = alone(prefill);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        logits got = make_logits();
        qn_device *d = open_device(threads);
        qn_trace *t = compiled(d, prefill);
        uint32_t at[3] = {0};
        step(d, t, prefill, (piece[]){{2, 64}, {0, 128}}, 2, at, got.of);
        step(d, t, prefill, (piece[]){{1, 64}, {2, 64}, {0, 22}}, 3, at, got.of);
        step(d, t, prefill, (piece[]){{2, 22}, {1, 86}}, 2, at, got.of);
        assert_same(&want, &got, 3);
        /* Slots that held other sequences give the same again after a clear. */
        for (uint32_t s = 0; s < 3; s++) d->ops->slot_clear(d, s), at[s] = 0;
        step(d, t, prefill, (piece[]){{1, N}}, 1, at, got.of);
        assert_memory_equal(want.of[1], got.of[1], sizeof(float) * N * VOCAB);
        d->ops->trace_destroy(t);
        qn_device_close(d);
        free_logits(&got);
    }
    free_logits(&want);
}

static void recurrent_bits_depend_on_nothing_else(void **state)
{
    (void)state;
    logits want = alone(verify); /* many rows a step, advanced token by token */
    logits got = make_logits();
    qn_device *d = open_device(2);
    qn_trace *v = compiled(d, verify), *one = compiled(d, decode);
    uint32_t at[3] = {0};
    for (int i = 0; i < N; i++) { /* one row at a time, in turning order, with and without neighbours */
        piece order[3] = {{(uint32_t)i % 3, 1}, {(uint32_t)(i + 1) % 3, 1}, {(uint32_t)(i + 2) % 3, 1}};
        if (i % 2)
            step(d, one, decode, order, 3, at, got.of);
        else
            for (int k = 0; k < 3; k++) step(d, one, decode, order + k, 1, at, got.of);
    }
    assert_same(&want, &got, 3);
    for (uint32_t s = 0; s < 3; s++) d->ops->slot_clear(d, s), at[s] = 0;
    while (at[0] < N)
        step(d, v, verify, (piece[]){{1, 5}, {0, 3}, {2, 2}}, at[1] < N ? 3 : 1, at, got.of),
            at[0] = at[1] < N ? at[0] : N;
    assert_memory_equal(want.of[1], got.of[1], sizeof(float) * N * VOCAB);
    d->ops->trace_destroy(v);
    d->ops->trace_destroy(one);
    qn_device_close(d);
    free_logits(&want);
    free_logits(&got);
}

/* A sequence copied to another slot and other pages goes on with the same bits. */
static void a_copied_sequence_goes_on(void **state)
{
    (void)state;
    logits a = make_logits();
    qn_device *d = open_device(2);
    qn_trace *p = compiled(d, prefill), *one = compiled(d, decode);
    uint32_t at[3] = {0};
    step(d, p, prefill, (piece[]){{0, 100}}, 1, at, a.of);
    memcpy(tokens[1], tokens[0], sizeof tokens[0]); /* sequence 1 becomes a copy of 0 */
    d->ops->slot_copy(d, 1, 0);
    for (int i = 0; i < 2; i++) d->ops->page_copy(d, pages[1][i], pages[0][i]);
    at[1] = at[0];
    for (int i = 0; i < 30; i++) step(d, one, decode, (piece[]){{0, 1}}, 1, at, a.of);
    for (int i = 0; i < 30; i++) step(d, one, decode, (piece[]){{1, 1}}, 1, at, a.of);
    assert_memory_equal(a.of[0] + 100 * VOCAB, a.of[1] + 100 * VOCAB, sizeof(float) * 30 * VOCAB);
    d->ops->trace_destroy(p);
    d->ops->trace_destroy(one);
    qn_device_close(d);
    free_logits(&a);
    for (int i = 0; i < N; i++) tokens[1][i] = (i * 37 + 101 + i * i % 11) % VOCAB;
}

static void the_draft_reads_kept_hidden_vectors(void **state)
{
    (void)state;
    logits a = make_logits();
    qn_device *d = open_device(2);
    qn_trace *p = compiled(d, prefill), *m = compiled(d, draft);
    uint32_t at[3] = {0}, hidden[ROWS], rows[ROWS];
    qn_reserve r = room();
    qn_step_result res;
    float *whole = malloc(sizeof(float) * N * VOCAB);
    for (uint32_t i = 0; i < ROWS; i++) hidden[i] = rows[i] = i;
    for (int split = 0; split < 2; split++) {
        d->ops->slot_clear(d, 0);
        at[0] = 0;
        step(d, p, prefill, (piece[]){{0, N}}, 1, at, a.of);
        uint32_t n = split ? 40 : N - 1;
        qn_step_inputs in = {n, tokens[0] + 1, 1, &(qn_step_seq){0, n, 0, 0, pages[0], 3}, n, rows, hidden};
        assert_int_equal(qn_step_inputs_check(draft, &r, &in, NULL), QN_OK);
        assert_int_equal(d->ops->run(m, &in, &res, NULL), QN_OK);
        if (!split)
            memcpy(whole, res.logits, sizeof(float) * n * VOCAB);
        else
            assert_memory_equal(whole, res.logits, sizeof(float) * n * VOCAB);
    }
    free(whole);
    d->ops->trace_destroy(p);
    d->ops->trace_destroy(m);
    qn_device_close(d);
    free_logits(&a);
}

static void weights_are_shared_and_counted(void **state)
{
    (void)state;
    qn_device *d = open_device(1);
    uint64_t empty = d->ops->resident_bytes(d);
    qn_trace *a = compiled(d, decode);
    uint64_t one = d->ops->resident_bytes(d);
    qn_trace *b = compiled(d, decode);
    uint64_t two = d->ops->resident_bytes(d);
    d->ops->trace_destroy(b);
    assert_true(d->ops->resident_bytes(d) == one);
    d->ops->trace_destroy(a);
    uint64_t weights = d->ops->resident_bytes(d) - empty;
    assert_true(one - empty > weights &&
                two - one == one - empty - weights); /* the second trace added scratch only */
    uint64_t used = 0;
    for (uint32_t i = 0; i < net->n_used; i++)
        if (net->weights[i].group != QN_GROUP_MTP) used += net->weights[i].n_bytes;
    assert_in_range(weights, used, used + used / 5); /* nothing widened but the tiny ones */
    qn_device_close(d);
}

static void buffers_of_the_last_run_can_be_read(void **state)
{
    (void)state;
    logits a = make_logits();
    qn_device *d = open_device(1);
    qn_trace *p = compiled(d, prefill);
    uint32_t at[3] = {0};
    float row[VOCAB];
    step(d, p, prefill, (piece[]){{0, 70}}, 1, at, a.of);
    assert_int_equal(d->ops->read(p, prefill->logits, 69, 1, row, NULL), QN_OK);
    assert_memory_equal(row, a.of[0] + 69 * VOCAB, sizeof row);
    assert_int_equal(d->ops->read(p, prefill->logits, 69, 2, row, NULL), QN_INVALID);
    assert_int_equal(d->ops->read(p, prefill->n_buffers, 0, 1, row, NULL), QN_INVALID);
    d->ops->trace_destroy(p);
    qn_device_close(d);
    free_logits(&a);
}

static void devices_and_kernels_are_refused_by_name(void **state)
{
    (void)state;
    qn_device *d;
    qn_error err;
    assert_int_equal(qn_device_open(&d, &(qn_device_options){"gpu", NULL, 1}, &err), QN_USAGE);
    assert_null(d);
    assert_non_null(strstr(err.msg, "'gpu'"));
    assert_int_equal(qn_device_open(&d, &(qn_device_options){"cpu", "avx512", 1}, &err), QN_UNSUPPORTED);
    assert_null(d);
    assert_non_null(strstr(err.msg, "avx512"));
    assert_int_equal(qn_device_open(&d, &(qn_device_options){"cpu", "best", 2}, &err), QN_OK);
    qn_device_facts f;
    d->ops->describe(d, &f);
    assert_string_equal(f.name, "cpu");
    assert_non_null(strstr(f.detail, "2 threads"));
    qn_device_close(d);
}

static void memory_is_reserved_once_and_explained(void **state)
{
    (void)state;
    qn_device *d;
    qn_trace *t;
    qn_error err;
    const qn_program *p = decode;
    assert_int_equal(qn_device_open(&d, &(qn_device_options){"cpu", NULL, 1}, &err), QN_OK);
    assert_int_equal(d->ops->compile(d, &p, &t, &err), QN_INTERNAL); /* nothing reserved yet */
    assert_null(t);
    qn_reserve r = room();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    r.n_pages = UINT32_MAX; /* petabytes */
    r.state.n_kv_layers = 1000;
    assert_int_equal(d->ops->reserve(d, &r, &err), QN_NOMEM);
    assert_non_null(strstr(err.msg, "4294967295 KV pages"));
#endif
    r = room();
    r.state.n_kv = r.state.n_kv_layers = UINT32_MAX;
    r.n_pages = UINT32_MAX;
    assert_int_equal(d->ops->reserve(d, &r, &err), QN_TOO_LARGE);
    r = room();
    assert_int_equal(d->ops->reserve(d, &r, &err), QN_OK);
    assert_int_equal(d->ops->reserve(d, &r, &err), QN_INVALID);
    qn_device_close(d);
}

static void programs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    qn_device *d = open_device(1);
    qn_trace *t;
    qn_error err;
    qn_program p = *decode;
    const qn_program *pp = &p;
    p.n_ranks = 2;
    assert_int_equal(d->ops->compile(d, &pp, &t, &err), QN_UNSUPPORTED);
    p.n_ranks = 1;
    for (uint32_t i = 0; i < p.n_ops; i++) { /* break each op in turn */
        qn_op *ops = malloc(p.n_ops * sizeof *ops);
        memcpy(ops, decode->ops, p.n_ops * sizeof *ops);
        p.ops = ops;
        switch (i % 3) {
        case 0: ops[i].n_in ? (ops[i].in[0] = p.n_buffers) : (ops[i].out[0] = p.n_buffers); break;
        case 1: ops[i].n_w++; break;
        case 2: ops[i].kind = QN_OP_COUNT; break;
        }
        assert_int_equal(d->ops->compile(d, &pp, &t, &err), QN_INTERNAL);
        assert_null(t);
        assert_non_null(strstr(err.msg, "program: op "));
        free(ops);
    }
    for (uint32_t i = 0; i < p.n_weights; i++) { /* ranges outside the tensor */
        qn_weight_ref *w = malloc(p.n_weights * sizeof *w);
        memcpy(w, decode->weights, p.n_weights * sizeof *w);
        p.ops = decode->ops;
        p.weights = w;
        w[i].row_ranges[0].first++;
        assert_int_equal(d->ops->compile(d, &pp, &t, &err), QN_INTERNAL);
        assert_null(t);
        free(w);
    }
    qn_device_close(d);
}

/* ---- step inputs ---- */

typedef struct inputs {
    int32_t ids[4];
    uint32_t pages[2][2], rows[2], hidden[4];
    qn_step_seq seqs[2];
    qn_step_inputs in;
} inputs;

/* Two sequences, rows 0-1 and 2-3. Pointers go into *x. */
static void good(inputs *x)
{
    *x = (inputs){.ids = {0, 1, 2, VOCAB - 1},
                  .pages = {{3, 0}, {1, PAGES - 1}},
                  .rows = {1, 3},
                  .hidden = {0, 1, 2, ROWS - 1}};
    x->seqs[0] = (qn_step_seq){0, 2, 64, 0, x->pages[0], 2};
    x->seqs[1] = (qn_step_seq){2, 2, 64, SLOTS - 1, x->pages[1], 2};
    x->in = (qn_step_inputs){4, x->ids, 2, x->seqs, 2, x->rows, x->hidden};
}

static void refused(const inputs *x, const qn_program *p, const char *field)
{
    qn_reserve r = room();
    qn_error err = {0};
    qn_status st = qn_step_inputs_check(p, &r, &x->in, &err);
    if (st != QN_INVALID) fail_msg("%s: status %d", field, (int)st);
    assert_string_equal(err.field, field);
    assert_int_equal(err.status, QN_INVALID);
    assert_int_equal(strncmp(err.msg, field, strlen(field)), 0);
}

static void every_wrong_step_input_is_named(void **state)
{
    (void)state;
    inputs x;
    qn_reserve r = room();
    good(&x);
    assert_int_equal(qn_step_inputs_check(prefill, &r, &x.in, NULL), QN_OK);
    assert_int_equal(qn_step_inputs_check(draft, &r, &x.in, NULL), QN_OK);
#define WRONG(program, field, ...)                                                                           \
    do {                                                                                                     \
        good(&x);                                                                                            \
        __VA_ARGS__;                                                                                         \
        refused(&x, program, field);                                                                         \
    } while (0)
    WRONG(prefill, "n_rows", x.in.n_rows = 0);
    WRONG(decode, "n_rows", x.in.n_rows = 5);
    WRONG(prefill, "n_rows", x.in.n_seqs = 1);
    WRONG(prefill, "tokens", x.in.tokens = NULL);
    WRONG(prefill, "tokens[2]", x.ids[2] = -1);
    WRONG(prefill, "tokens[3]", x.ids[3] = VOCAB);
    WRONG(prefill, "n_seqs", x.in.n_seqs = 0);
    WRONG(prefill, "n_seqs", x.in.n_seqs = 5);
    WRONG(prefill, "n_seqs", x.in.seqs = NULL);
    WRONG(prefill, "seqs[0].first_row", x.seqs[0].first_row = 1);
    WRONG(prefill, "seqs[1].first_row", x.seqs[1].first_row = 1);
    WRONG(prefill, "seqs[1].n_rows", x.seqs[1].n_rows = 0);
    WRONG(prefill, "seqs[1].n_rows", x.seqs[1].n_rows = 3);
    WRONG(prefill, "seqs[0].position", x.seqs[0].position = 63);
    WRONG(decode, "seqs[0].position", x.seqs[0].position = UINT32_MAX);
    WRONG(prefill, "seqs[1].slot", x.seqs[1].slot = SLOTS);
    WRONG(prefill, "seqs[1].slot", x.seqs[1].slot = 0);
    WRONG(prefill, "seqs[0].n_pages", x.seqs[0].n_pages = 1);
    WRONG(prefill, "seqs[0].n_pages", x.seqs[0].pages = NULL);
    WRONG(prefill, "seqs[1].n_pages", x.seqs[1].position = 128);
    WRONG(decode, "seqs[1].n_pages", x.seqs[1].position = 127);
    WRONG(prefill, "seqs[0].pages[0]", x.pages[0][0] = PAGES);
    WRONG(prefill, "seqs[1].pages[1]", x.pages[1][1] = UINT32_MAX);
    WRONG(prefill, "seqs[1].pages[1]", x.pages[1][1] = x.pages[0][1]);
    WRONG(prefill, "n_logit_rows", x.in.logit_rows = NULL);
    WRONG(decode, "n_logit_rows", x.in.n_logit_rows = 5);
    WRONG(prefill, "logit_rows[1]", x.rows[1] = 4);
    WRONG(draft, "hidden_rows", x.in.hidden_rows = NULL);
    WRONG(draft, "hidden_rows[3]", x.hidden[3] = ROWS);
#undef WRONG
    good(&x);
    x.pages[1][0] = x.pages[0][0]; /* a shared prefix is only read */
    assert_int_equal(qn_step_inputs_check(prefill, &r, &x.in, NULL), QN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_bits_depend_on_nothing_else),
        cmocka_unit_test(recurrent_bits_depend_on_nothing_else),
        cmocka_unit_test(a_copied_sequence_goes_on),
        cmocka_unit_test(the_draft_reads_kept_hidden_vectors),
        cmocka_unit_test(weights_are_shared_and_counted),
        cmocka_unit_test(buffers_of_the_last_run_can_be_read),
        cmocka_unit_test(devices_and_kernels_are_refused_by_name),
        cmocka_unit_test(memory_is_reserved_once_and_explained),
        cmocka_unit_test(programs_that_do_not_fit_are_refused),
        cmocka_unit_test(every_wrong_step_input_is_named),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_model, close_model);
}

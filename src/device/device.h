/* device.h - one interface for every kind of device: about a dozen functions behind a table.
 *
 * A device holds weights in layouts it asks for, KV pages and recurrent states, compiles programs to traces
 * and replays them. It has never heard of a request. Adding a device touches neither model/ nor runtime/ nor
 * server/.
 *
 * One thread at a time uses a device. Everything handed in (networks, programs) must outlive the trace made
 * from it. */
#ifndef QN_DEVICE_DEVICE_H
#define QN_DEVICE_DEVICE_H

#include "base/status.h"
#include "program/program.h"
#include "quern.h"

typedef struct qn_device qn_device;
typedef struct qn_trace qn_trace;

typedef struct qn_device_facts {
    char name[64];         /* "cpu" */
    char detail[160];      /* "2 threads, kernels: reference" */
    uint32_t n_ranks;      /* chips, or 1 */
    uint32_t max_rows;     /* of one step; 0: no limit */
    uint64_t memory_bytes; /* usable per rank; 0: not known */
} qn_device_facts;

/* How a device wants a weight. Plain data, so that plans and caches can name it. */
typedef enum qn_layout_kind {
    QN_LAYOUT_AS_IS, /* rows as in the checkpoint */
    QN_LAYOUT_LANES /* panels of `lanes` output rows: [rows/lanes][cols][lanes], the last panel zero-padded */
} qn_layout_kind;
typedef struct qn_layout {
    qn_layout_kind kind;
    uint32_t lanes;
    qn_dtype format; /* the elements' format, never wider than the checkpoint's */
} qn_layout;

/* Memory that steps change: reserved once. */
typedef struct qn_reserve {
    qn_state_desc state;
    qn_kv_format kv;
    uint32_t n_pages;     /* KV pages of QN_PAGE_TOKENS tokens, each holding all KV layers */
    uint32_t n_slots;     /* recurrent states */
    uint32_t hidden_rows; /* kept hidden vectors */
} qn_reserve;

/* What a replay leaves behind; valid until the next run of any trace of the device. */
typedef struct qn_step_result {
    const float *logits; /* [n_logit_rows][vocab] */
} qn_step_result;

typedef struct qn_device_ops {
    void (*destroy)(qn_device *d);
    void (*describe)(const qn_device *d, qn_device_facts *out);
    qn_layout (*layout)(const qn_device *d, const qn_weight *w, const qn_weight_ref *part);
    qn_status (*reserve)(qn_device *d, const qn_reserve *r, qn_error *err);
    /* programs: one per rank. Uploads the weights that are not resident yet. */
    qn_status (*compile)(qn_device *d, const qn_program *const *programs, qn_trace **out, qn_error *err);
    void (*trace_destroy)(qn_trace *t);
    /* Inputs were checked by the caller (qn_step_inputs_check). A failure leaves the touched sequences in
     * doubt. */
    qn_status (*run)(qn_trace *t, const qn_step_inputs *in, qn_step_result *out, qn_error *err);
    /* Copy rows [first, first+n) of a buffer of the last run; for tests and verification. */
    qn_status (*read)(qn_trace *t, uint32_t buffer, uint32_t first, uint32_t n, float *dst, qn_error *err);
    void (*slot_clear)(qn_device *d, uint32_t slot); /* zero the recurrent states: a sequence begins */
    void (*slot_copy)(qn_device *d, uint32_t dst, uint32_t src);
    void (*page_copy)(qn_device *d, uint32_t dst, uint32_t src);
    uint64_t (*resident_bytes)(const qn_device *d); /* weights + reserved memory + scratch */
} qn_device_ops;

struct qn_device {
    const qn_device_ops *ops;
};

/* Refuse step inputs that a device could trip over: rows, tokens, positions, pages, slots, grid. */
qn_status qn_step_inputs_check(const qn_program *p, const qn_reserve *r, const qn_step_inputs *in,
                               qn_error *err) QN_CHECKED;

typedef struct qn_device_options {
    const char *device;  /* "cpu" */
    const char *kernels; /* "best", "reference"; others are refused by name in this version */
    uint32_t threads;    /* 0: what the process may use (cgroup quota, affinity) */
} qn_device_options;

/* Open a device by its string; unknown ones are QN_USAGE with the list of known ones. */
qn_status qn_device_open(qn_device **out, const qn_device_options *o, qn_error *err) QN_CHECKED;
static inline void qn_device_close(qn_device *d)
{
    if (d) d->ops->destroy(d);
}

#endif

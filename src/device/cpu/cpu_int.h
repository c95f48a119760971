/* cpu_int.h - what the parts of the CPU device share: the device (cpu.c), its weights (upload.c), the memory
 * that steps change (memory.c), checking and resolving a program (compile.c) and replaying it (executor.c).
 */
#ifndef QN_DEVICE_CPU_CPU_INT_H
#define QN_DEVICE_CPU_CPU_INT_H

#include "base/pool.h"
#include "device/cpu/kernels.h"
#include "device/device.h"

/* A part of a weight that is resident. */
typedef struct qn_cpu_weight {
    const qn_net *net; /* with ref.weight: which tensor */
    qn_weight_ref ref;
    qn_layout layout;
    qn_panels panels; /* LANES */
    const void *data; /* AS_IS: rows as in the checkpoint, or f32; LANES: same as panels.data */
    void *owned;      /* NULL when data points into the checkpoint's mapping */
    uint64_t n_bytes; /* owned */
} qn_cpu_weight;

/* What steps change. Layouts: keys and values [kv layer][page][64][n_kv][head_dim] in the cache's format;
 * gdn [slot][layer][n_v][dv][dk] f32; conv [slot][layer][taps-1][conv_dim] f32; hidden [hidden_rows][hidden]
 * f32. */
typedef struct qn_cpu_memory {
    bool reserved;
    qn_reserve r;
    qn_dtype kv_format;
    size_t page_bytes;          /* of one layer's keys, or values */
    size_t gdn_size, conv_size; /* f32 of one slot and layer */
    char *keys, *values;
    float *gdn, *conv, *hidden;
    uint64_t n_bytes;
} qn_cpu_memory;

typedef struct qn_cpu {
    qn_device base; /* first: a qn_device * is a qn_cpu * */
    qn_kernels kernels;
    qn_pool *pool;
    qn_cpu_memory memory;
    qn_cpu_weight **weights; /* [n_weights], each on its own so that traces may point to them */
    size_t n_weights, cap_weights;
    uint64_t scratch_bytes; /* of all traces */
} qn_cpu;

/* An op with everything looked up. */
typedef struct qn_cpu_op {
    const qn_op *op;
    float *in[QN_OP_MAX_IN], *out[QN_OP_MAX_OUT];
    uint32_t in_cols[QN_OP_MAX_IN], out_cols[QN_OP_MAX_OUT];
    const qn_cpu_weight *w[QN_OP_MAX_WEIGHTS];
    qn_kv_layer kv; /* attention */
} qn_cpu_op;

struct qn_trace {
    qn_cpu *cpu;
    const qn_program *program;
    qn_cpu_op *ops;      /* [program->n_ops] */
    float **buffers;     /* [program->n_buffers], bucket.rows rows each */
    double *inv_freq;    /* [max rotary_dim / 2] of the program */
    double *scratch;     /* [threads][scratch_size] */
    size_t scratch_size; /* doubles per thread, a multiple of a cache line */
    uint32_t *row_seq;   /* [bucket.rows] the step's sequence of each row */
    uint32_t *tiles;     /* [bucket.rows + 1] first row of each attention tile, and the end */
    uint64_t n_bytes;
    uint32_t live_rows, live_logit_rows; /* of the last run */
};

/* ---- upload.c ---- */

/* The layout in which an op reads a weight. */
qn_layout qn_cpu_layout_of(const qn_weight *w, qn_op_kind op);
/* Find or make the resident form of a part; *out lives as long as the device. */
qn_status qn_cpu_weight_get(qn_cpu *c, const qn_net *net, const qn_weight_ref *ref, qn_layout layout,
                            const qn_cpu_weight **out, qn_error *err) QN_CHECKED;
void qn_cpu_weights_destroy(qn_cpu *c);

/* ---- memory.c ---- */

qn_status qn_cpu_memory_reserve(qn_cpu_memory *m, const qn_reserve *r, qn_error *err) QN_CHECKED;
void qn_cpu_memory_deinit(qn_cpu_memory *m);
qn_kv_layer qn_cpu_kv_layer(const qn_cpu_memory *m, uint32_t layer);
float *qn_cpu_gdn_state(const qn_cpu_memory *m, uint32_t slot, uint32_t layer);
float *qn_cpu_conv_state(const qn_cpu_memory *m, uint32_t slot, uint32_t layer);
void qn_cpu_slot_clear(qn_cpu_memory *m, uint32_t slot);
void qn_cpu_slot_copy(qn_cpu_memory *m, uint32_t dst, uint32_t src);
void qn_cpu_page_copy(qn_cpu_memory *m, uint32_t dst, uint32_t src);

/* ---- compile.c, executor.c ---- */

qn_status qn_cpu_compile(qn_device *d, const qn_program *const *programs, qn_trace **out,
                         qn_error *err) QN_CHECKED;
void qn_cpu_trace_destroy(qn_trace *t);
qn_status qn_cpu_run(qn_trace *t, const qn_step_inputs *in, qn_step_result *out, qn_error *err) QN_CHECKED;

#endif

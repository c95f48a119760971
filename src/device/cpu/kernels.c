/* kernels.c - the levels of kernels: which names there are, and which of them this build can fill. */
#include "device/cpu/kernels.h"

#include <string.h>

#include "device/cpu/ref.h"

/* Slowest first; "best" is the last one that has a filler. A level overwrites what it does better. */
static const struct {
    const char *name;
    void (*init)(qn_kernels *k); /* NULL: not in this build */
} levels[] = {
    {"reference", qn_kernels_init_reference},
    {"avx2", NULL},
    {"avx512", NULL},
};
#define N_LEVELS (sizeof levels / sizeof levels[0])

void qn_kernels_init_reference(qn_kernels *k)
{
    *k = (qn_kernels){
        .level = "reference",
        .linear = qn_ref_linear,
        .embed = qn_ref_embed,
        .rmsnorm = qn_ref_rmsnorm,
        .gated_rmsnorm = qn_ref_gated_rmsnorm,
        .qk_rope_append = qn_ref_qk_rope_append,
        .attention = qn_ref_attention,
        .sigmoid_gate = qn_ref_sigmoid_gate,
        .conv_silu = qn_ref_conv_silu,
        .gdn_gates = qn_ref_gdn_gates,
        .gdn_step = qn_ref_gdn_step,
        .gdn_chunk = qn_ref_gdn_chunk,
        .silu_mul = qn_ref_silu_mul,
    };
}

qn_status qn_kernels_init(qn_kernels *k, const char *level, qn_error *err)
{
    size_t best = 0;
    for (size_t i = 0; i < N_LEVELS; i++)
        if (levels[i].init) best = i;
    for (size_t i = 0; i < N_LEVELS; i++) {
        if (strcmp(level, levels[i].name) != 0 && !(i == best && strcmp(level, "best") == 0)) continue;
        if (!levels[i].init)
            return qn_fail(err, QN_UNSUPPORTED,
                           "kernels '%s' are not in this version; there are: reference, best", level);
        for (size_t j = 0; j <= i; j++)
            if (levels[j].init) levels[j].init(k);
        return QN_OK;
    }
    char name[48];
    return qn_fail(err, QN_USAGE, "unknown kernels '%s'; there are: reference, best",
                   qn_printable(name, sizeof name, level, strlen(level)));
}

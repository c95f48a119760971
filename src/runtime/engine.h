/* engine.h - what the runtime's own files need of the engine beyond quern.h: sizes, and pages set aside in
 * advance.
 *
 * The engine owns the device, its traces, the pool of KV pages and the recurrent slots. One thread at a time.
 */
#ifndef QN_RUNTIME_ENGINE_H
#define QN_RUNTIME_ENGINE_H

#include "base/status.h"

uint32_t qn_engine_context(const qn_engine *e); /* longest sequence in tokens */
uint32_t qn_engine_slice(const qn_engine *e);   /* most tokens of one prefill step */
uint32_t qn_engine_slots_free(const qn_engine *e);
uint32_t qn_engine_pages_free(const qn_engine *e);
uint32_t qn_engine_pages_total(const qn_engine *e);

/* Take the pages of n_tokens positions now, so that no later step of the sequence can find the pool empty.
 * QN_BUSY, having taken nothing, when they are not there; QN_CONTEXT over the context. */
qn_status qn_seq_reserve(qn_seq *s, uint32_t n_tokens, qn_error *err) QN_CHECKED;

#endif

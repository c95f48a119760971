/* model_int.h - the opened model as the runtime's own files see it. */
#ifndef QN_RUNTIME_MODEL_INT_H
#define QN_RUNTIME_MODEL_INT_H

#include "formats/checkpoint.h"
#include "model/model.h"
#include "text/chat.h"
#include "text/tokenizer.h"

#define QN_MAX_STOPS 16

struct qn_model {
    qn_ckpt *ckpt;
    qn_net *net;
    qn_tokenizer *tokenizer; /* NULL: the folder has none */
    qn_chat_template *chat;  /* NULL: the folder has none */
    char *name;
    int32_t stops[QN_MAX_STOPS];
    uint32_t n_stops;
    uint32_t n_ids; /* ids below it may be sampled: rows past the tokenizer's are never drawn */
    qn_sampling sampling;
};

#endif

/* backend_engine.c - the real backend: hands the server's calls to quern.h and sched.h. */
#include "server/backend.h"

static qn_status tokenize(void *self, const char *text, size_t n, bool special, int32_t **ids, size_t *n_ids,
                          qn_error *err)
{
    return qn_tokenize(((qn_engine_backend *)self)->model, text, n, special, ids, n_ids, err);
}

static qn_status chat_tokenize(void *self, const char *messages_json, size_t n, const qn_chat_options *o,
                               int32_t **ids, size_t *n_ids, bool *thinking, qn_error *err)
{
    return qn_chat_tokenize(((qn_engine_backend *)self)->model, messages_json, n, o, ids, n_ids, thinking,
                            err);
}

static qn_status detok_create(void *self, qn_detok **out, qn_error *err)
{
    return qn_detok_create(out, ((qn_engine_backend *)self)->model, err);
}

static qn_status submit(void *self, const qn_job_params *p, qn_job_id *id, qn_error *err)
{
    return qn_sched_submit(((qn_engine_backend *)self)->sched, p, id, err);
}

static void cancel(void *self, qn_job_id id)
{
    qn_sched_cancel(((qn_engine_backend *)self)->sched, id);
}
static void stats(void *self, qn_sched_stats *out)
{
    qn_sched_get_stats(((qn_engine_backend *)self)->sched, out);
}

void qn_engine_backend_init(qn_engine_backend *b, const qn_model *model, qn_sched *sched, uint32_t context)
{
    *b = (qn_engine_backend){
        .model = model,
        .sched = sched,
        .table =
            {
                .self = b,
                .model_name = qn_model_name(model),
                .vocab = qn_model_vocab_size(model),
                .context = context,
                .sampling = qn_model_sampling(model),
                .tokenize = tokenize,
                .chat_tokenize = chat_tokenize,
                .detok_create = detok_create,
                .detok_destroy = qn_detok_destroy,
                .detok_push = qn_detok_push,
                .detok_finish = qn_detok_finish,
                .answer_create = qn_answer_create,
                .answer_destroy = qn_answer_destroy,
                .answer_push = qn_answer_push,
                .answer_finish = qn_answer_finish,
                .submit = submit,
                .cancel = cancel,
                .stats = stats,
            },
    };
}

/* fake_engine.h - a backend without a model: the test plays the scheduler, or lets a thread play a fixed
 * answer.
 *
 * A token's text is pieces[id]. Prompts are tokenised to one id a byte. The answer parser knows four marks
 * instead of tags: \1 ends the thought, \2NAME\3ARGUMENTS\4 is a call. Waiting functions fail the test after
 * 20 s. */
#ifndef QN_TESTS_FAKE_ENGINE_H
#define QN_TESTS_FAKE_ENGINE_H

#include <pthread.h>

#include "server/backend.h"
#include "server/server.h"

#define FAKE_MAX_JOBS 256
#define FAKE_CONTEXT  1000
#define FAKE_VOCAB    300

typedef struct fake_job {
    qn_job_id id;
    qn_job_params p; /* prompt: NULL */
    int32_t first_id;
    uint32_t n_generated;
    bool admitted, cancelled, done;
} fake_job;

typedef struct fake_engine {
    qn_server_backend table;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    fake_job jobs[FAKE_MAX_JOBS];
    uint32_t n_jobs;
    uint32_t max_open; /* jobs that are not done; one more is QN_BUSY */
    char last_messages[4096], last_tools[1024], last_vars[1024];
    int last_thinking;
    bool last_special;
    bool fail_template, fail_detok;

    const char *const *pieces; /* [n_pieces]: the whole answer in automatic mode */
    int32_t n_pieces;
    bool automatic, quit;
    pthread_t player;
} fake_engine;

void fake_engine_start(fake_engine *f, const char *const *pieces, int32_t n_pieces, bool automatic);
void fake_engine_stop(fake_engine *f); /* every job gets its DONE */

/* The k-th job of this engine, from 0, once it was submitted. */
void fake_wait_job(fake_engine *f, uint32_t k);
void fake_wait_cancel(fake_engine *f, uint32_t k);
void fake_admit(fake_engine *f, uint32_t k);
void fake_token(fake_engine *f, uint32_t k, int32_t id);
void fake_done(fake_engine *f, uint32_t k, qn_job_finish how, const qn_error *err);

/* A server on a free port with this engine behind it, and its thread. */
typedef struct fake_server {
    fake_engine engine;
    qn_server *server;
    uint16_t port;
    pthread_t thread;
    qn_status status;
} fake_server;
void fake_server_start(fake_server *s, const qn_server_options *o, const char *const *pieces,
                       int32_t n_pieces, bool automatic);
/* As if the model were still loading: no backend yet. */
void fake_server_start_loading(fake_server *s, const qn_server_options *o, const char *const *pieces,
                               int32_t n_pieces, bool automatic);
void fake_server_stop(fake_server *s);

#endif

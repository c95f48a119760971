/* verb_serve.c - `quern serve MODEL`: opens the listener, loads the model on a second thread, serves until
 * SIGTERM or SIGINT.
 *
 *     main thread:  listen -> run the server's loop ---------------------> join -> scheduler, engine, model,
 * server down loader:       model -> engine -> scheduler -> set_backend -> URL to stdout, or stop the server
 *
 * The URL is the only line on stdout; SIGTERM and SIGINT end the server. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/verbs.h"
#include "server/server.h"

typedef struct serve_job {
    const char *path;
    qn_engine_options engine_options;
    qn_sched_options sched_options;
    qn_server_options server_options;
    qn_server *server;
    qn_model *model;
    qn_engine *engine;
    qn_sched *sched;
    qn_engine_backend backend;
    qn_status load_status;
    qn_error load_error;
} serve_job;

static qn_server
    *running; /* for the signal handler; set before the handler is, and never cleared while it is */

static void on_signal(int sig)
{
    (void)sig;
    qn_server_stop(running);
}

static qn_status load(serve_job *j, qn_error *err)
{
    qn_status st = qn_model_open(&j->model, j->path, err);
    if (st) return st;
    uint32_t most = qn_model_context_length(j->model);
    if (j->engine_options.context > most)
        return qn_fail(err, QN_INVALID, "--ctx %" PRIu32 ": the model has %" PRIu32 " positions",
                       j->engine_options.context, most);
    if (j->engine_options.context == 0) j->engine_options.context = most;
    st = qn_engine_create(&j->engine, j->model, &j->engine_options, err);
    if (!st) st = qn_sched_create(&j->sched, j->engine, j->model, &j->sched_options, err);
    if (st) return st;
    qn_engine_backend_init(&j->backend, j->model, j->sched, j->engine_options.context);
    qn_server_set_backend(j->server, &j->backend.table);
    const char *host = j->server_options.host;
    bool v6 = strchr(host, ':') != NULL;
    printf("http://%s%s%s:%u\n", v6 ? "[" : "", host, v6 ? "]" : "", (unsigned)qn_server_port(j->server));
    fflush(stdout);
    return QN_OK;
}

static void *loader(void *ctx)
{
    serve_job *j = ctx;
    j->load_status = load(j, &j->load_error);
    if (j->load_status) qn_server_stop(j->server);
    return NULL;
}

static qn_status serve(serve_job *j, qn_error *err)
{
    pthread_t thread;
    qn_status st = qn_server_create(&j->server, &j->server_options, err);
    if (st) return st;
    running = j->server;
    struct sigaction act = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN},
                     normal = {.sa_handler = SIG_DFL};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    qn_log(QN_LOG_INFO, "server", "listening on %s port %u; loading %s", j->server_options.host,
           (unsigned)qn_server_port(j->server), j->path);
    if (pthread_create(&thread, NULL, loader, j) != 0) {
        st = qn_fail(err, QN_NOMEM, "no thread to load the model");
    } else {
        st = qn_server_run(j->server, err);
        pthread_join(thread, NULL);
    }
    if (!st && j->load_status) {
        st = j->load_status;
        *err = j->load_error;
    }
    sigaction(SIGTERM, &normal, NULL); /* a second signal while the threads end is final */
    sigaction(SIGINT, &normal, NULL);
    return st;
}

int qn_verb_serve(int argc, char **argv)
{
    qn_error err = {0};
    serve_job j = {.engine_options = qn_engine_options_defaults(),
                   .sched_options = qn_sched_options_defaults(),
                   .server_options = qn_server_options_defaults()};
    const char *kv = "f16";
    uint32_t streams = 4, port = j.server_options.port;
    qn_option options[] = {
        {"host", QN_OPT_STRING, &j.server_options.host, 0, 0, "HOST",
         "address to listen on (default 127.0.0.1)", NULL},
        {"port", QN_OPT_U32, &port, 0, 65535, "PORT", "port to listen on, 0 picks a free one (default 8080)",
         NULL},
        {"model-name", QN_OPT_STRING, &j.server_options.model_id, 0, 0, "ID",
         "the model's id for clients (default: the folder's name)", NULL},
        {"any-model", QN_OPT_FLAG, &j.server_options.any_model, 0, 0, NULL,
         "accept every model name in requests", NULL},
        {"ctx", QN_OPT_U32, &j.engine_options.context, 2, 1 << 24, "N",
         "tokens of the longest sequence (default: the model's)", NULL},
        {"streams", QN_OPT_U32, &streams, 1, 4096, "N", "answers computed at the same time (default 4)",
         NULL},
        {"max-queue", QN_OPT_U32, &j.sched_options.max_queued, 0, 1000000, "N",
         "requests that may wait; one more is a 429 (default 64)", NULL},
        {"slice", QN_OPT_U32, &j.engine_options.slice, 64, 65536, "N",
         "tokens of one prefill slice, a multiple of 64 (default 512)", NULL},
        {"kv", QN_OPT_STRING, &kv, 0, 0, "FORMAT", "cached keys and values: f16 (default) or f32", NULL},
        {"kernels", QN_OPT_STRING, &j.engine_options.kernels, 0, 0, "LEVEL", "reference or best (default)",
         NULL},
        {"threads", QN_OPT_U32, &j.engine_options.threads, 0, 1024, "N",
         "0 (default): what the process may use", NULL},
        {"device", QN_OPT_STRING, &j.engine_options.device, 0, 0, "DEVICE", "cpu (default)", NULL},
    };
    qn_config c;
    int rc = qn_cli_start(&c, options, sizeof options / sizeof options[0], argc, argv, "quern serve MODEL", 1,
                          1, &err);
    if (rc >= 0) return rc;
    j.path = c.words[0];
    j.server_options.port = (uint16_t)port;
    j.engine_options.max_sequences = j.engine_options.max_batch = j.sched_options.max_active = streams;
    qn_status st = qn_cli_kv(kv, &j.engine_options.kv, &err);
    if (!st && j.engine_options.slice % 64)
        st = qn_fail(&err, QN_USAGE, "serve: --slice must be a multiple of 64, not %u",
                     j.engine_options.slice);
    if (!st) st = serve(&j, &err);
    qn_sched_destroy(j.sched); /* every job gets its DONE before the server's mailboxes go */
    qn_server_destroy(j.server);
    qn_engine_destroy(j.engine);
    qn_model_close(j.model);
    qn_config_deinit(&c);
    return st ? qn_cli_error(&err) : 0;
}

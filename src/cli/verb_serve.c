/* verb_serve.c - `quern serve MODEL`: opens the listener, loads the model on a second thread, serves until SIGTERM or SIGINT.
 *
 *     main thread:  listen -> run the server's loop ---------------------> join -> scheduler, engine, model, server down
 *     loader:       model -> engine -> scheduler -> set_backend -> URL to stdout, or stop the server */
#include <errno.h>
#include <getopt.h>
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

static qn_server *running; /* for the signal handler; set before the handler is, and never cleared while it is */

static void on_signal(int sig)
{
    (void)sig;
    qn_server_stop(running);
}

static void help(void)
{
    puts("usage: quern serve MODEL [options]\n"
         "  --host HOST       address to listen on (127.0.0.1)\n"
         "  --port PORT       port to listen on, 0 picks a free one (8080)\n"
         "  --model-name ID   the model's id for clients (the folder's name)\n"
         "  --any-model       accept every model name in requests\n"
         "  --ctx N           tokens of the longest sequence (the model's)\n"
         "  --streams N       answers computed at the same time (4)\n"
         "  --max-queue N     requests that may wait; one more is answered with 429 (64)\n"
         "  --threads N       threads of the device (as many as the process may use)\n"
         "  --kv f16|f32      format of cached keys and values (f16)\n"
         "When ready, one line with the URL goes to stdout. SIGTERM and SIGINT end the server.");
}

static bool number(const char *s, uint64_t lo, uint64_t hi, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    if (errno || end == s || *end || s[0] == '-' || v < lo || v > hi) return false;
    *out = v;
    return true;
}

/* 0, or the exit status of wrong usage; -1 when help was printed */
static int parse(serve_job *j, int argc, char **argv)
{
    enum { HOST = 1000, PORT, NAME, CTX, STREAMS, THREADS, ANY, KV, QUEUE };
    static const struct option options[] = {
        {"host", required_argument, NULL, HOST},       {"port", required_argument, NULL, PORT},
        {"model-name", required_argument, NULL, NAME}, {"ctx", required_argument, NULL, CTX},
        {"streams", required_argument, NULL, STREAMS}, {"threads", required_argument, NULL, THREADS},
        {"any-model", no_argument, NULL, ANY},         {"kv", required_argument, NULL, KV},
        {"max-queue", required_argument, NULL, QUEUE}, {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    uint64_t n = 0;
    int c;
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        bool ok = true;
        switch (c) {
        case HOST: j->server_options.host = optarg; break;
        case PORT: ok = number(optarg, 0, 65535, &n); j->server_options.port = (uint16_t)n; break;
        case NAME: j->server_options.model_id = optarg; break;
        case CTX: ok = number(optarg, 2, UINT32_MAX, &n); j->engine_options.context = (uint32_t)n; break;
        case STREAMS: ok = number(optarg, 1, 4096, &n); j->engine_options.max_sequences = (uint32_t)n; break;
        case THREADS: ok = number(optarg, 1, 4096, &n); j->engine_options.threads = (uint32_t)n; break;
        case QUEUE: ok = number(optarg, 0, 1000000, &n); j->sched_options.max_queued = (uint32_t)n; break;
        case ANY: j->server_options.any_model = true; break;
        case KV:
            ok = strcmp(optarg, "f16") == 0 || strcmp(optarg, "f32") == 0;
            j->engine_options.kv = strcmp(optarg, "f32") == 0 ? QN_KV_F32 : QN_KV_F16;
            break;
        case 'h': help(); return -1;
        case ':': return qn_cli_usage("serve", "%s needs a value", argv[optind - 1]);
        default: return qn_cli_usage("serve", "no option %s", argv[optind - 1]);
        }
        if (!ok) return qn_cli_usage("serve", "'%s' is not a value for %s", optarg, argv[optind - 2]);
    }
    if (optind + 1 != argc) return qn_cli_usage("serve", optind == argc ? "no model given" : "one model, not several");
    j->path = argv[optind];
    j->engine_options.max_batch = j->sched_options.max_active = j->engine_options.max_sequences;
    return 0;
}

static qn_status load(serve_job *j, qn_error *err)
{
    qn_status st = qn_model_open(&j->model, j->path, err);
    if (st) return st;
    uint32_t most = qn_model_context_length(j->model);
    if (j->engine_options.context > most)
        return qn_fail(err, QN_INVALID, "--ctx %" PRIu32 ": the model has %" PRIu32 " positions", j->engine_options.context, most);
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
    struct sigaction act = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    qn_log(QN_LOG_INFO, "server", "listening on %s port %u; loading %s", j->server_options.host, (unsigned)qn_server_port(j->server), j->path);
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
    j.engine_options.max_sequences = 4;
    j.sched_options.max_queued = 64;
    int rc = parse(&j, argc, argv);
    if (rc) return rc < 0 ? 0 : rc;
    qn_status st = serve(&j, &err);
    qn_sched_destroy(j.sched); /* every job gets its DONE before the server's mailboxes go */
    qn_server_destroy(j.server);
    qn_engine_destroy(j.engine);
    qn_model_close(j.model);
    return st ? qn_cli_error(&err) : 0;
}

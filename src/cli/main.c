/* main.c - `quern <verb> ...`: finds the verb and gives it the rest of the command line. A verb that says 0
 * is not believed before its output was written and no part of a JSON document was lost for want of memory.
 */
#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"

static const struct {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *what;
    bool serves; /* its documents are answers to requests, each with its own errors */
} verbs[] = {
    {"run", qn_verb_run, "one answer, streamed to stdout"},
    {"serve", qn_verb_serve, "the OpenAI-compatible server", true},
    {"tokenize", qn_verb_tokenize, "ids and pieces of a text"},
    {"template", qn_verb_template, "the prompt that a conversation becomes"},
    {"inspect", qn_verb_inspect, "architecture, tensors by group, what would be refused"},
    {"logits", qn_verb_logits, "logits of a list of ids, in every mode"},
    {"program", qn_verb_program, "the op list of a shape bucket"},
};

static void help(FILE *to)
{
    fprintf(to, "usage: quern VERB ... (quern VERB --help says more)\n\n");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].what);
    fprintf(to, "  %-10s %s\n", "version", "the version");
}

/* Adding to a JSON document that could not grow drops the addition without a word where nobody looks; so its
 * allocator remembers. */
static atomic_bool json_lost;

static void *json_malloc(size_t n)
{
    void *p = malloc(n);
    if (!p) json_lost = true;
    return p;
}

static int finish(int status, bool serves)
{
    qn_error err = {0};
    if (status) return status;
    if (!serves && json_lost)
        qn_fail(&err, QN_NOMEM, "no memory for the whole output");
    else if (fflush(stdout) || ferror(stdout))
        qn_fail(&err, QN_IO, "standard output: %s", strerror(errno));
    return err.status ? qn_cli_error(&err) : 0;
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(json_malloc, free);
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        help(stdout);
        return finish(0, false);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        puts("quern " QN_VERSION);
        return finish(0, false);
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return finish(verbs[i].fn(argc - 1, argv + 1), verbs[i].serves);
    fprintf(stderr, "quern: no verb '%s'; quern --help lists them\n", argv[1]);
    return 2;
}

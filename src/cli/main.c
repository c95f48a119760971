/* main.c - `quern <verb> ...`: finds the verb and gives it the rest of the command line. */
#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"

static const struct {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *what;
} verbs[] = {
    {"run", qn_verb_run, "one answer, streamed to stdout"},
    {"serve", qn_verb_serve, "the OpenAI-compatible server"},
    {"tokenize", qn_verb_tokenize, "ids and pieces of a text"},
    {"template", qn_verb_template, "the prompt that a conversation becomes"},
    {"inspect", qn_verb_inspect, "architecture, tensors by group, what would be refused"},
    {"logits", qn_verb_logits, "logits of a list of ids, in every mode"},
    {"program", qn_verb_program, "the op list of a shape bucket"},
};

static void help(FILE *to)
{
    fprintf(to, "usage: quern VERB ... (quern VERB --help says more)\n\n");
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].what);
    fprintf(to, "  %-10s %s\n", "version", "the version");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        puts("quern " QN_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(argv[1], verbs[i].name) == 0) return verbs[i].fn(argc - 1, argv + 1);
    fprintf(stderr, "quern: no verb '%s'; quern --help lists them\n", argv[1]);
    return 2;
}

/* api_reply.c - writes OpenAI's JSON objects into a buffer. */
#include "server/api_reply.h"

#include <inttypes.h>
#include <string.h>

/* Length of the valid UTF-8 character at s (n >= 1 bytes left), or 0. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t k = 0; k < 4; k++) {
        if ((s[0] & forms[k].mask) != forms[k].lead) continue;
        if (n < k + 1) return 0;
        uint32_t c = s[0] & (unsigned char)~forms[k].mask;
        for (size_t i = 1; i <= k; i++) {
            if ((s[i] & 0xc0) != 0x80) return 0;
            c = c << 6 | (s[i] & 0x3fu);
        }
        return c < forms[k].least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : k + 1;
    }
    return 0;
}

void qn_json_string_text(qn_buf *b, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t from = 0, i = 0; /* s[from..i) goes out as it is */
    while (i < n) {
        unsigned char c = s[i];
        size_t len = c < 0x80 ? 1 : utf8_length(s + i, n - i);
        if (len && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            i += len;
            continue;
        }
        qn_buf_add(b, text + from, i - from);
        if (!len)
            qn_buf_str(b, "\xef\xbf\xbd");
        else if (c == '"' || c == '\\')
            qn_buf_printf(b, "\\%c", c);
        else if (c == '\n')
            qn_buf_str(b, "\\n");
        else if (c == '\t')
            qn_buf_str(b, "\\t");
        else if (c == '\r')
            qn_buf_str(b, "\\r");
        else
            qn_buf_printf(b, "\\u%04x", c);
        from = ++i;
    }
    qn_buf_add(b, text + from, n - from);
}

void qn_json_string(qn_buf *b, const char *s, size_t n)
{
    qn_buf_byte(b, '"');
    qn_json_string_text(b, s, n);
    qn_buf_byte(b, '"');
}

static void cstring(qn_buf *b, const char *s)
{
    qn_json_string(b, s, strlen(s));
}

void qn_reply_error(qn_buf *b, const qn_error *err, size_t n_prompt, size_t n_ctx)
{
    bool is_model = err->status == QN_NOT_FOUND && strcmp(err->field, "model") == 0;
    qn_buf_str(b, "{\"error\":{\"message\":");
    cstring(b, err->msg);
    qn_buf_str(b, ",\"type\":");
    cstring(b, qn_status_api_type(err->status));
    qn_buf_str(b, ",\"param\":");
    if (err->field[0])
        cstring(b, err->field);
    else
        qn_buf_str(b, "null");
    qn_buf_str(b, ",\"code\":");
    cstring(b, is_model ? "model_not_found" : qn_status_name(err->status));
    if (n_ctx) qn_buf_printf(b, ",\"n_prompt_tokens\":%zu,\"n_ctx\":%zu", n_prompt, n_ctx);
    qn_buf_str(b, "}}");
}

void qn_reply_usage_json(qn_buf *b, const qn_reply_usage *u, bool chat)
{
    qn_buf_printf(b,
                  "{\"prompt_tokens\":%" PRIu32 ",\"completion_tokens\":%" PRIu32 ",\"total_tokens\":%" PRIu64
                  ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRIu32 "}",
                  u->n_prompt, u->n_completion, (uint64_t)u->n_prompt + u->n_completion, u->n_cached);
    if (chat)
        qn_buf_printf(b, ",\"completion_tokens_details\":{\"reasoning_tokens\":%" PRIu32 "}", u->n_reasoning);
    qn_buf_byte(b, '}');
}

static void head(qn_buf *b, const qn_reply_head *h, const char *object)
{
    qn_buf_str(b, "{\"id\":");
    cstring(b, h->id);
    qn_buf_printf(b, ",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", object, h->created);
    cstring(b, h->model);
    qn_buf_str(b, ",\"system_fingerprint\":\"quern-" QN_VERSION "\"");
}

static const char *chunk_object(const qn_reply_head *h)
{
    return h->chat ? "chat.completion.chunk" : "text_completion";
}

void qn_reply_chunk_begin(qn_buf *b, const qn_reply_head *h)
{
    qn_buf_str(b, "data: ");
    head(b, h, chunk_object(h));
    qn_buf_str(b, h->chat ? ",\"choices\":[{\"index\":0,\"delta\":" : ",\"choices\":[{\"index\":0,\"text\":");
}

static void finish_reason(qn_buf *b, const char *finish)
{
    qn_buf_str(b, ",\"logprobs\":null,\"finish_reason\":");
    if (finish)
        cstring(b, finish);
    else
        qn_buf_str(b, "null");
    qn_buf_str(b, "}]");
}

static void seed_json(qn_buf *b, uint64_t seed)
{
    qn_buf_printf(b, ",\"quern\":{\"seed\":%" PRId64 "}", (int64_t)seed);
}

void qn_reply_chunk_end(qn_buf *b, const char *finish, const uint64_t *seed, bool usage_null)
{
    finish_reason(b, finish);
    if (usage_null) qn_buf_str(b, ",\"usage\":null");
    if (seed) seed_json(b, *seed);
    qn_buf_str(b, "}\n\n");
}

void qn_reply_chunk_usage(qn_buf *b, const qn_reply_head *h, const qn_reply_usage *u)
{
    qn_buf_str(b, "data: ");
    head(b, h, chunk_object(h));
    qn_buf_str(b, ",\"choices\":[],\"usage\":");
    qn_reply_usage_json(b, u, h->chat);
    qn_buf_str(b, "}\n\n");
}

static void text_or_null(qn_buf *b, const qn_buf *text, bool null)
{
    if (null && text->len == 0)
        qn_buf_str(b, "null");
    else
        qn_json_string(b, text->data ? text->data : "", text->len);
}

void qn_reply_whole(qn_buf *b, const qn_reply_head *h, const qn_reply_answer *a)
{
    head(b, h, h->chat ? "chat.completion" : "text_completion");
    qn_buf_str(b, ",\"choices\":[{\"index\":0,");
    if (h->chat) {
        qn_buf_str(b, "\"message\":{\"role\":\"assistant\",\"content\":");
        text_or_null(b, a->content, a->calls->len > 0);
        qn_buf_str(b, ",\"refusal\":null");
        if (a->reasoning->len > 0) {
            qn_buf_str(b, ",\"reasoning_content\":");
            text_or_null(b, a->reasoning, false);
            qn_buf_str(b, ",\"reasoning\":");
            text_or_null(b, a->reasoning, false);
        }
        if (a->calls->len > 0) {
            qn_buf_str(b, ",\"tool_calls\":[");
            qn_buf_add(b, a->calls->data, a->calls->len);
            qn_buf_byte(b, ']');
        }
        qn_buf_byte(b, '}');
    } else {
        qn_buf_str(b, "\"text\":");
        text_or_null(b, a->content, false);
    }
    finish_reason(b, a->finish);
    qn_buf_str(b, ",\"usage\":");
    qn_reply_usage_json(b, &a->usage, h->chat);
    seed_json(b, a->seed);
    qn_buf_byte(b, '}');
}

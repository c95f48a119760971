/* api_messages.h - checks of the messages and tools of a chat request, before the template sees them; private
 * to the parsers of requests. Any thread. */
#ifndef QN_SERVER_API_MESSAGES_H
#define QN_SERVER_API_MESSAGES_H

#include <jansson.h>

#include "base/status.h"

/* messages: an array of objects with a known role and with text as content. A thought given as `reasoning` is
 * renamed to `reasoning_content`, which the templates read. Changes the array in place. */
qn_status qn_api_check_messages(json_t *messages, qn_error *err) QN_CHECKED;

/* tools: an array of {"type": "function", "function": {"name", ...}}. */
qn_status qn_api_check_tools(const json_t *tools, qn_error *err) QN_CHECKED;

#endif

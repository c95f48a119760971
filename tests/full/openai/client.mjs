// client.mjs URL - drives a quern server with OpenAI's own client and prints TAP.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "none", maxRetries: 0 });
const hello = { model: "demo", messages: [{ role: "user", content: "Hello" }], temperature: 0 };
const tools = [{ type: "function", function: { name: "get_weather", description: "The weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } } }];
let n = 0;
async function check(name, fn) {
  n++;
  try { await fn(); console.log(`ok ${n} - ${name}`); }
  catch (e) { console.log(`not ok ${n} - ${name}\n# ${String(e.stack).replaceAll("\n", "\n# ")}`); }
}
function must(what, detail) { if (!what) throw new Error("expectation failed: " + JSON.stringify(detail)); }

console.log("1..8");
await check("models", async () => { const m = await client.models.list(); must(m.data[0].id === "demo", m); });
let whole;
await check("a whole answer", async () => {
  whole = await client.chat.completions.create(hello);
  must(whole.choices[0].finish_reason === "stop" && whole.choices[0].message.content.length > 0, whole);
});
await check("a stream that the client accumulates", async () => {
  const s = client.beta.chat.completions.stream({ ...hello, stream_options: { include_usage: true } });
  const last = await s.finalChatCompletion();
  must(last.choices[0].message.content === whole.choices[0].message.content, last);
  must(last.usage.completion_tokens === whole.usage.completion_tokens, last.usage);
});
await check("tools are taken, and a call parses", async () => {
  const s = client.beta.chat.completions.stream({ ...hello, tools, messages: [{ role: "user", content: "What is the weather in Paris?" }] });
  const m = (await s.finalChatCompletion()).choices[0];
  for (const c of m.message.tool_calls ?? []) must(c.id && typeof JSON.parse(c.function.arguments) === "object", c);
  must((m.message.tool_calls?.length > 0) === (m.finish_reason === "tool_calls"), m);
});
await check("a tool's result goes back", async () => {
  const messages = [{ role: "user", content: "What is the weather in Paris?" },
    { role: "assistant", content: null, tool_calls: [{ id: "call_1", type: "function", function: { name: "get_weather", arguments: "{\"city\":\"Paris\"}" } }] },
    { role: "tool", tool_call_id: "call_1", content: "sunny, 21 degrees" }];
  const r = await client.chat.completions.create({ ...hello, tools, messages });
  must(r.choices[0].message.role === "assistant", r);
});
await check("completions, streamed", async () => {
  let text = "", reason;
  for await (const c of await client.completions.create({ model: "demo", prompt: "Once", max_tokens: 8, temperature: 0, stream: true }))
    text += c.choices[0].text, reason = c.choices[0].finish_reason ?? reason;
  must(text.length > 0 && reason, text);
});
await check("an error has its class, code and field", async () => {
  try { await client.chat.completions.create({ ...hello, model: "other" }); } catch (e) {
    must(e instanceof OpenAI.NotFoundError && e.code === "model_not_found" && e.param === "model", e);
    return;
  }
  must(false, "no error");
});
await check("a stream can be left", async () => {
  const s = await client.completions.create({ model: "demo", prompt: "Once", max_tokens: 20000, temperature: 1, stream: true });
  for await (const c of s) { must(c.id, c); s.controller.abort(); break; }
});

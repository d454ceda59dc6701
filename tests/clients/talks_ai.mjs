// What Node applications do with the Vercel AI SDK, as talks to record.
//
// Called with the name of one talk, the words to say as JSON on stdin; prints what the
// client understood as one line of JSON. Only the base-URL variables lead the clients;
// Anthropic's has to end with the version here, unlike for Anthropic's own SDK.

import { readFileSync } from "node:fs";

process.env.ANTHROPIC_BASE_URL = `${process.env.DEUZ_SIDECAR_URL}/v1`;

const { jsonSchema, stepCountIs, streamText, tool } = await import("ai");
const { anthropic } = await import("@ai-sdk/anthropic");
const { openai } = await import("@ai-sdk/openai");

const { system, questions, result, chatTool } = JSON.parse(readFileSync(0, "utf8"));
const { description, parameters } = chatTool.function;

async function converse(model) {
  const asked = [];
  const read_log = tool({
    description,
    inputSchema: jsonSchema(parameters),
    execute: async (input) => {
      asked.push(input);
      return result;
    },
  });
  const results = [];
  const messages = [];
  for (const question of questions) {
    messages.push({ role: "user", content: question });
    const answer = streamText({
      model,
      system,
      messages,
      tools: { read_log },
      maxOutputTokens: 512,
      stopWhen: stepCountIs(3),
    });
    let text = "";
    for await (const piece of answer.textStream) text += piece;
    results.push([text, await answer.finishReason, asked.length]);
    messages.push(...(await answer.response).messages);
  }
  return results;
}

const models = {
  "ai-chat": () => openai.chat("fake-tools"),
  "ai-messages": () => anthropic("fake-tools"),
  "ai-responses": () => openai("fake-tools"),
};

console.log(JSON.stringify(await converse(models[process.argv[2]]())));

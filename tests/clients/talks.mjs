// What Node applications do with the official npm packages, as talks to record.
//
// Called with the name of one talk, the words to say as JSON on stdin; prints what the
// client understood as one line of JSON. Only the base-URL variables lead the clients.

import { readFileSync } from "node:fs";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const name = process.argv[2];
const { system, questions, result, chatTool, messagesTool } = JSON.parse(
  readFileSync(0, "utf8"),
);
const marker = { cache_control: { type: "ephemeral" } };
const markedSystem = [{ type: "text", text: system, ...marker }];

function marked(messages) {
  const newest = messages.at(-1);
  const blocks =
    typeof newest.content === "string"
      ? [{ type: "text", text: newest.content }]
      : newest.content;
  const content = [...blocks.slice(0, -1), { ...blocks.at(-1), ...marker }];
  return [...messages.slice(0, -1), { ...newest, content }];
}

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

async function failure(act) {
  try {
    await act();
  } catch (error) {
    const { status, message, type, code, requestID } = error;
    return [error.constructor.name, status, message, type ?? null, code ?? null, requestID];
  }
  return ["no error"];
}

const talks = {
  async "openai-buffered"() {
    const client = new OpenAI();
    const results = [];
    const messages = [{ role: "system", content: system }];
    for (const question of questions) {
      messages.push({ role: "user", content: question });
      const answer = await client.chat.completions.create({ model: "fake", messages });
      results.push(answer);
      messages.push(answer.choices[0].message);
    }
    return results;
  },

  async "openai-streamed"() {
    const client = new OpenAI();
    const results = [];
    const messages = [{ role: "developer", content: system }];
    for (const question of questions) {
      messages.push({ role: "user", content: [{ type: "text", text: question }] });
      const chunks = await collect(
        await client.chat.completions.create({
          model: "fake",
          messages,
          stream: true,
          stream_options: { include_usage: true },
        }),
      );
      results.push(chunks);
      const text = chunks.map((c) => c.choices[0]?.delta?.content ?? "").join("");
      messages.push({ role: "assistant", content: text });
    }
    return results;
  },

  async "openai-tools"() {
    // The stream helper puts the calls together; the loop is the application's.
    const client = new OpenAI();
    const results = [];
    const messages = [{ role: "system", content: system }];
    for (const question of questions) {
      messages.push({ role: "user", content: question });
      for (;;) {
        const stream = client.chat.completions.stream({
          model: "fake-tools-2",
          messages,
          tools: [chatTool],
          stream_options: { include_usage: true },
        });
        const answer = await stream.finalChatCompletion();
        results.push(answer);
        const { role, content, tool_calls: calls } = answer.choices[0].message;
        if (!calls?.length) {
          messages.push({ role, content });
          break;
        }
        const resent = calls.map(({ id, type, function: { name: called, arguments: given } }) => ({
          id,
          type,
          function: { name: called, arguments: given },
        }));
        messages.push({ role, content, tool_calls: resent });
        for (const { id } of calls) {
          messages.push({ role: "tool", tool_call_id: id, content: result });
        }
      }
    }
    return results;
  },

  async "openai-responses"() {
    const client = new OpenAI();
    const results = [];
    let previous;
    for (const question of questions) {
      const answer = await client.responses.create({
        model: "fake",
        instructions: system,
        input: question,
        previous_response_id: previous,
      });
      results.push(answer);
      previous = answer.id;
    }
    const stream = await client.responses.create({
      model: "fake",
      input: questions[0],
      stream: true,
    });
    results.push(await collect(stream));
    return results;
  },

  async "openai-errors"() {
    const client = new OpenAI({ maxRetries: 1 });
    const chat = client.chat.completions;
    const question = [{ role: "user", content: questions[0] }];
    const orphan = [{ role: "tool", tool_call_id: "none", content: "?" }];
    return [
      await failure(() => chat.create({ model: "fake", messages: orphan })),
      await failure(() => chat.create({ model: "fake-error-500", messages: question })),
      await failure(() => client.models.retrieve("no-such-model")),
      (await collect(client.models.list())).map((model) => model.id),
    ];
  },

  async "anthropic-buffered"() {
    const client = new Anthropic();
    const results = [];
    const messages = [];
    for (const question of questions) {
      messages.push({ role: "user", content: question });
      const answer = await client.messages.create({
        model: "fake",
        max_tokens: 256,
        system: markedSystem,
        messages: marked(messages),
      });
      results.push(answer);
      messages.push({ role: "assistant", content: answer.content });
    }
    return results;
  },

  async "anthropic-streamed"() {
    const client = new Anthropic();
    const results = [];
    const messages = [];
    for (const question of questions) {
      messages.push({ role: "user", content: question });
      const events = await collect(
        await client.messages.create({
          model: "fake",
          max_tokens: 256,
          system,
          messages,
          cache_control: { type: "ephemeral" },
          stream: true,
        }),
      );
      results.push(events);
      const text = events.map((event) => event.delta?.text ?? "").join("");
      messages.push({ role: "assistant", content: text });
    }
    return results;
  },

  async "anthropic-tools"() {
    // Signed thinking, three calls at once, their results, an answer; three times.
    const client = new Anthropic();
    const results = [];
    const messages = [];
    for (const question of questions) {
      messages.push({ role: "user", content: question });
      for (;;) {
        const stream = client.messages.stream({
          model: "fake-thinking-tools-3",
          max_tokens: 2048,
          thinking: { type: "enabled", budget_tokens: 1024 },
          system: markedSystem,
          tools: [messagesTool],
          messages: marked(messages),
        });
        const answer = await stream.finalMessage();
        results.push(answer);
        messages.push({ role: "assistant", content: answer.content });
        const calls = answer.content.filter((block) => block.type === "tool_use");
        if (!calls.length) break;
        const content = calls.map(({ id }) => ({
          type: "tool_result",
          tool_use_id: id,
          content: result,
        }));
        messages.push({ role: "user", content });
      }
    }
    return results;
  },

  async "anthropic-errors"() {
    const client = new Anthropic({ maxRetries: 1 });
    const question = [{ role: "user", content: questions[0] }];
    const orphan = [
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "none", content: "?" }],
      },
    ];
    const send = (messages, model) =>
      failure(() => client.messages.create({ model, max_tokens: 64, messages }));
    return [
      await send(orphan, "fake"),
      await send(question, "fake-error-529"),
      await failure(() => client.models.retrieve("no-such-model")),
      await client.messages.countTokens({ model: "fake", system, messages: question }),
    ];
  },
};

console.log(JSON.stringify(await talks[name]()));

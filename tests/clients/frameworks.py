"""What applications do with Python frameworks, as talks to record.

Runs in the virtual environment of requirements.txt, as one process for all talks: some
of these packages take seconds to import.

Rules:
- Each line of standard input names a talk and gives the environment it is to see; each
  line of standard output is what its client understood, or its traceback.
- Clients are built in the talk, without an address: only the variables lead them.
- A talk returns the words and calls of the model; ids that a framework makes up differ
  from run to run.
"""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Words = dict[str, Any]
MODEL = "fake-tools"
MOST_TOKENS = 512
# One for all talks: what a framework keeps between them is bound to it.
LOOP = asyncio.Runner()


def talk_litellm_chat(words: Words) -> list[Any]:
    return _litellm(f"openai/{MODEL}", words)


def talk_litellm_messages(words: Words) -> list[Any]:
    return _litellm(f"anthropic/{MODEL}", words)


def talk_litellm_gemini(words: Words) -> list[Any]:
    return _litellm(f"gemini/{MODEL}", words)


def _litellm(model: str, words: Words) -> list[Any]:
    import litellm

    results: list[Any] = []
    messages: list[Any] = [{"role": "system", "content": words["system"]}]
    for question in words["questions"]:
        messages.append({"role": "user", "content": question})
        for _ in range(2):
            chunks = list(
                litellm.completion(
                    model=model,
                    messages=messages,
                    tools=[words["chatTool"]],
                    max_tokens=MOST_TOKENS,
                    stream=True,
                    stream_options={"include_usage": True},
                )
            )
            answer = litellm.stream_chunk_builder(chunks, messages=messages)
            message = answer.choices[0].message
            calls = message.tool_calls or []
            results.append([message.content, [c.function.arguments for c in calls]])
            messages.append(message.model_dump(exclude_none=True))
            messages += [
                {"role": "tool", "tool_call_id": c.id, "content": words["result"]}
                for c in calls
            ]
    return results


def talk_langchain_chat(words: Words) -> list[Any]:
    from langchain_openai import ChatOpenAI

    return _langchain(ChatOpenAI(model=MODEL), words)


def talk_langchain_messages(words: Words) -> list[Any]:
    from langchain_anthropic import ChatAnthropic

    return _langchain(ChatAnthropic(model=MODEL, max_tokens=MOST_TOKENS), words)


def talk_langchain_responses(words: Words) -> list[Any]:
    from langchain_openai import ChatOpenAI

    return _langchain(ChatOpenAI(model=MODEL, use_responses_api=True), words)


def _langchain(model: Any, words: Words) -> list[Any]:
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

    bound = model.bind_tools([words["chatTool"]])
    results: list[Any] = []
    messages: list[Any] = [SystemMessage(words["system"])]
    for question in words["questions"]:
        messages.append(HumanMessage(question))
        for _ in range(2):
            first, *rest = list(bound.stream(messages))
            answer = sum(rest, first)
            calls = answer.tool_calls
            results.append([answer.text, [call["args"] for call in calls]])
            messages.append(answer)
            messages += [
                ToolMessage(words["result"], tool_call_id=call["id"]) for call in calls
            ]
    return results


def talk_pydantic_chat(words: Words) -> list[Any]:
    return LOOP.run(_pydantic(f"openai-chat:{MODEL}", words))


def talk_pydantic_responses(words: Words) -> list[Any]:
    return LOOP.run(_pydantic(f"openai-responses:{MODEL}", words))


async def _pydantic(model: str, words: Words) -> list[Any]:
    from pydantic_ai import Agent

    agent = Agent(model, system_prompt=words["system"])
    asked: list[Any] = []

    @agent.tool_plain  # type: ignore[untyped-decorator]  # Not installed for mypy.
    def read_log(service: str, lines: int) -> str:
        """Return the newest lines of a log."""
        asked.append([service, lines])
        return str(words["result"])

    results: list[Any] = []
    history: list[Any] = []
    for question in words["questions"]:
        async with agent.run_stream(question, message_history=history) as run:
            pieces = [piece async for piece in run.stream_text(delta=True)]
        results.append(["".join(pieces), asked[:]])
        history = run.all_messages()
    return results


def talk_agents_chat(words: Words) -> list[Any]:
    from agents import set_default_openai_api

    set_default_openai_api("chat_completions")
    return LOOP.run(_agents(words))


def talk_agents_responses(words: Words) -> list[Any]:
    from agents import set_default_openai_api

    set_default_openai_api("responses")
    return LOOP.run(_agents(words))


async def _agents(words: Words) -> list[Any]:
    from agents import Agent, Runner, function_tool, set_tracing_disabled

    set_tracing_disabled(True)
    asked: list[Any] = []

    @function_tool  # type: ignore[untyped-decorator]  # Not installed for mypy.
    def read_log(service: str, lines: int) -> str:
        """Return the newest lines of a log."""
        asked.append([service, lines])
        return str(words["result"])

    agent = Agent(
        name="on-call", instructions=words["system"], tools=[read_log], model=MODEL
    )
    results: list[Any] = []
    items: list[Any] = []
    for question in words["questions"]:
        items.append({"role": "user", "content": question})
        run = Runner.run_streamed(agent, items)
        async for _ in run.stream_events():
            pass
        results.append([run.final_output, asked[:]])
        items = run.to_input_list()
    return results


def talk_genai(words: Words) -> list[Any]:
    from google import genai

    asked: list[Any] = []

    def read_log(service: str, lines: int) -> str:
        """Return the newest lines of a log."""
        asked.append([service, lines])
        return str(words["result"])

    with genai.Client() as client:
        config: Any = {"system_instruction": words["system"], "tools": [read_log]}
        chat = client.chats.create(model=MODEL, config=config)
        results: list[Any] = []
        for question in words["questions"]:
            chunks = list(chat.send_message_stream(question))
            text = "".join(chunk.text or "" for chunk in chunks)
            results.append([text, asked[:]])
    return results


TALKS: dict[str, Callable[[Words], list[Any]]] = {
    "litellm-chat": talk_litellm_chat,
    "litellm-messages": talk_litellm_messages,
    "litellm-gemini": talk_litellm_gemini,
    "langchain-chat": talk_langchain_chat,
    "langchain-messages": talk_langchain_messages,
    "langchain-responses": talk_langchain_responses,
    "pydantic-chat": talk_pydantic_chat,
    "pydantic-responses": talk_pydantic_responses,
    "agents-chat": talk_agents_chat,
    "agents-responses": talk_agents_responses,
    "genai": talk_genai,
}


def run_talks() -> None:
    """Run the talks that come in, until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    # What a package prints must not be taken for an answer.
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        os.environ.update(asked["environ"])
        try:
            told: Words = {"results": TALKS[asked["talk"]](asked["words"])}
        except Exception:  # noqa: BLE001  # The test that asked is to fail with it.
            told = {"error": traceback.format_exc()}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    run_talks()

"""The application of the Compose example: asks, keeps the history, asks again.

Rules:
- It knows nothing of the sidecar; one variable says where the provider is.
- `ASK_TURNS` ends it after so many questions, `ASK_SECONDS` is the pause between two.
"""

import itertools
import json
import os
import time
import urllib.request

QUESTIONS = (
    "What is a prefix cache?",
    "Why does a changed system prompt cost money?",
    "How long may a conversation get?",
)
Message = dict[str, str]


def main() -> None:
    """Hold one conversation until told to stop."""
    turns = int(os.environ.get("ASK_TURNS", "0"))
    pause_seconds = float(os.environ.get("ASK_SECONDS", "5"))
    history: list[Message] = [{"role": "system", "content": "You answer briefly."}]
    for turn in itertools.count(1):
        question = QUESTIONS[turn % len(QUESTIONS)]
        history.append({"role": "user", "content": f"{turn}. {question}"})
        answer = ask_provider(history)
        history.append({"role": "assistant", "content": answer})
        print(f"turn {turn}: {len(answer)} characters")  # noqa: T201  # What `compose logs` shows.
        if turn == turns:
            return
        time.sleep(pause_seconds)


def ask_provider(history: list[Message]) -> str:
    """Send the whole history, as every chat client does, and return the answer."""
    request = urllib.request.Request(  # noqa: S310  # The operator's own address.
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        data=json.dumps({"model": "fake", "messages": history}).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310  # As above.
        answer: str = json.load(reply)["choices"][0]["message"]["content"]
    return answer


if __name__ == "__main__":
    main()

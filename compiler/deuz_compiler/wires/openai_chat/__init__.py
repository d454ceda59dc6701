"""The OpenAI chat completions API, as many servers speak it."""

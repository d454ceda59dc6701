"""The Ollama API: chats and generation from one prompt."""

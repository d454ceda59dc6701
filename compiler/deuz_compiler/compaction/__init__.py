"""Pure plans that make a conversation smaller without breaking its rules."""

"""When context is looked up anew, and what a conversation must remember for that."""

"""The project-context-compiler form: a policy, strict records and a renderer."""

"""Amazon Bedrock: answers only, for a signed body is never touched."""

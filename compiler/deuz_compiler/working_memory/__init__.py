"""Working memory: what a long task must not lose, as a value that patches change."""

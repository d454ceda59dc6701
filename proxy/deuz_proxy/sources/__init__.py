"""Where candidates come from; each module is one source, a `ports.Source`."""

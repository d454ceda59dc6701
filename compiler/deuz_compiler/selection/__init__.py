"""Which candidates enter: gates, closures, classes, shares, order, repair, search."""

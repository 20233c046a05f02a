"""connect: called by a schedule, by triggers and by itself, runs connectors."""

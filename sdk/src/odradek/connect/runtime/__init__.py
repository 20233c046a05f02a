"""Workers: the state of a Connect cluster in topics, who runs what, and the loops of tasks."""

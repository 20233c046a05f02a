"""Two streams joined where their records lie close in time."""

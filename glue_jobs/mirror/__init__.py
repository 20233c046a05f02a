"""Topics of one installation kept in another."""

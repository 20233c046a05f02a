"""What tests of Connect share."""

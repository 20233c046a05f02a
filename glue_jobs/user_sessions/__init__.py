"""What each user did between two pauses."""

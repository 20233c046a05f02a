"""Sessions of users: their events between two pauses."""

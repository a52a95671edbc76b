"""The scheduler: pure policy in small files, and the actor around it."""

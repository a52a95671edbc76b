"""The metadata builder: a pure function from plan to batch, and the actor around it."""

"""Language models served by actors."""

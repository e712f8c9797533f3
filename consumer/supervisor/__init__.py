"""Several workers on one machine: one light process starts them, lets them join together, and restarts what dies."""

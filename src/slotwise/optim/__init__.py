"""Prices, cost curves, the program over slots and the planner."""

"""The virtual clock, and figures of a run."""

"""The paper's experiments: each a claim, the runs that test it, and a verdict."""

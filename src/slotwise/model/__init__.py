"""What is scheduled: jobs, machines, and what is committed on them."""

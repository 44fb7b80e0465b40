"""Where jobs come from: generators, own lists, traces."""

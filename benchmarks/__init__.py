"""Speed and memory, as ratios measured in one run against a named reference: `make bench`."""

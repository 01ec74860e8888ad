"""What a problem is made of: parts and their checks, networks, tasks, supplies, training rules, activations."""

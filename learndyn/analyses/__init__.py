"""Numbers that one reads off learning curves."""

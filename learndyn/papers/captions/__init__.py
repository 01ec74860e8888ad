"""What is told of the pictures of the papers without making them, a module for each module that makes them."""
